"""What callers may ask the writer to do, and what it answers. Plain data.

An intent is validated and normalised before it comes here; whether it may happen is
decided by the writer against the state it will change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from eventlog.event import Foreign, Recorded
from eventlog.kinds import (
    Attestation,
    ConsolidationRan,
    DecayPolicy,
    DeltaApplied,
    DeltaRejected,
    EpisodeAccessed,
    ErasureReason,
    FactAsserted,
    FactAttributes,
    GardenRole,
    MemoriesMerged,
    Parent,
    PeerGrants,
    QuarantineReviewed,
    RecallAnswered,
    RecallUse,
    RefusedFact,
    SummaryRecorded,
    TrustPolicy,
    Value,
)
from projections.authorization import Authorization
from projections.episodic.delta import Proposal
from projections.memory_rules import Likeness
from projections.normalization import SCOPES

if TYPE_CHECKING:
    from projections.authorization import Authorization
else:  # it masks arrays, whose library commands that only write do without
    Authorization = object


class Intent(Struct, frozen=True):
    """Base of all intents."""


class AssertFact(Intent, frozen=True, kw_only=True, gc=False):
    """State a fact. ``confidence`` 0 retracts (see ``deciding.retracting.retraction_targets``).

    ``permissions`` are the asker's, for values that want them (``instructions``).
    ``member``, here and in other intents: whose role in the garden must allow it; None for
    the node's own tools. ``rights``, likewise: what the asker may read; the rest shows in
    nothing that comes of it. None for the node's own tools.
    ``anew``: a new fact beside an equal one, as another log has them both.
    """

    entity: str
    relation: str
    value: Value
    source: str
    scope: str
    confidence: float = 1.0
    cid: str
    valid_from: str | None = None
    valid_until: str | None = None
    derived_from: tuple[Parent, ...] = ()
    write_mode: str = "assert"
    permissions: frozenset[str] = frozenset()
    garden_id: str | None = None
    attestation: Attestation | None = None
    attributes: FactAttributes | None = None
    member: str | None = None
    anew: bool = False
    rights: Authorization | None = None


class RetractFact(Intent, frozen=True, kw_only=True, gc=False):
    """Retract one fact by id; ``scopes`` are those the caller may touch."""

    fact_id: str
    reason: str = ""
    scopes: frozenset[str]
    member: str | None = None


class RetractMatching(Intent, frozen=True, kw_only=True, gc=False):
    """Retract the one live fact with exactly this content."""

    entity: str
    relation: str
    value: Value
    scope: str
    source: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    reason: str = ""
    garden_id: str | None = None


class ResolveConflict(Intent, frozen=True, kw_only=True):
    """Settle a contradiction in favour of one of its facts, or of a new value.

    ``fact_id``: the fact of the value in dispute, as the conflict was shown to an asker who
    may not see all of its key; what they see is settled, whatever the table holds.
    """

    conflict_id: str
    source: str
    scopes: frozenset[str]
    fact_id: str | None = None
    settled: bool = False
    winning_fact_id: str | None = None
    new_value: Value | None = None
    note: str = ""
    permissions: frozenset[str] = frozenset()
    member: str | None = None
    rights: Authorization | None = None


class ReviewContent(Intent, frozen=True, kw_only=True):
    """Decide on a flagged fact: ``release`` or ``keep``."""

    fact_id: str
    decision: str
    scopes: frozenset[str]
    reason: str = ""
    member: str | None = None


class SweepDecay(Intent, frozen=True, kw_only=True):
    """Sweep scopes now with the given policies: what is outside gardens, and in ``gardens``
    (ids, or ``*`` for all)."""

    scopes: tuple[str, ...]
    policies: tuple[DecayPolicy, ...]
    gardens: tuple[str, ...] = ()


class SetPolicy(Intent, frozen=True, kw_only=True):
    policy_id: str
    policy: DecayPolicy | None


class DeclareSetValued(Intent, frozen=True, kw_only=True):
    relations: tuple[str, ...]


class SetProfile(Intent, frozen=True, kw_only=True):
    name: str
    document: dict[str, Any] | None


class SetSourceTrust(Intent, frozen=True, kw_only=True):
    source: str
    trust: float
    reason: str = ""


class SetTrustPolicy(Intent, frozen=True, kw_only=True):
    """Compute trust in sources by this policy from here on."""

    policy: TrustPolicy


class IssueKey(Intent, frozen=True, kw_only=True):
    entity_uri: str
    permissions: tuple[str, ...]
    key_sha256: str
    scopes: tuple[str, ...]
    description: str | None = None
    expires_at_us: int | None = None
    sources: tuple[str, ...] = ()
    max_classification: int = 2


class RevokeKey(Intent, frozen=True, kw_only=True):
    key_id: str
    reason: str = ""


class IssueCapability(Intent, frozen=True, kw_only=True):
    """Note a capability token that was signed; ``token_sha256`` is of its root's text."""

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    expires_at_us: int
    token_sha256: str
    key_id: str | None = None
    description: str | None = None


class RevokeCapability(Intent, frozen=True, kw_only=True):
    """Revoke a token of this node (``node_id``), or one derived from it (``revocation_id``)."""

    token_id: str
    node_id: str
    revocation_id: str = ""
    reason: str = ""


class RegisterAgentKey(Intent, frozen=True, kw_only=True):
    """An entity's Ed25519 public key, base64url without padding."""

    entity_uri: str
    public_key: str
    description: str | None = None


class RevokeAgentKey(Intent, frozen=True, kw_only=True):
    key_id: str


class CreateGarden(Intent, frozen=True, kw_only=True):
    """``garden_id``: the id it had elsewhere, kept where no garden has had it here."""

    slug: str
    name: str
    scope: str
    created_by: str
    description: str | None = None
    quarantine: bool = False
    garden_id: str | None = None


class DeleteGarden(Intent, frozen=True, kw_only=True):
    """``admin``: whose role must allow it; None for an admin of the node."""

    garden_id: str
    admin: str | None = None


class SetMember(Intent, frozen=True, kw_only=True):
    """Give a member a role, or none. ``change`` says what it must be: a member that is to be
    added must be new, any other must be there. ``admin`` as in ``DeleteGarden``."""

    garden_id: str
    entity_uri: str
    added_by: str
    change: Literal["add", "change", "remove"]
    role: GardenRole | None = None
    admin: str | None = None


class ReviewQuarantined(Intent, frozen=True, kw_only=True):
    """Judge a fact that waits in a quarantine garden (``garden_id``, if it must be this)."""

    fact_id: str
    decision: Literal["admitted", "rejected"]
    scopes: frozenset[str]
    reason: str = ""
    garden_id: str | None = None
    target_garden_id: str | None = None
    member: str | None = None
    permissions: frozenset[str] = frozenset()
    rights: Authorization | None = None


class SetAlias(Intent, frozen=True, kw_only=True):
    """Let a name mean an entity; both in stored form."""

    raw_uri: str
    canonical_uri: str
    kind: Literal["user", "migration"] = "user"


class RemoveAlias(Intent, frozen=True, kw_only=True):
    """Let a name mean itself again; ``migrations``: also where a migration set the alias."""

    raw_uri: str
    migrations: bool = False


class NewEpisode(Struct, frozen=True, kw_only=True, gc=False):
    """An episode to record, validated (``episodic.place``); ``at_us`` in microseconds UTC."""

    user: str
    session: str
    agent: str
    content: str
    at_us: int
    id: str | None = None
    source_node: str = ""
    metadata: dict[str, Any] = {}
    run_id: str | None = None
    step: int | None = None


class RecordEpisodes(Intent, frozen=True, kw_only=True):
    """Episodes of one scope, or of one garden in it, in the order in which they happened.

    ``recorded_by``: who did, where it is not the asker (an import of what others recorded).
    """

    scope: str
    episodes: tuple[NewEpisode, ...]
    garden_id: str | None = None
    member: str | None = None
    recorded_by: str | None = None


class RecordSummary(Intent, frozen=True, kw_only=True):
    """A summary says this from here on; ``text`` is null where it is gone.

    ``name`` is its path in the summaries' folder (``summaries.naming``), ``owner`` (stored form)
    the source of its paragraphs.
    """

    name: str
    text: str | None
    owner: str
    scope: str
    garden_id: str | None = None
    member: str | None = None
    modified_us: int | None = None
    size: int | None = None
    rights: Authorization | None = None


class NoteEpisodeAccess(Intent, frozen=True, kw_only=True):
    """Somebody looked at these episodes (by key)."""

    keys: tuple[str, ...]


class ApplyDeltas(Intent, frozen=True, kw_only=True):
    """Deltas of one scope or garden, applied together.

    ``strict``: one conflict and none is applied; else conflicting ones are rejected alone,
    and what is missing or retracted already is not missed. ``bundle``: provenance of every
    fact they write. ``single_valued``: relations that refuse a second value.
    """

    scope: str
    proposals: tuple[Proposal, ...]
    garden_id: str | None = None
    member: str | None = None
    run_id: str | None = None
    strict: bool = True
    single_valued: tuple[str, ...] = ()
    bundle: dict[str, str] = {}
    rights: Authorization | None = None


class SetConsolidationRule(Intent, frozen=True, kw_only=True):
    """``set_by``: who sets it, where it is not the asker."""

    rule_id: str
    document: dict[str, Any] | None
    set_by: str | None = None


class Consolidate(Intent, frozen=True, kw_only=True):
    """Apply what a run of a rule emitted, and note in the log that it ran; refused where
    another run was faster (the rule's watermark is no longer ``expected``). The counts of
    ``run`` are filled in by what becomes of the deltas."""

    apply: ApplyDeltas
    run: ConsolidationRan
    expected: int


class PinEmbeddingModel(Intent, frozen=True, kw_only=True):
    """Embed facts with this model from here on."""

    provider: str
    model: str
    dimensions: int
    recipe: str
    truncated_dimensions: int | None = None


class TrackRecalls(Intent, frozen=True, kw_only=True):
    uses: tuple[RecallUse, ...]


class RecordAnswers(Intent, frozen=True, kw_only=True):
    """Put the receipts of recalls in the log."""

    receipts: tuple[RecallAnswered, ...]


class DeclarePeer(Intent, frozen=True, kw_only=True):
    """Register another node's declaration; ``fault`` is why it is rejected, if it is."""

    peer_id: str
    node_id: str
    node_url: str
    public_key: str
    allowed_scopes: tuple[str, ...]
    signed_at: str
    signature: str
    fault: str = ""


class SetPeerState(Intent, frozen=True, kw_only=True):
    """Approve, revoke or change a peer, or hold or release one of its streams."""

    peer_id: str
    state: Literal["active", "revoked"] | None = None
    grants: PeerGrants | None = None
    public_key: str | None = None
    node_url: str | None = None
    stream: str | None = None
    held: bool | None = None
    reason: str = ""


class AdoptPage(Intent, frozen=True, kw_only=True):
    """Take in verified events of one stream of a peer; ``statement`` is its signed head."""

    node_id: str
    stream: str
    first_seq: int
    events: tuple[Foreign, ...]
    statement: dict[str, Any]
    erasable: frozenset[bytes] = frozenset()


class TakeForeignEnds(Intent, frozen=True):
    """Let what other nodes said of the end of facts take effect, as far as it may."""


class NoteEquivocation(Intent, frozen=True, kw_only=True):
    """Keep the evidence that a peer contradicted itself, and hold the stream."""

    peer_id: str
    node_id: str
    stream: str
    sort: Literal["equivocation", "rollback"]
    detail: str
    earlier: dict[str, Any]
    later: dict[str, Any]


class Subscribe(Intent, frozen=True, kw_only=True):
    """Tell somebody of changes from here on; at most ``most`` for one subscriber."""

    subscription_id: str
    subscriber: str
    target: str
    target_kind: Literal["scope", "entity"]
    on_change: Literal["webhook", "wake"]
    delivery_address: str
    event_types: tuple[str, ...]
    key_id: str | None
    idempotency_key: str | None
    most: int


class Unsubscribe(Intent, frozen=True, kw_only=True):
    """Tell them no more; ``subscriber``: only if it is theirs."""

    subscription_id: str
    subscriber: str | None
    reason: str = ""


class RotateNodeKey(Intent, frozen=True, kw_only=True):
    previous_public_key: str
    public_key: str
    signature: str


class StartEpoch(Intent, frozen=True, kw_only=True):
    """Mark the log's first event: who writes it, and which clock its times come from."""

    node_id: str
    epoch: int
    public_key: str
    reason: str = "created"
    clock: str = "wall"


class PromoteReplica(Intent, frozen=True, kw_only=True):
    """Record whose replica the node was, and up to where."""

    primary_node_id: str
    primary_url: str
    position: int


class ReceiveForeign(Intent, frozen=True, kw_only=True):
    """Take a page of facts that a foreign node sent. ``facts`` are checked and carry
    ``foreign``; ``refused`` were not worth taking; ``cursor`` is empty for pushed facts."""

    node_id: str
    facts: tuple[FactAsserted, ...]
    refused: tuple[RefusedFact, ...] = ()
    cursor: str = ""
    received: int


class Refused(Struct, frozen=True):
    """Why an intent did not happen; nothing of it was written.

    ``code`` is a stable snake_case name (``docs/errors.md``), ``field`` the request field.
    """

    code: str
    message: str
    field: str | None = None


class Done(Struct, frozen=True, gc=False):
    """What an intent did.

    Attributes:
        events: what was recorded (empty where the state was so already).
        fact_id: the fact that answers the intent, where one does.
        created: False where an equal live fact already answered.
        contradicted: whether the fact now has a live sibling with another value.
        retracted: ids of facts that ended through this intent.
        detail: further answers by name (conflict and resolution ids, counts).
    """

    events: list[Recorded]
    fact_id: str | None = None
    created: bool = True
    contradicted: bool = False
    retracted: tuple[str, ...] = ()
    detail: dict[str, Any] = {}

    @property
    def position(self) -> int | None:
        """The last position this intent wrote, or None."""
        return self.events[-1].position if self.events else None


class WriteAnswer(Struct, frozen=True):
    """One outcome an intent, in order, and the log's head after them."""

    outcomes: list[Done | Refused]
    position: int
    replayed: bool = False


class EraseFacts(Intent, frozen=True, kw_only=True):
    """Erase facts by id, with every copy of what they say (see ``deciding.erasing``).

    ``entity``: erase every fact about it instead, and with ``mentions`` every fact that names
    it as its value. ``derived``: facts derived from erased ones as well. ``events`` are ids of
    further events whose payloads go, such as receipts that repeat the text. ``scopes`` are those
    the caller may touch.
    """

    erasure_id: str
    fact_ids: tuple[str, ...] = ()
    entity: str | None = None
    mentions: bool = True
    derived: bool = False
    episodes: bool = False
    scopes: frozenset[str] = frozenset(SCOPES)
    reason: ErasureReason = "unspecified"
    events: tuple[str, ...] = ()


class EraseEvents(Intent, frozen=True, kw_only=True):
    """Erase the payloads of more local events under an erasure that was begun."""

    erasure_id: str
    reason: ErasureReason = "unspecified"
    events: tuple[str, ...] = ()


class CertifyErasure(Intent, frozen=True, kw_only=True):
    """Record the signed receipt of an erasure."""

    erasure_id: str
    document: str
    signature: str


class SetLegalHold(Intent, frozen=True, kw_only=True):
    """Hold a fact or entity, so that it cannot be erased, or let it go."""

    target_kind: Literal["fact", "entity"]
    target: str
    held: bool = True


class SetTombstone(Intent, frozen=True, kw_only=True):
    """Hide an entity from every answer: the record as it was signed, and ``entity`` in stored
    form. Refused with ``tombstone_already_exists`` where one of the same scope stands."""

    tombstone_id: str
    entity: str
    entity_uri: str
    scope: str
    scopes: tuple[str, ...]
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    legal_hold: bool = False
    reason: str | None = None
    node_id: str | None = None


class RevokeTombstone(Intent, frozen=True, kw_only=True):
    """Let a tombstone hide nothing any more. ``node_id``: the peer who says so, which may
    revoke its own tombstones alone; None for this node's admins, who may revoke any."""

    revocation_id: str
    tombstone_id: str
    reason: str
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    node_id: str | None = None


class StoreMemory(Intent, frozen=True, kw_only=True):
    """State a memory, unless its owner has just said the same (``memory_rules``).

    Attributes:
        fact: what is stated.
        rights: the asker's. What they may not read has no say.
        supersede: whether old memories end that the new one says are no longer so.
        likeness: compares texts whose vectors are known; None where nothing makes vectors.
    """

    fact: AssertFact
    rights: Authorization
    supersede: bool = True
    likeness: Likeness | None = None


class MergeMemories(Intent, frozen=True, kw_only=True):
    """Let the newer of two memories take the place of the older. ``rights``: the asker's, who
    may write as the owner of both."""

    fact_ids: tuple[str, str]
    rights: Authorization
    member: str | None = None


ALONE = (EraseFacts, EraseEvents, TakeForeignEnds, StoreMemory, MergeMemories)
"""Intents that are decided alone, with everything before them committed."""


class GiveFeedback(Intent, frozen=True, kw_only=True):
    """Say which recalled facts were cited and which were rejected. That the asker may read
    them was checked; whether they are still there is decided."""

    cited: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    receipt_id: str | None = None


class SetAttributes(Intent, frozen=True, kw_only=True):
    """Change attributes of a fact. ``changes``: by field. ``scopes``: those the caller may
    touch. ``admin``: may also lower a classification and lend any trust. ``relevance_change``
    is added to the relevance that stands, within its bounds."""

    fact_id: str
    changes: dict[str, Any]
    scopes: frozenset[str]
    relevance_change: int = 0
    admin: bool = False
    member: str | None = None


class PutManifest(Intent, frozen=True, kw_only=True):
    """A manifest that was read and whose signature holds; ``entity_uri`` in stored form."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    rotations: tuple[dict[str, Any], ...]
    document: dict[str, Any]


class RestatedFact(Struct, frozen=True, kw_only=True):
    """What an event led to: a fact it stated, which the event calls ``key``, or one it ended
    (``ends``, a key or a fact id)."""

    key: str = ""
    fact: AssertFact | None = None
    ends: str = ""
    reason: str = ""


class RestateBatch(Intent, frozen=True, kw_only=True):
    """Deltas or a summary as another log has them, with the facts that they stated and ended.

    Where ``payload`` says a key of ``then``, the fact that gets stated is meant. Deltas that
    were applied here already are left out; ``detail.facts``: by key, the fact's id.
    """

    payload: DeltaApplied | SummaryRecorded
    then: tuple[RestatedFact, ...] = ()
    actor: str | None = None


class RestateNote(Intent, frozen=True, kw_only=True):
    """What another log notes beside its facts: rejected deltas, looks at episodes, runs of
    rules, judgements of quarantined facts, merged memories. Ids in it are those of this log."""

    payload: (
        DeltaRejected | EpisodeAccessed | ConsolidationRan | QuarantineReviewed | MemoriesMerged
    )
    actor: str | None = None
