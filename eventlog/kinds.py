"""Every event payload, as one tagged union.

A payload says what happened, in terms that stay true for ever; it never holds anything
that can be computed from other events (cards, scores, contradictions, embeddings).
Replicated kinds travel to peers in scope and garden streams; local kinds stay in the node stream.
Fields that hold their default are left out of the bytes, so a default, once released,
never changes within a schema version. Each kind has golden bytes in ``fixtures/events``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field


class Payload(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """Base of all payloads; ``kind`` is the tag in the bytes."""


class Value(Struct, frozen=True, omit_defaults=True, gc=False):
    """A typed value. ``v`` is the canonical text that the CID covers."""

    type: Literal["string", "text", "number", "boolean", "datetime", "ref", "null"]
    v: str = "null"
    interpret_as: Literal["content", "instruction"] = "content"


class Parent(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of ``derived_from``: 64 hex digits, and the fact id where it was given."""

    hash: str
    fact_id: str | None = None


class Attestation(Struct, frozen=True, gc=False):
    """A source's own signature over a fact, by a registered agent key (wire 1.6)."""

    key_id: str
    signature: str


class ForeignFact(Struct, frozen=True, gc=False):
    """Whose fact this is, where it came from a node that keeps no event log of ours: that
    node, its id for the fact, its clock reading (as ours are packed) and its time (microseconds).
    """

    node_id: str
    fact_id: str
    hlc: int
    recorded_at: int


class FactAttributes(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What abmind ranks a fact by (its seed, and the columns of ``extracted_memories``).

    ``emotion_score`` is -5 to 5. ``trust`` is 0 (web, unknown) to 3 (owner); ``integrity`` 0
    (verbatim) to 3 (compacted); ``credibility`` 1 (confirmed) to 6 (unknown), lower is better;
    ``classification`` 0 (public), 1 (internal), 2 (confidential) or 3 (secret). ``relevance``
    is set by hand, in steps of 10. ``original`` holds the user's own words where the fact is a
    translation, ``keywords`` what it must be found by in that language.
    """

    memory_type: str = "fact"
    emotion_score: int = 0
    emotion_tags: tuple[str, ...] = ()
    emotion_context: str = ""
    importance_flags: tuple[str, ...] = ()
    relevance: int = 0
    classification: int = 1
    trust: int = 0
    integrity: int = 2
    credibility: int = 6
    topic: str = "general"
    tier: Literal["general", "core"] = "general"
    original: str = ""
    language: str = ""
    keywords: str = ""


# -- replicated ---------------------------------------------------------------------------


class FactAsserted(Payload, frozen=True, gc=False, tag="fact_asserted"):
    """A source states a fact. Its id is the event id unless ``id`` says otherwise.

    ``garden_id`` is the garden whose members alone may see it; such a fact, and whatever
    ends or settles it, stands in the garden's stream instead of the scope's.
    ``foreign`` wraps a fact of a node that speaks only the protocol's federation; its id is
    then computed from the payload, so that all who wrap it agree (``projections.foreign``).
    """

    entity: str
    relation: str
    value: Value
    source: str
    scope: Literal["local", "team", "company", "public"]
    confidence: float = 1.0
    cid: str = ""
    id: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    derived_from: list[Parent] = field(default_factory=list)
    write_mode: Literal["assert", "summarize_with_provenance"] = "assert"
    garden_id: str | None = None
    attestation: Attestation | None = None
    foreign: ForeignFact | None = None
    attributes: FactAttributes | None = None


class FactRetracted(Payload, frozen=True, tag="fact_retracted"):
    """The named facts no longer hold. ``marker_id`` is the confidence-0 fact, if one asked."""

    fact_ids: list[str]
    reason: str = ""
    marker_id: str | None = None


class ConflictResolved(Payload, frozen=True, tag="conflict_resolved"):
    """Somebody settled a contradiction: ``winner_id`` stands, ``loser_ids`` are set aside."""

    conflict_id: str
    winner_id: str
    loser_ids: list[str]
    resolution_fact_id: str
    note: str = ""


# -- local to this node -------------------------------------------------------------------


class EpochStarted(Payload, frozen=True, tag="epoch_started"):
    """The node's first event, and the first after a restore or an accepted copy."""

    node_id: str
    epoch: int
    public_key: str
    reason: Literal["created", "restored", "copied"] = "created"
    clock: Literal["wall", "file"] = "wall"


class NodeKeyRotated(Payload, frozen=True, tag="node_key_rotated"):
    """The node signs with a new key from here; the old key vouches for it."""

    previous_public_key: str
    public_key: str
    signature: str


class DecayPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How facts lose confidence. ``*`` matches every relation or scope.

    ``confidence`` mode: half-life ``half_life_s`` with ``min_confidence`` as the floor.
    ``retract`` mode: retract what is older than ``ttl_s`` or has sunk under
    ``min_confidence``.
    """

    id: str
    relation: str = "*"
    scope: str = "*"
    mode: Literal["retract", "confidence"] = "retract"
    ttl_s: float | None = None
    half_life_s: float | None = None
    min_confidence: float | None = None
    exempt_relations: list[str] = field(default_factory=list)


class DecaySwept(Payload, frozen=True, tag="decay_swept"):
    """One sweep of one scope at ``at_us``, with the policies as they stood.

    Facts outside gardens are swept, and those of ``gardens`` (ids, or ``*`` for all).
    """

    scope: str
    at_us: int
    policies: list[DecayPolicy]
    gardens: list[str] = field(default_factory=list)


class RecallUse(Struct, frozen=True, omit_defaults=True):
    """One fact's share in a batch of recalls.

    ``earlier_us``: the instants before the last, oldest first, as many as are kept.
    """

    fact_id: str
    count: int
    last_at_us: int
    earlier_us: tuple[int, ...] = ()


class RecallServed(Payload, frozen=True, tag="recall_served"):
    """Facts returned by recalls since the last such event (batched, at most 30 s)."""

    uses: list[RecallUse]


class KeyIssued(Payload, frozen=True, tag="key_issued"):
    """An API key exists; only its SHA-256 is kept.

    ``sources``: what the key may write as ``source`` (exact, or suffix-``*`` globs) besides
    its own entity. ``max_classification``: 0 to 2; facts classified higher do not exist for it.
    """

    key_id: str
    entity_uri: str
    permissions: list[str]
    key_sha256: str
    scopes: list[str] = field(default_factory=lambda: ["local", "team", "company", "public"])
    description: str | None = None
    expires_at_us: int | None = None
    tenant_id: str = "default"
    sources: list[str] = field(default_factory=list)
    max_classification: int = 2


class KeyRevoked(Payload, frozen=True, tag="key_revoked"):
    """An API key no longer opens anything."""

    key_id: str
    reason: str = ""


class AgentKeySet(Payload, frozen=True, tag="agent_key_set"):
    """An agent's Ed25519 public key (base64url) is registered, or revoked from here on."""

    key_id: str
    entity_uri: str
    public_key: str
    description: str | None = None
    status: Literal["active", "revoked"] = "active"


GardenRole: TypeAlias = Literal["admin", "writer", "reader", "quarantine:moderator"]


class GardenCreated(Payload, frozen=True, tag="garden_created"):
    """A garden exists: facts in it are its members' alone. Its creator is its first admin."""

    garden_id: str
    slug: str
    name: str
    scope: Literal["local", "team", "company", "public"]
    created_by: str
    description: str | None = None
    quarantine: bool = False


class GardenMemberSet(Payload, frozen=True, tag="garden_member_set"):
    """A member's role in a garden from here on; null ends the membership."""

    garden_id: str
    entity_uri: str
    added_by: str
    role: GardenRole | None = None


class GardenDeleted(Payload, frozen=True, tag="garden_deleted"):
    """The garden is gone, and with it every membership; its facts are nobody's to see."""

    garden_id: str


class QuarantineReviewed(Payload, frozen=True, tag="quarantine_reviewed"):
    """A quarantined fact was judged. Admitted, it was stated anew as ``admitted_fact_id`` in
    ``target_garden_id`` (null: outside gardens); either way it no longer holds itself."""

    fact_id: str
    garden_id: str
    decision: Literal["admitted", "rejected"]
    reason: str = ""
    target_garden_id: str | None = None
    admitted_fact_id: str | None = None


class SetValuedDeclared(Payload, frozen=True, tag="set_valued_declared"):
    """Relations (labels or suffix-``*`` globs) that may hold several values at once."""

    relations: list[str]


class PolicySet(Payload, frozen=True, tag="policy_set"):
    """A decay policy was set, or removed where ``policy`` is null."""

    policy_id: str
    policy: DecayPolicy | None = None


class ProfileSet(Payload, frozen=True, tag="profile_set"):
    """A recall profile was installed under ``name``, or removed where null."""

    name: str
    document: dict[str, Any] | None = None


class SourceTrustSet(Payload, frozen=True, tag="source_trust_set"):
    """This node trusts ``source`` to the degree ``trust`` in [0, 1] from here on."""

    source: str
    trust: float
    reason: str = ""


class TrustPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How trust in a source is computed where nothing was set (wire 3.5); all in [0, 1] but
    for the counts. The trust is the weighted sum of one level of each group.

    ``mode``: ``off`` trusts everybody fully. ``hidden_below`` (``strict_hidden_below`` in
    ``strict`` mode): lists leave out facts of less effective confidence whose source is not
    fully trusted.
    """

    mode: Literal["strict", "relaxed", "off"] = "relaxed"
    identity_weight: float = 0.35
    history_weight: float = 0.30
    authority_weight: float = 0.25
    attestation_weight: float = 0.10
    identity_logged: float = 1.0
    identity_manifest: float = 0.7
    identity_key: float = 0.4
    identity_bare: float = 0.1
    history_new: float = 0.5
    history_known: float = 0.7
    history_failing: float = 0.3
    history_proven: float = 1.0
    history_known_from: int = 10
    history_proven_from: int = 100
    history_failing_share: float = 0.05
    authority_self: float = 0.9
    authority_own: float = 0.7
    authority_shared: float = 0.5
    authority_other: float = 0.2
    attestation_signed: float = 1.0
    attestation_default: float = 0.2
    hidden_below: float = 0.2
    strict_hidden_below: float = 0.3


class TrustPolicySet(Payload, frozen=True, tag="trust_policy_set"):
    """From here on trust in sources is computed by this policy."""

    policy: TrustPolicy


class EmbeddingModelPinned(Payload, frozen=True, tag="embedding_model_pinned"):
    """From here on facts are embedded with this model; vectors of others are not compared.

    ``truncated_dimensions`` is how many numbers of each vector are kept, null for all;
    ``recipe`` names the rule by which a fact becomes the text that is embedded.
    """

    provider: str
    model: str
    dimensions: int
    recipe: str
    truncated_dimensions: int | None = None


class ContentReviewed(Payload, frozen=True, tag="content_reviewed"):
    """Somebody looked at a fact that the sanitizer flagged: serve it, or keep it back."""

    fact_id: str
    decision: Literal["release", "keep"]
    reason: str = ""


class Returned(Struct, frozen=True, array_like=True):
    """One fact of a recall's answer; its rank is its place. ``card``: a memory card's fact."""

    fact_id: str
    score: float
    card: bool = False


class StageReport(Struct, frozen=True, array_like=True):
    """How a stage of a recall ended: ``completed``, ``disabled``, ``deadline``, ``failed``."""

    name: str
    status: str


class RecallAnswered(Payload, frozen=True, tag="recall_answered"):
    """The receipt of one recall: who asked what, at which moment, and what came back.

    ``request`` holds the fields that were sent, without the query; ``profile_digest`` is of
    the profile's document. ``position``, ``instant_us`` and ``valid_us`` are the Moment.
    ``counted``: the facts' access counts include it (``recall_served`` carries them, so that
    they outlive an erased receipt).
    """

    receipt_id: str
    principal: str
    query: str
    request: dict[str, Any]
    profile: str
    profile_digest: str
    position: int
    instant_us: int
    at_us: int
    returned: list[Returned]
    stages: list[StageReport]
    total_scored: int
    tokens_used: int
    truncated: bool = False
    counted: bool = False
    valid_us: int | None = None


class CapabilityIssued(Payload, frozen=True, tag="capability_issued"):
    """A capability token was signed. The token itself is not kept, only its SHA-256 (hex).

    ``verb`` and ``object`` are the protocol's words for what it allows; ``key_id`` is the API
    key with which it was asked for, and with whose revocation it ends.
    """

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    expires_at_us: int
    token_sha256: str
    key_id: str | None = None
    description: str | None = None


class CapabilityRevoked(Payload, frozen=True, tag="capability_revoked"):
    """A capability of this event's origin allows nothing from here on, nor does what was
    derived from it. Stands once in the stream of each scope that the token covers, so that
    whoever replays the scope learns of it.

    ``revocation_id`` is a token id, or the digest (hex) of a derived token's last block.
    """

    revocation_id: str
    scope: Literal["local", "team", "company", "public"]
    reason: str = ""


class ReplicaPromoted(Payload, frozen=True, tag="replica_promoted"):
    """The node, until here a replica, writes by itself from here on, under its own origin.

    ``position`` is the last that it copied from the primary.
    """

    primary_node_id: str
    primary_url: str
    position: int


class AliasSet(Payload, frozen=True, tag="alias_set"):
    """The name ``raw_uri`` means the entity ``canonical_uri`` from here on; null: itself."""

    raw_uri: str
    canonical_uri: str | None = None
    alias_kind: Literal["user", "migration"] = "user"


# -- memory of conversations (replicated) -----------------------------------------------


class EpisodeRecorded(Payload, frozen=True, gc=False, tag="episode_recorded"):
    """Something happened in a session of an agent with a user. Its key is the event id;
    ``id`` is the recorder's own name for it, unique among the episodes of its scope or garden.

    ``at_us``: when it happened, microseconds UTC. ``run_id`` and ``step`` say which run of
    the agent produced it.
    """

    user: str
    session: str
    agent: str
    content: str
    at_us: int
    scope: Literal["local", "team", "company", "public"]
    garden_id: str | None = None
    id: str | None = None
    source_node: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    step: int | None = None


class AppliedDelta(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One typed delta and what came of it. The fact's content stands in ``fact_asserted``;
    ``payload`` holds only what the delta's payload said besides.

    ``name`` is the fact's id in the delta, ``subject`` and ``predicate`` what it called its
    entity and relation, ``fact_id`` the fact, ``retracted`` the facts that ``replaces`` named.
    ``lineage`` is given where the delta does not stem from episodes.
    """

    delta_id: str
    delta: Literal["add", "update", "delete", "noop"]
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[str]
    promotion_us: int
    confidence: float = 1.0
    replaces: list[str] = field(default_factory=list)
    name: str | None = None
    subject: str | None = None
    predicate: str | None = None
    fact_id: str | None = None
    retracted: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    lineage: list[dict[str, Any]] = field(default_factory=list)


class DeltaApplied(Payload, frozen=True, tag="delta_applied"):
    """Deltas of one scope or garden that were applied together; the facts they state and
    retract follow as events caused by this one. ``run_id``: the run that emitted them."""

    scope: Literal["local", "team", "company", "public"]
    deltas: list[AppliedDelta]
    garden_id: str | None = None
    run_id: str | None = None


# -- memory of conversations (local) -----------------------------------------------------


class DeltaRejected(Payload, frozen=True, tag="delta_rejected"):
    """A delta that could not be applied, and why; nothing of it was written."""

    scope: Literal["local", "team", "company", "public"]
    delta_id: str
    delta: Literal["add", "update", "delete", "noop"]
    user: str
    agent: str
    rule_id: str
    source_episode_ids: list[str]
    reason: str
    replaces: list[str] = field(default_factory=list)
    message: str = ""
    garden_id: str | None = None
    run_id: str | None = None


class EpisodeAccessed(Payload, frozen=True, tag="episode_accessed"):
    """Episodes (by key) were looked at; salience counts from the last such moment."""

    episodes: list[str]
    at_us: int


class ConsolidationRuleSet(Payload, frozen=True, tag="consolidation_rule_set"):
    """A consolidation rule was installed, or removed where ``document`` is null."""

    rule_id: str
    document: dict[str, Any] | None = None


class SetAsideEpisode(Struct, frozen=True):
    """An episode (by key) that a rule could make nothing of, and why."""

    episode: str
    reason: str


class ConsolidationRan(Payload, frozen=True, tag="consolidation_ran"):
    """A rule read the episodes behind ``from_position`` up to ``to_position``.

    Long runs leave several of these with one ``run_id``. ``replay`` marks a repetition, which
    moves no watermark. ``scheduled_us`` is when a timetable wanted it.
    """

    rule_id: str
    run_id: str
    from_position: int
    to_position: int
    at_us: int
    trigger: Literal["manual", "every", "cron"] = "manual"
    asked_by: str | None = None
    scheduled_us: int | None = None
    replay: bool = False
    episodes: int = 0
    applied: int = 0
    known: int = 0
    rejected: int = 0
    gated: int = 0
    quarantined: list[SetAsideEpisode] = field(default_factory=list)


class PeerGrants(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an approved peer may do here.

    ``scopes`` and ``gardens`` (ids) are both what we serve it and what we take from it;
    ``wire``: it speaks our replay of events, or only the protocol's of facts. ``pull``: we
    take, ``serve``: it may take. The others let its word count for facts of
    others: ending them, settling conflicts among them, erasing them; and give instructions.
    """

    scopes: list[str]
    gardens: list[str] = field(default_factory=list)
    wire: Literal["events", "facts"] = "events"
    pull: bool = True
    serve: bool = True
    retract_foreign: bool = False
    resolve_foreign: bool = False
    erase_foreign: bool = False
    instructions: bool = False


class PeerDeclared(Payload, frozen=True, tag="peer_declared"):
    """Another node wants to be a peer; ``signature`` is its own, over the declaration.

    ``fault`` is why it was rejected at once, if it was.
    """

    peer_id: str
    node_id: str
    node_url: str
    public_key: str
    allowed_scopes: list[str]
    signed_at: str
    signature: str
    fault: str = ""


class PeerStateSet(Payload, frozen=True, tag="peer_state_set"):
    """A peer was approved, revoked, granted more or less, or has another key or address.

    With ``stream``, one stream of it was held (its events are refused, for ``reason``) or
    released. What is null stays as it was.
    """

    peer_id: str
    state: Literal["active", "revoked"] | None = None
    grants: PeerGrants | None = None
    public_key: str | None = None
    node_url: str | None = None
    stream: str | None = None
    held: bool | None = None
    reason: str = ""


class PeerPageReceived(Payload, frozen=True, tag="peer_page_received"):
    """Events of a peer's stream came and were verified; ``statement`` is its signed head."""

    node_id: str
    stream: str
    first_seq: int
    last_seq: int
    statement: dict[str, Any]


class PeerEquivocated(Payload, frozen=True, tag="peer_equivocated"):
    """A peer contradicted what it had signed: both statements are the evidence."""

    node_id: str
    stream: str
    sort: Literal["equivocation", "rollback"]
    detail: str
    earlier: dict[str, Any]
    later: dict[str, Any]


class RefusedFact(Struct, frozen=True, array_like=True):
    """A foreign fact that was not taken, and why."""

    fact_id: str
    code: str


class ForeignPageReceived(Payload, frozen=True, tag="foreign_page_received"):
    """A page of facts came from a node that speaks only the protocol's federation, and what
    became of it. ``cursor``: where the next page begins, as that node wrote it; empty for
    facts that it pushed."""

    node_id: str
    cursor: str
    received: int
    accepted: int
    refused: list[RefusedFact] = field(default_factory=list)


ErasureReason: TypeAlias = Literal["request", "law", "policy", "mistake", "unspecified"]


class FactErased(Payload, frozen=True, tag="fact_erased"):
    """The payloads of ``events`` (ids) are gone from the log, and with them what the facts
    ``fact_ids`` said. Nothing here repeats any of it: a reason is a word of a fixed list.

    One erasure leaves such an event in every stream that it touched, under one
    ``erasure_id``; in the node's own stream it names local events (receipts, reviews).
    """

    erasure_id: str
    events: list[str]
    fact_ids: list[str] = field(default_factory=list)
    reason: ErasureReason = "unspecified"


class LegalHoldSet(Payload, frozen=True, tag="legal_hold_set"):
    """A fact, or all facts about an entity, may not be erased from here on, or may again."""

    target_kind: Literal["fact", "entity"]
    target: str
    held: bool = True


class ErasureCertified(Payload, frozen=True, tag="erasure_certified"):
    """Nothing of an erasure is left in any file of this node: the receipt that says so.

    ``document`` is the signed JSON text, ``signature`` the node's Ed25519 over its bytes
    (base64).
    """

    erasure_id: str
    document: str
    signature: str


class SubscriptionSet(Payload, frozen=True, tag="subscription_set"):
    """Somebody wants to be told of changes; or no longer, where ``ended``.

    ``key_id`` is the key it was made with (null: none was needed): what it is told is decided by
    that key's rights when it is told. ``target`` is a scope or an entity.
    """

    subscription_id: str
    subscriber: str
    target: str
    target_kind: Literal["scope", "entity"]
    on_change: Literal["webhook", "wake"]
    delivery_address: str
    event_types: list[str]
    key_id: str | None = None
    idempotency_key: str | None = None
    ended: bool = False
    reason: str = ""


class FactFeedback(Payload, frozen=True, tag="fact_feedback"):
    """Whoever recalled these facts says what became of them: ``cited`` ones were used in an
    answer, ``rejected`` ones were found wrong. ``receipt_id`` names the recall, where known."""

    cited: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    receipt_id: str | None = None


class SummaryRecorded(Payload, frozen=True, tag="summary_recorded"):
    """A Markdown summary of a day, week or quarter has these paragraphs from here on.

    ``name`` is its path in the summaries' folder, ``period_start`` the first day
    (``YYYY-MM-DD``). ``fact_ids`` are the facts that its paragraphs are, in order: those that
    are new follow, caused by this event, as does the end of ``retracted``. ``modified_us``
    and ``size``: of the file, in microseconds and bytes, where it was one.
    """

    name: str
    tier: Literal["daily", "weekly", "quarterly"]
    period_start: str
    owner: str
    scope: Literal["local", "team", "company", "public"]
    garden_id: str | None = None
    fact_ids: list[str] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    removed: bool = False
    modified_us: int | None = None
    size: int | None = None


class TombstoneSet(Payload, frozen=True, tag="tombstone_set"):
    """Facts about ``entity``, and refs to it, are hidden from every answer from here on.

    ``scopes`` are those it hides in here; ``scope`` is what was signed, of which a peer's may
    count for less. ``node_id`` signed the record (``replay.tombstones``); null: this node.
    ``entity_uri`` is the entity as it was signed.
    """

    tombstone_id: str
    entity: str
    entity_uri: str
    scope: str
    scopes: list[str]
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    legal_hold: bool = False
    reason: str | None = None
    node_id: str | None = None


class TombstoneRevoked(Payload, frozen=True, tag="tombstone_revoked"):
    """A tombstone hides nothing any more."""

    revocation_id: str
    tombstone_id: str
    reason: str
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    node_id: str | None = None


class FactAttributesSet(Payload, frozen=True, tag="fact_attributes_set"):
    """All attributes of a fact, as they are from here on. Stands in the fact's scope or garden;
    another node's word counts for facts that it stated itself."""

    fact_id: str
    attributes: FactAttributes


class OrgManifestSet(Payload, frozen=True, tag="org_manifest_set"):
    """An organisation's manifest (wire 3.8), ``document`` as it was signed; times in
    microseconds. It takes the place of the entity's last one."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    document: dict[str, Any]


class MemoriesMerged(Payload, frozen=True, tag="memories_merged"):
    """One memory takes the place of others: ``kept_id`` counts as recalled, cited and rejected
    that much oftener from here on. ``instants_us``: the recalls to remember of it besides its
    own, ascending, in microseconds. The end of ``merged_ids`` and what ``kept_id`` takes over
    of their attributes are events of their own."""

    kept_id: str
    merged_ids: list[str]
    recalls: int = 0
    instants_us: list[int] = field(default_factory=list)
    citations: int = 0
    rejections: int = 0


AnyPayload = (
    FactAsserted
    | FactRetracted
    | ConflictResolved
    | EpochStarted
    | NodeKeyRotated
    | DecaySwept
    | RecallServed
    | KeyIssued
    | KeyRevoked
    | SetValuedDeclared
    | PolicySet
    | ProfileSet
    | SourceTrustSet
    | TrustPolicySet
    | EmbeddingModelPinned
    | ContentReviewed
    | AgentKeySet
    | GardenCreated
    | GardenMemberSet
    | GardenDeleted
    | QuarantineReviewed
    | RecallAnswered
    | CapabilityIssued
    | CapabilityRevoked
    | ReplicaPromoted
    | AliasSet
    | PeerDeclared
    | PeerStateSet
    | PeerPageReceived
    | PeerEquivocated
    | EpisodeRecorded
    | DeltaApplied
    | DeltaRejected
    | EpisodeAccessed
    | ConsolidationRuleSet
    | ConsolidationRan
    | ForeignPageReceived
    | FactErased
    | LegalHoldSet
    | ErasureCertified
    | SubscriptionSet
    | FactFeedback
    | SummaryRecorded
    | TombstoneSet
    | TombstoneRevoked
    | FactAttributesSet
    | OrgManifestSet
    | MemoriesMerged
)

SCHEMA_VERSIONS: dict[str, int] = {
    "fact_asserted": 4,
    "fact_retracted": 1,
    "conflict_resolved": 1,
    "epoch_started": 1,
    "node_key_rotated": 1,
    "decay_swept": 2,
    "recall_served": 2,
    "key_issued": 3,
    "key_revoked": 1,
    "set_valued_declared": 1,
    "policy_set": 1,
    "profile_set": 1,
    "source_trust_set": 1,
    "trust_policy_set": 1,
    "embedding_model_pinned": 1,
    "content_reviewed": 1,
    "agent_key_set": 1,
    "garden_created": 1,
    "garden_member_set": 1,
    "garden_deleted": 1,
    "quarantine_reviewed": 1,
    "recall_answered": 1,
    "capability_issued": 1,
    "capability_revoked": 1,
    "replica_promoted": 1,
    "alias_set": 1,
    "peer_declared": 1,
    "peer_state_set": 1,
    "peer_page_received": 1,
    "peer_equivocated": 1,
    "episode_recorded": 1,
    "delta_applied": 1,
    "delta_rejected": 1,
    "episode_accessed": 1,
    "consolidation_rule_set": 1,
    "consolidation_ran": 1,
    "foreign_page_received": 1,
    "fact_erased": 1,
    "legal_hold_set": 1,
    "erasure_certified": 1,
    "subscription_set": 1,
    "fact_feedback": 1,
    "summary_recorded": 1,
    "tombstone_set": 1,
    "tombstone_revoked": 1,
    "fact_attributes_set": 1,
    "org_manifest_set": 1,
    "memories_merged": 1,
}
"""The version each kind is written with; older ones are read through ``codec.UPCASTERS``."""

REPLICATED: frozenset[str] = frozenset(
    {
        "fact_asserted",
        "fact_retracted",
        "fact_erased",
        "conflict_resolved",
        "capability_revoked",
        "episode_recorded",
        "delta_applied",
        "summary_recorded",
        "fact_attributes_set",
    }
)
"""Kinds that belong to scope and garden streams; all others stay in the node's own stream
(where ``fact_erased`` stands too, when it names events of that stream)."""


_TAGS: dict[type, str] = {}


def kind_of(payload: Payload) -> str:
    """The payload's tag, as written in headers."""
    shape = type(payload)
    tag = _TAGS.get(shape)
    if tag is None:
        tag = _TAGS[shape] = str(payload.__struct_config__.tag)
    return tag
