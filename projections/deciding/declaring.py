"""What operators declare: keys, policies, sweeps, profiles, trust, the node itself."""

from __future__ import annotations

from uuid import uuid4

from eventlog.kinds import (
    DecaySwept,
    EmbeddingModelPinned,
    EpochStarted,
    KeyIssued,
    KeyRevoked,
    NodeKeyRotated,
    PolicySet,
    ProfileSet,
    RecallServed,
    ReplicaPromoted,
    SetValuedDeclared,
    SourceTrustSet,
    TrustPolicySet,
)
from projections import intents as ask
from projections.deciding.capabilities import revocations_of_key
from projections.deciding.context import Context, Decision
from projections.intents import Refused
from projections.moment import LIVE
from projections.policies import pinned_model, set_valued_relations
from projections.trust import trust_policy


def sweep_decay(intent: ask.SweepDecay, context: Context) -> Decision:
    """One event a scope, with the policies as they stand."""
    drafts = [
        context.draft(
            DecaySwept(
                scope=scope,
                at_us=context.now_us,
                policies=list(intent.policies),
                gardens=sorted(intent.gardens),
            )
        )
        for scope in intent.scopes
    ]
    return Decision(drafts)


def issue_key(intent: ask.IssueKey, context: Context) -> Decision | Refused:
    """A new API key; the same raw key twice is refused."""
    context.flush()
    taken = context.db.execute(
        "SELECT 1 FROM api_keys WHERE key_sha256=?", (intent.key_sha256,)
    ).fetchone()
    if taken is not None:
        return Refused("key_exists", "raw_key already exists; choose another", "raw_key")
    key_id = str(uuid4())
    payload = KeyIssued(
        key_id=key_id,
        entity_uri=intent.entity_uri,
        permissions=sorted(intent.permissions),
        key_sha256=intent.key_sha256,
        scopes=list(intent.scopes),
        description=intent.description,
        expires_at_us=intent.expires_at_us,
        sources=list(intent.sources),
        max_classification=intent.max_classification,
    )
    return Decision([context.draft(payload)], detail={"key_id": key_id})


def revoke_key(intent: ask.RevokeKey, context: Context) -> Decision | Refused:
    """The key opens nothing from here on, nor do the capabilities asked for with it."""
    context.flush()
    row = context.db.execute(
        "SELECT to_position FROM api_keys WHERE key_id=?", (intent.key_id,)
    ).fetchone()
    if row is None or row[0] != LIVE:
        return Refused("key_not_found", "key not found", "key_id")
    revoked = context.draft(KeyRevoked(key_id=intent.key_id, reason=intent.reason))
    return Decision([revoked, *revocations_of_key(context, intent.key_id)])


def set_policy(intent: ask.SetPolicy, context: Context) -> Decision | Refused:
    """Install or remove a decay policy."""
    context.flush()
    if intent.policy is None:
        row = context.db.execute(
            "SELECT 1 FROM declarations WHERE sort='decay' AND name=? AND to_position=?",
            (intent.policy_id, LIVE),
        ).fetchone()
        if row is None:
            return Refused("policy_not_found", "decay policy not found", "id")
    payload = PolicySet(policy_id=intent.policy_id, policy=intent.policy)
    return Decision([context.draft(payload)])


def declare_set_valued(intent: ask.DeclareSetValued, context: Context) -> Decision:
    """Replace the list of set-valued relations; nothing where it is so already."""
    context.flush()
    wanted = sorted(set(intent.relations))
    if wanted == sorted(set_valued_relations(context.db, LIVE - 1)):
        return Decision([], created=False)
    return Decision([context.draft(SetValuedDeclared(relations=wanted))])


def set_profile(intent: ask.SetProfile, context: Context) -> Decision:
    """Install or remove a recall profile."""
    return Decision([context.draft(ProfileSet(name=intent.name, document=intent.document))])


def set_source_trust(intent: ask.SetSourceTrust, context: Context) -> Decision:
    """Trust a source to a degree from here on."""
    payload = SourceTrustSet(source=intent.source, trust=intent.trust, reason=intent.reason)
    return Decision([context.draft(payload)])


def set_trust_policy(intent: ask.SetTrustPolicy, context: Context) -> Decision:
    """Change how trust is computed; nothing where it is so already."""
    context.flush()
    if intent.policy == trust_policy(context.db, LIVE - 1):
        return Decision([], created=False)
    return Decision([context.draft(TrustPolicySet(policy=intent.policy))])


def pin_embedding_model(intent: ask.PinEmbeddingModel, context: Context) -> Decision:
    """Record the model that facts are embedded with; nothing where it is so already."""
    context.flush()
    wanted = EmbeddingModelPinned(
        provider=intent.provider,
        model=intent.model,
        dimensions=intent.dimensions,
        recipe=intent.recipe,
        truncated_dimensions=intent.truncated_dimensions,
    )
    if wanted == pinned_model(context.db, LIVE - 1):
        return Decision([], created=False)
    return Decision([context.draft(wanted)])


def track_recalls(intent: ask.TrackRecalls, context: Context) -> Decision:
    """Record which facts recalls returned."""
    return Decision([context.draft(RecallServed(uses=list(intent.uses)))])


def record_answers(intent: ask.RecordAnswers, context: Context) -> Decision:
    """Put the receipts of recalls in the log, one event each: each can be erased alone."""
    return Decision([context.draft(receipt) for receipt in intent.receipts])


def rotate_node_key(intent: ask.RotateNodeKey, context: Context) -> Decision:
    """Record that the node signs with a new key."""
    payload = NodeKeyRotated(
        previous_public_key=intent.previous_public_key,
        public_key=intent.public_key,
        signature=intent.signature,
    )
    return Decision([context.draft(payload)])


def promote_replica(intent: ask.PromoteReplica, context: Context) -> Decision:
    """Record that the node writes by itself from here on."""
    payload = ReplicaPromoted(
        primary_node_id=intent.primary_node_id,
        primary_url=intent.primary_url,
        position=intent.position,
    )
    return Decision([context.draft(payload)])


def start_epoch(intent: ask.StartEpoch, context: Context) -> Decision:
    """Record which node writes from here, and by which clock."""
    payload = EpochStarted(
        node_id=intent.node_id,
        epoch=intent.epoch,
        public_key=intent.public_key,
        reason=intent.reason,  # pyright: ignore[reportArgumentType]
        clock=intent.clock,  # pyright: ignore[reportArgumentType]
    )
    return Decision([context.draft(payload)])
