"""Every route of the API, one row each: who may call it, what it takes, what it answers.

The router, the permission check, OpenAPI and the docs page are made from this table.
"""

from __future__ import annotations

from api.routes import (
    agent_keys,
    aliases,
    attributes,
    audit,
    batch,
    capabilities,
    cards,
    conflicts,
    consolidation,
    content,
    decay,
    deltas,
    doctor,
    embeddings,
    episodes,
    erasures,
    export,
    fact_list,
    facts,
    federation,
    federation_facts,
    federation_tombstones,
    feedback,
    formalities,
    gardens,
    graph,
    intents,
    jobs,
    keys,
    manifests,
    memories,
    pages,
    profiles,
    provenance,
    quarantine,
    recall,
    receipts,
    replication,
    scopes,
    snapshots,
    subscriptions,
    summaries,
    system,
    time_travel,
    tombstones,
    trust,
)
from api.routing import Route
from api.schemas import answers, memory
from api.schemas import capabilities as capability
from api.schemas import erasures as erasure
from api.schemas import federation as peering
from api.schemas import federation_facts as federated
from api.schemas import manifests as manifest
from api.schemas import replication as replicating
from api.schemas import snapshots as snapshotting
from api.schemas import subscriptions as subscribing
from api.schemas import summaries as summarised
from api.schemas import tombstones as tombstoning
from api.schemas.aliases import (
    AliasesQuery,
    AliasRecord,
    AliasRequest,
    ResolvedName,
    ResolveQuery,
)
from api.schemas.attributes import AttributesPatch
from api.schemas.audit import (
    JournalAnswer,
    JournalRequest,
    TrailEntry,
    TrailExportQuery,
    TrailPage,
    TrailQuery,
)
from api.schemas.conflicts import ConflictsQuery, ResolveRequest
from api.schemas.content import FlaggedQuery, ReviewRequest
from api.schemas.decay import PolicyRequest, SetValuedRequest, SweepRequest
from api.schemas.embeddings import ReindexBody
from api.schemas.erasures import ErasureRequest, ErasuresQuery, HoldRequest
from api.schemas.export import ExportQuery
from api.schemas.facts import (
    AssertRequest,
    BatchItem,
    BatchQuery,
    FactsQuery,
    MomentQuery,
    ProvenanceQuery,
    RetractRequest,
)
from api.schemas.fork import ForkBody
from api.schemas.gardens import (
    GardenRequest,
    MemberRequest,
    PromoteRequest,
    QuarantineQuery,
    RejectRequest,
    ReviewQuery,
    RoleRequest,
)
from api.schemas.intents import IntentRecord, IntentRequest
from api.schemas.keys import AgentKeyRequest, ExpiringQuery, KeyRequest, KeysQuery
from api.schemas.memories import MemoryRequest, MergeRequest
from api.schemas.profiles import ProfileDocument
from api.schemas.recall import (
    CardQuery,
    FeedbackRequest,
    LegacyQuery,
    NeighborsQuery,
    RecallBody,
    RecallQuery,
    ReceiptsQuery,
)
from api.schemas.scopes import LintBody, LintReport, Synthesis, SynthesisQuery
from api.schemas.time_travel import DiffQuery, LifeQuery, SqlBody, StateQuery
from api.schemas.trust import TrustPage, TrustPolicyRequest, TrustQuery, TrustRecord, TrustRequest

_SESSION = ("Stigmem-Session",)
_WRITE = ("Stigmem-Session", "Idempotency-Key")
_FACTS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/facts", handler=facts.assert_fact, permission="write",
        group="facts", summary="State a fact", body=AssertRequest,
        answers={201: answers.FactRecord}, errors=(400, 404, 409, 413, 503, 507), headers=_WRITE,
    ),
    Route(
        method="PUT", path="/v1/facts", handler=facts.assert_fact, permission="write",
        group="facts", summary="State a fact (the same as POST)", body=AssertRequest,
        answers={201: answers.FactRecord}, errors=(400, 404, 409, 413, 503, 507), headers=_WRITE,
    ),
    Route(
        method="GET", path="/v1/facts", handler=fact_list.list_facts, permission="read",
        group="facts", summary="List facts, newest first", query=FactsQuery,
        answers={200: answers.FactPage}, errors=(400, 404, 501), headers=_SESSION,
    ),
    Route(
        method="POST", path="/v1/facts/batch", handler=batch.write_batch, permission="write",
        group="facts", summary="Write many items in one request", body=BatchItem, lines=True,
        query=BatchQuery, answers={200: answers.BatchAnswer}, errors=(400, 409, 413, 503, 507),
        headers=_WRITE,
    ),
    Route(
        method="GET", path="/v1/facts/{fact_id}", handler=facts.get_fact, permission="read",
        group="facts", summary="One fact, by id or by sha256: content id", query=MomentQuery,
        answers={200: answers.FactRecord}, errors=(400, 404, 409, 410, 501), headers=_SESSION,
    ),
    Route(
        method="PATCH", path="/v1/facts/{fact_id}", handler=facts.patch_fact, permission="write",
        group="facts", summary="Refused: facts never change", errors=(400, 405, 413, 422),
    ),
    Route(
        method="PATCH", path="/v1/facts/{fact_id}/attributes", handler=attributes.set_attributes,
        permission="write", group="facts", summary="Set attributes of a fact",
        body=AttributesPatch, answers={200: answers.AttributesTaken},
        errors=(400, 404, 409, 413, 503, 507), headers=("Idempotency-Key",),
    ),
    Route(
        method="GET", path="/v1/facts/{fact_id}/provenance", handler=provenance.provenance,
        permission="read", group="facts", summary="What a fact was derived from, hop by hop",
        query=ProvenanceQuery, answers={200: answers.Provenance}, errors=(400, 404, 501),
        headers=_SESSION,
    ),
    Route(
        method="POST", path="/v1/facts/{fact_id}/verify-cid", handler=facts.verify_cid,
        permission="read", group="facts", summary="Check a fact against its content id",
        answers={200: answers.CidCheck}, errors=(400, 404),
    ),
    Route(
        method="POST", path="/v1/facts/{fact_id}/retract", handler=facts.retract_fact,
        permission="write", group="facts", summary="Retract a fact", body=RetractRequest,
        body_required=False, answers={200: answers.Retracted},
        errors=(400, 404, 409, 413, 503, 507), headers=("Idempotency-Key",),
    ),
    Route(
        method="POST", path="/v1/memories", handler=memories.store_memory, permission="write",
        group="facts", summary="Store a memory, unless it was just said (abmind)",
        body=MemoryRequest, answers={200: answers.MemoryStored, 201: answers.MemoryStored},
        errors=(400, 404, 409, 413, 503, 507), headers=_WRITE,
    ),
    Route(
        method="POST", path="/v1/memories/merge", handler=memories.merge_memories,
        permission="write", group="facts", summary="Merge two memories into the newer (abmind)",
        body=MergeRequest, answers={200: answers.MemoriesMerged},
        errors=(400, 404, 409, 413, 503, 507), headers=("Idempotency-Key",),
    ),
)  # fmt: skip
_CONFLICTS: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/conflicts", handler=conflicts.list_conflicts, permission="read",
        group="conflicts", summary="List contradictions, newest first", query=ConflictsQuery,
        answers={200: answers.ConflictPage}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="POST", path="/v1/conflicts/{conflict_id}/resolve",
        handler=conflicts.resolve_conflict, permission="write", group="conflicts",
        summary="Settle a contradiction", body=ResolveRequest,
        answers={200: answers.Resolution}, errors=(400, 404, 409, 413, 503, 507),
        headers=("Idempotency-Key",),
    ),
)  # fmt: skip
_CONTENT: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/content/flagged", handler=content.list_flagged,
        permission="admin", group="content", summary="Facts that the sanitizer flagged",
        query=FlaggedQuery, answers={200: answers.FlaggedPage},
    ),
    Route(
        method="POST", path="/v1/content/flagged/{fact_id}/review", handler=content.review,
        permission="admin", group="content", summary="Release a flagged fact or keep it back",
        body=ReviewRequest, answers={200: answers.Reviewed},
        errors=(400, 404, 409, 413, 503, 507),
    ),
)  # fmt: skip
_RECALL: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/recall", handler=recall.recall_by_post, permission="read",
        group="recall", summary="Recall facts for a question", body=RecallBody,
        query=LegacyQuery, answers={200: answers.RecallResponse}, errors=(400, 409, 413, 501),
        headers=("Stigmem-Session", "Stigmem-Verify", "Accept"),
    ),
    Route(
        method="GET", path="/v1/recall", handler=recall.recall_by_get, permission="read",
        group="recall", summary="Recall facts for a short question", query=RecallQuery,
        answers={200: answers.RecallResponse}, errors=(400, 409, 501),
        headers=("Stigmem-Session", "Stigmem-Verify"),
    ),
    Route(
        method="POST", path="/v1/recall/feedback", handler=feedback.give_feedback,
        permission="write", group="recall", summary="Say which recalled facts were cited or wrong",
        body=FeedbackRequest, answers={200: answers.FeedbackTaken},
        errors=(400, 404, 409, 413, 503, 507), headers=("Idempotency-Key",),
    ),
    Route(
        method="GET", path="/v1/recall/receipts", handler=receipts.list_receipts,
        permission="read", group="recall", summary="Receipts of recalls, newest first",
        query=ReceiptsQuery, answers={200: answers.ReceiptPage}, errors=(400, 403),
    ),
    Route(
        method="GET", path="/v1/recall/receipts/{receipt_id}", handler=receipts.get_receipt,
        permission="read", group="recall", summary="The receipt of a recall",
        answers={200: answers.Receipt}, errors=(404,),
    ),
    Route(
        method="POST", path="/v1/recall/receipts/{receipt_id}/replay",
        handler=receipts.replay_receipt, permission="read", group="recall",
        summary="Ask a receipt's question again, then and now",
        answers={200: answers.ReplayedRecall}, errors=(400, 404),
    ),
    Route(
        method="GET", path="/v1/graph/neighbors", handler=graph.list_neighbors,
        permission="read", group="recall", summary="Neighbours of an entity",
        query=NeighborsQuery, answers={200: answers.NeighborPage}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/cards/{entity_uri:.+}", handler=cards.get_card,
        permission="read", group="recall", summary="The memory card of an entity",
        query=CardQuery, answers={200: answers.MemoryCard}, errors=(400, 404, 501, 503),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/profiles", handler=profiles.list_profiles, permission="read",
        group="recall", summary="Recall profiles", answers={200: answers.Profiles},
    ),
    Route(
        method="GET", path="/v1/profiles/{name}", handler=profiles.get_profile,
        permission="read", group="recall", summary="One recall profile",
        answers={200: answers.ProfileRecord}, errors=(404,),
    ),
    Route(
        method="PUT", path="/v1/profiles/{name}", handler=profiles.put_profile,
        permission="admin", group="recall", summary="Install a recall profile",
        body=ProfileDocument, answers={200: answers.ProfileRecord}, errors=(400, 413),
        headers=("Idempotency-Key",),
    ),
    Route(
        method="DELETE", path="/v1/profiles/{name}", handler=profiles.delete_profile,
        permission="admin", group="recall", summary="Remove an installed profile",
        answers={204: None}, errors=(404,),
    ),
)  # fmt: skip
_DECAY: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/decay/policies", handler=decay.list_policies, permission="read",
        group="decay", summary="Decay policies in force", answers={200: answers.Policies},
    ),
    Route(
        method="GET", path="/v1/decay/policies/{policy_id}", handler=decay.get_policy,
        permission="read", group="decay", summary="One decay policy",
        answers={200: answers.Policy}, errors=(404,),
    ),
    Route(
        method="PUT", path="/v1/decay/policies/{policy_id}", handler=decay.put_policy,
        permission="write", group="decay", summary="Set a decay policy", body=PolicyRequest,
        answers={200: answers.Policy}, errors=(400, 413, 503, 507),
    ),
    Route(
        method="DELETE", path="/v1/decay/policies/{policy_id}", handler=decay.delete_policy,
        permission="write", group="decay", summary="Remove a decay policy", answers={204: None},
        errors=(404, 503, 507),
    ),
    Route(
        method="POST", path="/v1/decay/sweep", handler=decay.sweep, permission="write",
        group="decay", summary="Let decay act now", body=SweepRequest, body_required=False,
        query=SweepRequest, answers={200: answers.Swept, 202: answers.JobAccepted},
        errors=(400, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/decay/jobs/{job_id}", handler=jobs.sweep_job,
        permission="read", group="decay", summary="A sweep that became a job",
        answers={200: answers.SweepJob}, errors=(404,),
    ),
    Route(
        method="GET", path="/v1/relations/set-valued", handler=decay.get_set_valued,
        permission="read", group="decay", summary="Relations that may hold several values",
        answers={200: answers.SetValued},
    ),
    Route(
        method="PUT", path="/v1/relations/set-valued", handler=decay.put_set_valued,
        permission="write", group="decay", summary="Replace the list of set-valued relations",
        body=SetValuedRequest, answers={200: answers.SetValued}, errors=(400, 413, 503, 507),
    ),
)  # fmt: skip
_SCOPES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/lint", handler=scopes.lint_scope, permission="read",
        group="scopes", summary="What deserves a second look in a scope", body=LintBody,
        answers={200: LintReport, 202: answers.JobAccepted}, errors=(400, 413, 501, 503),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/lint/jobs/{job_id}", handler=jobs.lint_job,
        permission="read", group="scopes", summary="A lint that became a job",
        answers={200: answers.LintJob}, errors=(404,),
    ),
    Route(
        method="GET", path="/v1/scopes/{scope}/synthesize", handler=scopes.synthesize_scope,
        permission="read", group="scopes", summary="What a scope knows, in numbers",
        query=SynthesisQuery, answers={200: Synthesis}, errors=(400, 501),
        headers=_SESSION,
    ),
)  # fmt: skip
_TRUST: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/trust/sources", handler=trust.list_sources, permission="admin",
        group="trust", summary="Trust in sources", query=TrustQuery,
        answers={200: TrustPage}, errors=(400, 501),
    ),
    Route(
        method="PUT", path="/v1/trust/sources", handler=trust.put_source, permission="admin",
        group="trust", summary="Set the trust in a source", body=TrustRequest,
        answers={200: TrustRecord}, errors=(400, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/trust/policy", handler=trust.get_policy, permission="admin",
        group="trust", summary="The formula's parameters", query=MomentQuery,
        answers={200: TrustPolicyRequest}, errors=(400, 501),
    ),
    Route(
        method="PUT", path="/v1/trust/policy", handler=trust.put_policy, permission="admin",
        group="trust", summary="Replace the formula's parameters", body=TrustPolicyRequest,
        answers={200: TrustPolicyRequest}, errors=(400, 413, 503, 507),
    ),
)  # fmt: skip
_KEYS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/auth/keys", handler=keys.create_key, permission="admin",
        group="keys", summary="Accept an API key", body=KeyRequest,
        answers={201: answers.KeyRecord}, errors=(400, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/auth/keys", handler=keys.list_keys, permission="any",
        group="keys", summary="The caller's keys", query=KeysQuery,
        answers={200: [answers.KeyRecord]}, errors=(403,),
    ),
    Route(
        method="GET", path="/v1/auth/keys/expiring-soon", handler=keys.expiring_keys,
        permission="any", group="keys", summary="Keys that expire soon", query=ExpiringQuery,
        answers={200: [answers.KeyRecord]}, errors=(403,),
    ),
    Route(
        method="DELETE", path="/v1/auth/keys/{key_id}", handler=keys.revoke_key,
        permission="any", group="keys", summary="Revoke a key", answers={204: None},
        errors=(403, 404, 503, 507),
    ),
)  # fmt: skip
_AGENT_KEYS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/auth/agent-keys", handler=agent_keys.register,
        permission="write", group="keys", summary="Register a public key for attestations",
        body=AgentKeyRequest, answers={201: answers.AgentKey}, errors=(400, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/auth/agent-keys", handler=agent_keys.list_own,
        permission="any", group="keys", summary="Public keys of the caller's entity",
        answers={200: [answers.AgentKey]},
    ),
    Route(
        method="DELETE", path="/v1/auth/agent-keys/{key_id}", handler=agent_keys.revoke,
        permission="any", group="keys", summary="Revoke a public key", answers={204: None},
        errors=(403, 404, 409, 503, 507),
    ),
)  # fmt: skip
_CAPABILITIES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/capabilities", handler=capabilities.issue_capability,
        permission="any", group="capabilities", summary="Sign a capability token",
        body=capability.CapabilityRequest, answers={201: capability.IssuedCapability},
        errors=(400, 403, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/capabilities", handler=capabilities.list_capabilities,
        permission="any", group="capabilities", summary="Capabilities that the caller issued",
        query=capability.CapabilitiesQuery, answers={200: capability.CapabilityPage},
        errors=(403,),
    ),
    Route(
        method="POST", path="/v1/capabilities/inspect", handler=capabilities.inspect_capability,
        permission="any", group="capabilities", summary="What a token says and whether it holds",
        body=capability.TokenBody, answers={200: capability.CapabilityClaims}, errors=(400, 413),
    ),
    Route(
        method="POST", path="/v1/capabilities/{token_id}/revoke",
        handler=capabilities.revoke_capability, permission="any", group="capabilities",
        summary="Revoke a token, or one derived from it", body=capability.RevokeBody,
        body_required=False, answers={200: capability.RevokedCapability},
        errors=(400, 403, 404, 409, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/federation/capability-tokens",
        handler=capabilities.protocol_issue, permission="any", group="capabilities",
        summary="Sign a token in the protocol's form", body=capability.ProtocolTokenRequest,
        answers={201: capability.ProtocolToken}, errors=(400, 403, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/federation/capability-tokens/verify",
        handler=capabilities.protocol_verify, permission="any", group="capabilities",
        summary="Whether a token's JSON holds", body=capability.ProtocolVerifyRequest,
        answers={200: capability.ProtocolVerified}, errors=(400, 413),
    ),
    Route(
        method="POST", path="/v1/federation/capability-tokens/{token_id}/revoke",
        handler=capabilities.protocol_revoke, permission="any", group="capabilities",
        summary="Revoke a token", body=capability.ProtocolRevokeRequest, body_required=False,
        answers={200: capability.RevokedCapability}, errors=(400, 403, 404, 409, 413, 503, 507),
    ),
)  # fmt: skip
_REPLICATION: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/replication/events", handler=replication.events,
        permission="replicate", group="replication", summary="The log, for replicas",
        query=replicating.EventsQuery, answers={200: "a page of events, zlib over MessagePack"},
        errors=(409,),
    ),
    Route(
        method="GET", path="/v1/replication/snapshots", handler=snapshots.documents,
        permission="replicate", group="replication", summary="Snapshots, for new replicas",
        answers={200: "one document a line, newest first"},
    ),
    Route(
        method="GET", path="/v1/replication/snapshots/{position}", handler=snapshots.contents,
        permission="replicate", group="replication", summary="The file of a snapshot",
        answers={200: "a file of tables"}, errors=(404,),
    ),
    Route(
        method="GET", path="/v1/replication", handler=replication.status, permission="admin",
        group="replication", summary="Primary or replica, and how it stands",
        answers={200: replicating.ReplicationStatus},
    ),
    Route(
        method="POST", path="/v1/replication/promote", handler=replication.promote,
        permission="admin", group="replication", summary="Make a replica a node of its own",
        answers={200: replicating.Promoted}, errors=(409, 503, 507),
    ),
)  # fmt: skip
_NAMES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/aliases", handler=aliases.set_alias, permission="write",
        group="names", summary="Give an entity another name", body=AliasRequest,
        answers={201: AliasRecord}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/aliases", handler=aliases.list_aliases, permission="read",
        group="names", summary="Other names of entities", query=AliasesQuery,
        answers={200: [AliasRecord]}, errors=(400, 501),
    ),
    Route(
        method="DELETE", path="/v1/aliases/{raw_uri:.+}", handler=aliases.delete_alias,
        permission="write", group="names", summary="Take an alias back", answers={204: None},
        errors=(400, 404, 503, 507),
    ),
    Route(
        method="GET", path="/v1/entities/resolve", handler=aliases.resolve_entity,
        permission="read", group="names", summary="Which entity a name means",
        query=ResolveQuery, answers={200: ResolvedName}, errors=(400, 501),
    ),
)  # fmt: skip
_AUDIT: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/audit", handler=audit.list_trail, permission="read",
        group="audit", summary="Who wrote and ended which facts", query=TrailQuery,
        answers={200: TrailPage}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/audit/export", handler=audit.export_trail, permission="read",
        group="audit", summary="The same as CSV", query=TrailExportQuery,
        answers={200: "CSV"}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/export", handler=export.export, permission="read",
        group="audit", summary="What the caller may read of the log, as import lines",
        query=ExportQuery, answers={200: "JSON lines"},
    ),
    Route(
        method="GET", path="/v1/audit/facts/{fact_id}", handler=audit.trail_of_fact,
        permission="read", group="audit", summary="Who wrote and ended a fact",
        query=MomentQuery, answers={200: [TrailEntry]}, errors=(400, 404, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/admin/audit", handler=audit.list_journal,
        permission="audit.read", group="audit", summary="Every event of the log",
        query=JournalRequest, answers={200: JournalAnswer}, errors=(400,),
    ),
)  # fmt: skip
_SUBSCRIPTIONS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/subscriptions", handler=subscriptions.create, permission="read",
        group="subscriptions", summary="Be told of changes", body=subscribing.SubscribeBody,
        answers={201: subscribing.SubscriptionRecord}, errors=(400, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/subscriptions", handler=subscriptions.list_own, permission="read",
        group="subscriptions", summary="The caller's subscriptions",
        answers={200: subscribing.Subscriptions},
    ),
    Route(
        method="GET", path="/v1/subscriptions/{subscription_id}", handler=subscriptions.get_one,
        permission="read", group="subscriptions", summary="One subscription",
        answers={200: subscribing.SubscriptionRecord}, errors=(404,),
    ),
    Route(
        method="DELETE", path="/v1/subscriptions/{subscription_id}", handler=subscriptions.delete,
        permission="read", group="subscriptions", summary="End a subscription",
        answers={204: None}, errors=(404, 503, 507),
    ),
    Route(
        method="GET", path="/v1/subscriptions/{subscription_id}/events",
        handler=subscriptions.list_events, permission="read", group="subscriptions",
        summary="What there was to tell", query=subscribing.EventsQuery,
        answers={200: subscribing.SubscriptionEvents}, errors=(400, 404),
    ),
    Route(
        method="GET", path="/v1/subscriptions/{subscription_id}/stream",
        handler=subscriptions.stream, permission="read", group="subscriptions",
        summary="The same as server-sent events", query=subscribing.StreamQuery,
        answers={200: "server-sent events"}, errors=(400, 404), headers=("Last-Event-ID",),
    ),
)  # fmt: skip
_FEDERATION: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/federation/declaration", handler=federation.own_declaration,
        permission="none", group="federation", summary="This node's own declaration",
        answers={200: peering.OwnDeclaration},
    ),
    Route(
        method="POST", path="/v1/federation/peers", handler=federation.register_peer,
        permission="federate", group="federation", summary="Register a node's declaration",
        body=peering.DeclarationBody, answers={201: peering.PeerRegistered},
        errors=(400, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/federation/peers", handler=federation.list_peers,
        permission="federate", group="federation", summary="Peers", answers={200: answers.Peers},
    ),
    Route(
        method="GET", path="/v1/federation/peers/{peer_id}", handler=federation.get_peer,
        permission="admin", group="federation", summary="A peer: grants, streams, evidence",
        answers={200: peering.PeerDetail}, errors=(404,),
    ),
    Route(
        method="POST", path="/v1/federation/peers/{peer_id}/approve",
        handler=federation.approve_peer, permission="admin", group="federation",
        summary="Approve a peer by its key's fingerprint", body=peering.ApproveBody,
        answers={200: peering.PeerApproved}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="PUT", path="/v1/federation/peers/{peer_id}/grants", handler=federation.set_grants,
        permission="admin", group="federation", summary="What a peer may do here",
        body=peering.GrantsBody, answers={200: peering.PeerChanged},
        errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/federation/peers/{peer_id}/revoke",
        handler=federation.revoke_peer, permission="admin", group="federation",
        summary="End a peering", body=peering.ReasonBody, body_required=False,
        answers={200: peering.PeerChanged}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/federation/peers/{peer_id}/release",
        handler=federation.release_stream, permission="admin", group="federation",
        summary="Replay a held stream again", body=peering.ReleaseBody,
        answers={200: peering.PeerChanged}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/federation/peers/{peer_id}/compare",
        handler=federation.compare_peer, permission="admin", group="federation",
        summary="Compare digests with a peer", answers={200: peering.PeerComparison},
        errors=(404, 503),
    ),
    Route(
        method="GET", path="/v1/federation/streams", handler=federation.streams,
        permission="peer", group="federation", summary="Signed heads, for peers",
        query=peering.StreamsQuery, answers={200: "signed heads"}, errors=(401,),
    ),
    Route(
        method="GET", path="/v1/federation/events", handler=federation.stream_events,
        permission="peer", group="federation", summary="Events of a stream, for peers",
        query=peering.StreamEventsQuery,
        answers={200: "a page of events, zlib over MessagePack", 204: None}, errors=(401, 404),
    ),
    Route(
        method="GET", path="/v1/federation/digests", handler=federation.digests,
        permission="peer", group="federation", summary="Digests of streams, for peers",
        answers={200: peering.StreamDigests}, errors=(401,),
    ),
)  # fmt: skip
_TOMBSTONES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/tombstones", handler=tombstones.set_tombstone,
        permission="admin", group="erasure", summary="Hide an entity from every answer",
        body=tombstoning.TombstoneRequest, answers={201: tombstoning.TombstoneMade},
        errors=(400, 409, 413, 423, 503, 507),
    ),
    Route(
        method="GET", path="/v1/tombstones", handler=tombstones.list_tombstones,
        permission="admin", group="erasure", summary="Tombstones, newest first",
        query=tombstoning.TombstonesQuery, answers={200: tombstoning.TombstonePage},
    ),
    Route(
        method="GET", path="/v1/tombstones/{entity_uri:.+}", handler=tombstones.tombstone_status,
        permission="admin", group="erasure", summary="Whether an entity is hidden",
        answers={200: tombstoning.TombstoneStatus}, errors=(400,),
    ),
    Route(
        method="POST", path="/v1/tombstones/{tombstone_id}/revoke",
        handler=tombstones.revoke_tombstone, permission="admin", group="erasure",
        summary="Let a tombstone hide nothing any more", body=tombstoning.RevokeRequest,
        answers={200: tombstoning.RevocationRecord}, errors=(400, 404, 409, 413, 503, 507),
    ),
)  # fmt: skip
_MANIFESTS: tuple[Route, ...] = (
    Route(
        method="PUT", path="/v1/federation/manifest", handler=manifests.put_manifest,
        permission="write", group="federation", summary="Put an organisation's manifest",
        body=manifest.ManifestBody, answers={200: manifest.ManifestPut},
        errors=(400, 403, 409, 413, 429, 503, 507),
    ),
    Route(
        method="GET", path="/v1/federation/manifest/{entity_uri:.+}",
        handler=manifests.get_manifest, permission="read", group="federation",
        summary="An organisation's manifest", answers={200: manifest.ManifestAnswer},
        errors=(400, 404),
    ),
    Route(
        method="GET", path="/.well-known/stigmem-manifest.json", handler=manifests.own_manifest,
        permission="none", group="federation", summary="This node's own manifest",
        answers={200: manifest.ManifestAnswer},
    ),
)  # fmt: skip
_FEDERATION_FACTS: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/federation/facts", handler=federation_facts.pull,
        permission="peer", group="federation", summary="Facts for peers (wire 3.3)",
        query=federated.PullQuery, answers={200: federated.PullPage}, errors=(400, 401, 403),
    ),
    Route(
        method="POST", path="/v1/federation/facts/push", handler=federation_facts.push,
        permission="peer", group="federation", summary="Facts from peers (wire 3.4)",
        body=federated.PushBody, answers={202: federated.PushAnswer},
        errors=(400, 401, 403, 405, 409, 413, 503, 507), headers=("X-Stigmem-Capability",),
    ),
    Route(
        method="GET", path="/v1/federation/pulls", handler=federation_facts.pulls,
        permission="federate", group="federation", summary="How pulling each peer stands",
        answers={200: federated.PulledPeers},
    ),
    Route(
        method="GET", path="/v1/federation/tombstones", handler=federation_tombstones.shared,
        permission="peer", group="federation", summary="Tombstones for peers",
        query=tombstoning.SharedQuery, answers={200: tombstoning.SharedTombstones},
        errors=(401, 403),
    ),
    Route(
        method="POST", path="/v1/federation/tombstones/ingest",
        handler=federation_tombstones.ingest, permission="peer", group="federation",
        summary="A tombstone from a peer", body=tombstoning.SharedRecord,
        answers={201: tombstoning.Taken}, errors=(400, 401, 403, 404, 409, 413, 503, 507),
    ),
)  # fmt: skip
_INTENTS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/intents", handler=intents.create_intent, permission="write",
        group="intents", summary="State an intent", body=IntentRequest,
        answers={201: IntentRecord}, errors=(400, 409, 413, 503, 507), headers=_WRITE,
    ),
    Route(
        method="GET", path="/v1/intents/{intent_id:.+}", handler=intents.get_intent,
        permission="read", group="intents", summary="One intent", query=MomentQuery,
        answers={200: IntentRecord}, errors=(400, 404, 501), headers=_SESSION,
    ),
)  # fmt: skip
_GARDENS: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/gardens", handler=gardens.create_garden, permission="write",
        group="gardens", summary="Make a garden", body=GardenRequest,
        answers={201: answers.GardenRecord}, errors=(400, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/gardens", handler=gardens.list_gardens, permission="read",
        group="gardens", summary="The caller's gardens",
        answers={200: [answers.GardenRecord]},
    ),
    Route(
        method="GET", path="/v1/gardens/{garden_id}", handler=gardens.get_garden,
        permission="read", group="gardens", summary="One garden, by slug, id or URI",
        answers={200: answers.GardenRecord}, errors=(404,),
    ),
    Route(
        method="DELETE", path="/v1/gardens/{garden_id}", handler=gardens.delete_garden,
        permission="write", group="gardens", summary="Delete a garden", answers={204: None},
        errors=(404, 409, 503, 507),
    ),
    Route(
        method="GET", path="/v1/gardens/{garden_id}/members", handler=gardens.list_members,
        permission="read", group="gardens", summary="Members of a garden",
        answers={200: [answers.GardenMember]}, errors=(404,),
    ),
    Route(
        method="POST", path="/v1/gardens/{garden_id}/members", handler=gardens.add_member,
        permission="write", group="gardens", summary="Add a member", body=MemberRequest,
        answers={201: answers.GardenMember}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="PATCH", path="/v1/gardens/{garden_id}/members/{entity_uri:.+}",
        handler=gardens.change_member, permission="write", group="gardens",
        summary="Change a member's role", body=RoleRequest,
        answers={200: answers.GardenMember}, errors=(400, 404, 413, 503, 507),
    ),
    Route(
        method="DELETE", path="/v1/gardens/{garden_id}/members/{entity_uri:.+}",
        handler=gardens.remove_member, permission="write", group="gardens",
        summary="Remove a member", answers={204: None}, errors=(400, 404, 503, 507),
    ),
    Route(
        method="POST", path="/v1/gardens/{garden_id}/promote", handler=quarantine.promote,
        permission="write", group="gardens", summary="Admit a fact from quarantine",
        body=PromoteRequest, answers={200: answers.Admitted},
        errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/gardens/{garden_id}/reject", handler=quarantine.reject,
        permission="write", group="gardens", summary="Reject a fact from quarantine",
        body=RejectRequest, answers={200: answers.Rejected},
        errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/quarantine", handler=quarantine.list_quarantined,
        permission="read", group="gardens", summary="Facts in quarantine",
        query=QuarantineQuery, answers={200: answers.QuarantinePage}, errors=(404,),
    ),
    Route(
        method="POST", path="/v1/quarantine/{fact_id}/admit", handler=quarantine.admit_fact,
        permission="write", group="gardens", summary="Admit a fact from quarantine, by its id",
        query=ReviewQuery, answers={200: answers.Admitted}, errors=(400, 404, 409, 503, 507),
    ),
    Route(
        method="POST", path="/v1/quarantine/{fact_id}/reject", handler=quarantine.reject_fact,
        permission="write", group="gardens", summary="Reject a fact from quarantine, by its id",
        query=ReviewQuery, answers={200: answers.Rejected}, errors=(404, 409, 503, 507),
    ),
)  # fmt: skip
_ERASURES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/erasures", handler=erasures.begin_erasure, permission="admin",
        group="erasure", summary="Erase facts for good", body=ErasureRequest,
        answers={202: erasure.ErasureBegun}, errors=(400, 404, 413, 423, 503, 507),
    ),
    Route(
        method="GET", path="/v1/erasures", handler=erasures.list_erasures, permission="admin",
        group="erasure", summary="Erasures, newest first", query=ErasuresQuery,
        answers={200: erasure.ErasurePage},
    ),
    Route(
        method="GET", path="/v1/erasures/{erasure_id}", handler=erasures.get_erasure,
        permission="admin", group="erasure", summary="Where an erasure stands, and its receipt",
        answers={200: erasure.ErasureRecord}, errors=(404,),
    ),
    Route(
        method="GET", path="/v1/legal-holds", handler=erasures.list_holds, permission="admin",
        group="erasure", summary="What may not be erased", answers={200: erasure.Holds},
    ),
    Route(
        method="PUT", path="/v1/legal-holds", handler=erasures.put_hold, permission="admin",
        group="erasure", summary="Hold a fact or entity, or let it go", body=HoldRequest,
        answers={200: erasure.Holds}, errors=(400, 404, 413, 503, 507),
    ),
)  # fmt: skip
_SUMMARIES: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/summaries", handler=summaries.list_summaries, permission="read",
        group="summaries", summary="Summaries of days, weeks and quarters, newest first",
        query=summarised.SummariesQuery,
        answers={200: summarised.SummaryPage}, errors=(400, 404, 501),
    ),
    Route(
        method="POST", path="/v1/summaries", handler=summaries.record_summaries,
        permission="write", group="summaries", summary="Record summaries, or that they are gone",
        body=summarised.SummariesRequest,
        answers={200: summarised.SummariesAnswer, 201: summarised.SummariesAnswer},
        errors=(400, 404, 413, 503, 507),
    ),
)  # fmt: skip
_EPISODES: tuple[Route, ...] = (
    Route(
        method="POST", path="/v1/episodes", handler=episodes.record_episode, permission="write",
        group="episodes", summary="Record an episode", body=memory.EpisodeRequest,
        answers={200: memory.EpisodeRecord, 201: memory.EpisodeRecord},
        errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/episodes", handler=episodes.list_episodes, permission="read",
        group="episodes", summary="A user's episodes, newest first",
        query=memory.EpisodesQuery, answers={200: memory.EpisodePage}, errors=(400, 404, 501),
    ),
    Route(
        method="POST", path="/v1/episodes/batch", handler=episodes.record_episodes,
        permission="write", group="episodes", summary="Record several episodes",
        body=memory.EpisodesRequest,
        answers={200: memory.EpisodesAnswer, 201: memory.EpisodesAnswer},
        errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="POST", path="/v1/episodes/accesses", handler=episodes.note_access,
        permission="read", group="episodes", summary="Note that episodes were looked at",
        body=memory.AccessRequest, answers={200: memory.AccessAnswer},
        errors=(400, 404, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/episodes/{episode_id}", handler=episodes.get_episode,
        permission="read", group="episodes", summary="One episode and what came of it",
        query=memory.RunsQuery, answers={200: memory.EpisodeDetail}, errors=(400, 404, 501),
    ),
    Route(
        method="POST", path="/v1/deltas", handler=deltas.apply_deltas, permission="write",
        group="episodes", summary="Apply deltas to a user's facts", body=memory.DeltasRequest,
        answers={200: memory.DeltasAnswer}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/deltas", handler=deltas.list_deltas, permission="read",
        group="episodes", summary="Deltas, newest first", query=memory.DeltasQuery,
        answers={200: memory.DeltaPage}, errors=(400, 501),
    ),
    Route(
        method="GET", path="/v1/deltas/facts", handler=deltas.list_facts, permission="read",
        group="episodes", summary="Facts that deltas wrote, with their lineage",
        query=memory.MemoryFactsQuery, answers={200: memory.MemoryFactPage}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/consolidation/rules", handler=consolidation.list_rules,
        permission="read", group="episodes", summary="Consolidation rules",
        query=memory.RunsQuery, answers={200: memory.RulePage}, errors=(400, 501),
    ),
    Route(
        method="GET", path="/v1/consolidation/rules/{rule_id}", handler=consolidation.get_rule,
        permission="read", group="episodes", summary="One consolidation rule",
        query=memory.RunsQuery, answers={200: memory.RuleRecord}, errors=(400, 404, 501),
    ),
    Route(
        method="PUT", path="/v1/consolidation/rules/{rule_id}", handler=consolidation.put_rule,
        permission="admin", group="episodes", summary="Install a consolidation rule",
        body=memory.RuleDocument,
        answers={200: memory.RuleRecord, 201: memory.RuleRecord},
        errors=(400, 404, 413, 503, 507),
    ),
    Route(
        method="DELETE", path="/v1/consolidation/rules/{rule_id}",
        handler=consolidation.delete_rule, permission="admin", group="episodes",
        summary="Remove a consolidation rule", answers={204: None}, errors=(404, 503, 507),
    ),
    Route(
        method="POST", path="/v1/consolidation/rules/{rule_id}/run",
        handler=consolidation.run_rule, permission="write", group="episodes",
        summary="Run a consolidation rule now", body=memory.RunRequest,
        answers={200: memory.RunAnswer}, errors=(400, 404, 409, 413, 503, 507),
    ),
    Route(
        method="GET", path="/v1/consolidation/status", handler=consolidation.status,
        permission="read", group="episodes", summary="How far consolidation is",
        query=memory.RunsQuery, answers={200: memory.ConsolidationStatus}, errors=(400, 501),
    ),
    Route(
        method="POST", path="/v1/consolidation/triples", handler=deltas.promote_triples,
        permission="write", group="episodes", summary="Promote triples to facts",
        body=memory.TriplesRequest, answers={200: memory.DeltasAnswer},
        errors=(400, 404, 409, 413, 503, 507),
    ),
)  # fmt: skip
_NODE: tuple[Route, ...] = (
    Route(
        method="GET", path="/.well-known/stigmem", handler=system.discovery, permission="none",
        group="node", summary="Discovery", answers={200: answers.NodeInfo},
    ),
    Route(
        method="GET", path="/healthz", handler=system.health, permission="none", group="node",
        summary="The process answers", answers={200: answers.Health},
    ),
    Route(
        method="GET", path="/v1/health", handler=system.health, permission="none", group="node",
        summary="The process answers (alias)", answers={200: answers.Health},
    ),
    Route(
        method="GET", path="/readyz", handler=system.ready, permission="none", group="node",
        summary="The node can serve", answers={200: answers.Ready, 503: answers.Ready},
    ),
    Route(
        method="GET", path="/metrics", handler=system.metrics, permission="none", group="node",
        summary="Prometheus metrics", answers={200: None},
    ),
    Route(
        method="GET", path="/v1/me", handler=system.me, permission="any", group="node",
        summary="Who the caller is", answers={200: answers.Me},
    ),
    Route(
        method="GET", path="/v1/doctor", handler=doctor.doctor, permission="any", group="node",
        summary="A short self-check", answers={200: answers.Doctor},
    ),
    Route(
        method="GET", path="/v1/admin/cid-backfill/status", handler=formalities.cid_backfill,
        permission="read", group="node", summary="Whether every fact has a content id",
        answers={200: answers.CidBackfill},
    ),
    Route(
        method="POST", path="/v1/auth/oidc/exchange", handler=formalities.oidc_exchange,
        permission="none", group="node", summary="Not enabled: keys are made by admins",
        errors=(503,),
    ),
    Route(
        method="GET", path="/v1/mcp/connectors", handler=formalities.mcp_connectors,
        permission="none", group="node", summary="Editors that speak MCP, and their files",
        answers={200: answers.Connectors},
    ),
    Route(
        method="POST", path="/v1/admin/rebuild", handler=system.start_rebuild,
        permission="admin", group="node", summary="Rebuild the projections",
        body=snapshotting.RebuildBody, body_required=False,
        answers={202: answers.Rebuild}, errors=(400, 409, 413),
    ),
    Route(
        method="GET", path="/v1/admin/rebuild", handler=system.rebuild_progress,
        permission="admin", group="node", summary="How far the rebuild is",
        answers={200: answers.Rebuild},
    ),
    Route(
        method="POST", path="/v1/admin/snapshots", handler=snapshots.take, permission="admin",
        group="node", summary="Take a snapshot of the tables", body=snapshotting.SnapshotBody,
        body_required=False, answers={202: snapshotting.SnapshotJob}, errors=(400, 409, 413),
    ),
    Route(
        method="GET", path="/v1/admin/snapshots", handler=snapshots.list_all, permission="admin",
        group="node", summary="Snapshots of the tables",
        answers={200: snapshotting.SnapshotList},
    ),
    Route(
        method="POST", path="/v1/admin/snapshots/verify", handler=snapshots.verify,
        permission="admin", group="node", summary="Read every row of snapshots",
        body=snapshotting.VerifyBody, body_required=False,
        answers={202: snapshotting.SnapshotJob}, errors=(400, 409, 413),
    ),
    Route(
        method="DELETE", path="/v1/admin/snapshots/{position}", handler=snapshots.remove,
        permission="admin", group="node", summary="Remove a snapshot",
        answers={200: snapshotting.SnapshotRemoved}, errors=(404,),
    ),
    Route(
        method="GET", path="/v1/embeddings", handler=embeddings.embedding_status,
        permission="admin", group="node", summary="What facts are embedded with, and how far",
        answers={200: answers.EmbeddingStatus},
    ),
    Route(
        method="POST", path="/v1/embeddings/reindex", handler=embeddings.start_reindex,
        permission="admin", group="node", summary="Embed all facts with another model",
        body=ReindexBody, body_required=False, answers={202: answers.Reindex}, errors=(400, 409),
    ),
    Route(
        method="GET", path="/openapi.json", handler=system.openapi, permission="none",
        group="node", summary="This API's description", answers={200: "OpenAPI 3.1"},
    ),
    Route(
        method="GET", path="/docs", handler=system.docs, permission="none", group="node",
        summary="This API's documentation", answers={200: None},
    ),
    Route(
        method="GET", path="/ui", handler=pages.ui, permission="none", group="node",
        summary="A page to look through the memory with", answers={200: None},
    ),
)  # fmt: skip

_TIME_TRAVEL: tuple[Route, ...] = (
    Route(
        method="GET", path="/v1/time-travel/state", handler=time_travel.state, permission="read",
        group="time travel", summary="What was known at a moment", query=StateQuery,
        answers={200: answers.State}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/time-travel/diff", handler=time_travel.diff, permission="read",
        group="time travel", summary="What changed between two moments", query=DiffQuery,
        answers={200: answers.Difference}, errors=(400, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/time-travel/facts/{fact_id}", handler=time_travel.life_of_fact,
        permission="read", group="time travel", summary="The life of a fact", query=LifeQuery,
        answers={200: answers.FactLife}, errors=(400, 404, 501),
        headers=_SESSION,
    ),
    Route(
        method="GET", path="/v1/time-travel/entities/{entity_uri:.+}",
        handler=time_travel.life_of_entity, permission="read", group="time travel",
        summary="The life of an entity", query=LifeQuery,
        answers={200: answers.EntityLife}, errors=(400, 404, 501),
    ),
    Route(
        method="POST", path="/v1/time-travel/sql", handler=time_travel.sql,
        permission="audit.read", group="time travel", summary="Read-only SQL over the log",
        body=SqlBody, answers={200: answers.SqlAnswer}, errors=(400, 501),
    ),
    Route(
        method="POST", path="/v1/time-travel/fork", handler=time_travel.fork_moment,
        permission="read", group="time travel", summary="What if something had been said",
        body=ForkBody, answers={200: answers.Fork}, errors=(400, 404, 409, 413, 501),
        headers=_SESSION,
    ),
)  # fmt: skip

ROUTES: tuple[Route, ...] = (
    *_FACTS, *_CONFLICTS, *_CONTENT, *_RECALL, *_GARDENS, *_SCOPES, *_DECAY, *_TRUST, *_TIME_TRAVEL,
    *_AUDIT, *_NAMES, *_INTENTS, *_EPISODES, *_KEYS, *_AGENT_KEYS, *_CAPABILITIES, *_ERASURES,
    *_TOMBSTONES, *_SUMMARIES, *_SUBSCRIPTIONS, *_REPLICATION, *_FEDERATION, *_FEDERATION_FACTS,
    *_MANIFESTS, *_NODE,
)  # fmt: skip
"""In the order of the documentation."""
