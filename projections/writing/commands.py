"""What callers may ask the writer to do, and what it answers. Plain data.

Most of what may be asked is a payload (``eventlog.kinds``): "record this", where the state it
will change allows it. The classes below are the commands whose shape differs from what is
recorded. A command is validated and normalised before it comes here; whether it may happen is
decided by the writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from engramlog.eventlog.event import Foreign, Recorded
from engramlog.eventlog.kinds import (
    Attestation,
    ConsolidationRan,
    ContentReviewed,
    DecayPolicy,
    DeltaApplied,
    EpisodeRecorded,
    ErasureReason,
    FactAsserted,
    FactAttributes,
    GardenMemberSet,
    OrgManifestSet,
    Parent,
    Payload,
    PeerEquivocated,
    RefusedEvent,
    RefusedFact,
    SubscriptionSet,
    SummaryRecorded,
    Value,
)
from engramlog.projections.episodes.delta import Proposal
from engramlog.projections.memories.deduplication_rules import TextLikeness
from engramlog.projections.normalization import SCOPES

if TYPE_CHECKING:
    from engramlog.projections.authorization import Authorization
else:  # it masks arrays, whose library commands that only write do without
    Authorization = object


class OwnShape(Struct, frozen=True):
    """Base of the commands that are no payloads."""


Command: TypeAlias = OwnShape | Payload
"""What the writer may be asked to do."""


class OnBehalf(OwnShape, frozen=True):
    """What another entity did, as another log tells it: recorded with ``actor`` as its actor."""

    actor: str
    command: Command


class AssertFact(OwnShape, frozen=True, kw_only=True, gc=False):
    """State a fact. One of ``confidence`` 0 ends what its source said before, and denies what
    others say (``decide.facts.retracting``).

    ``permissions`` are the asker's, for values that want them (``instructions``).
    ``member``, here and in other commands: whose role in the garden must allow it; None for
    the node's own tools. ``rights``, likewise: what the asker may read; the rest shows in
    nothing that comes of it. None for the node's own tools.
    ``again``: a new fact beside an equal one, as another log has them both.
    ``zero``: what a record of confidence 0 does, where another log says so: nothing, as its
    effect is said apart; or, in files of version 0.1, an end of all that it contradicts.
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
    zero: Literal["follows its source", "does nothing", "ends all"] = "follows its source"
    rights: Authorization | None = None


class RetractFact(OwnShape, frozen=True, kw_only=True, gc=False):
    """Retract one fact by id; ``scopes`` are those the caller may touch. ``marker_id``: the
    record of confidence 0 that ended it in another log."""

    fact_id: str
    reason: str = ""
    scopes: frozenset[str]
    member: str | None = None
    rights: Authorization | None = None
    marker_id: str | None = None


class RetractMatching(OwnShape, frozen=True, kw_only=True, gc=False):
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


class ResolveConflict(OwnShape, frozen=True, kw_only=True):
    """Settle a contradiction in favour of one of its facts, or of a new value.

    ``fact_id``: the fact of the value in dispute, as the conflict was shown to an asker who
    may not see all of its key; what they see is settled, not what the table holds.
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


class ReviewContent(OwnShape, frozen=True, kw_only=True):
    """Decide on a flagged fact."""

    review: ContentReviewed
    scopes: frozenset[str] = frozenset(SCOPES)
    member: str | None = None


class SweepDecay(OwnShape, frozen=True, kw_only=True):
    """Sweep scopes now with the given policies: what is outside gardens, and in ``gardens``
    (ids, or ``*`` for all)."""

    scopes: tuple[str, ...]
    policies: tuple[DecayPolicy, ...]
    gardens: tuple[str, ...] = ()


class RevokeCapability(OwnShape, frozen=True, kw_only=True):
    """Revoke a token of this node (``node_id``), or one derived from it (``revocation_id``)."""

    token_id: str
    node_id: str
    revocation_id: str = ""
    reason: str = ""


class RevokeAgentKey(OwnShape, frozen=True, kw_only=True):
    key_id: str


class DeleteGarden(OwnShape, frozen=True, kw_only=True):
    """``admin``: whose role must allow it; None for an admin of the node."""

    garden_id: str
    admin: str | None = None


class SetMember(OwnShape, frozen=True, kw_only=True):
    """Give a member a role, or none. ``change`` says what it must be: a member that is to be
    added must be new, any other must be there. ``admin`` as in ``DeleteGarden``."""

    member: GardenMemberSet
    change: Literal["add", "change", "remove"]
    admin: str | None = None


class ReviewQuarantined(OwnShape, frozen=True, kw_only=True):
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


class RecordEpisodes(OwnShape, frozen=True, kw_only=True):
    """Episodes of one scope, or of one garden in it, in the order in which they happened;
    validated (``episodes.place``). ``undated``: indices of those that came without an instant
    and happened now: recorded again, they are repetitions at any time."""

    episodes: tuple[EpisodeRecorded, ...]
    member: str | None = None
    undated: frozenset[int] = frozenset()


class RecordSummary(OwnShape, frozen=True, kw_only=True):
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


class ApplyDeltas(OwnShape, frozen=True, kw_only=True):
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
    """Also whose authority over facts counts; None for rules, which admins set."""


class Consolidate(OwnShape, frozen=True, kw_only=True):
    """Apply what a run of a rule emitted, and note in the log that it ran; refused where
    another run was faster (the rule's watermark is no longer ``expected``). The counts of
    ``run`` are filled in by what becomes of the deltas."""

    apply: ApplyDeltas
    run: ConsolidationRan
    expected: int


class AdoptPage(OwnShape, frozen=True, kw_only=True):
    """Append verified events of one stream of a peer; ``statement`` is its signed head, and
    ``fact_ids`` are those of the facts that the events state."""

    node_id: str
    stream: str
    first_seq: int
    events: tuple[Foreign, ...]
    fact_ids: tuple[str, ...]
    statement: dict[str, Any]
    erasable: frozenset[bytes] = frozenset()
    refused: tuple[RefusedEvent, ...] = ()


class TakeForeignEnds(OwnShape, frozen=True):
    """Let what other nodes said of the end of facts take effect, as far as it may."""


class NoteEquivocation(OwnShape, frozen=True, kw_only=True):
    """Keep the evidence that a peer contradicted itself, and hold the stream."""

    peer_id: str
    evidence: PeerEquivocated


class Subscribe(OwnShape, frozen=True, kw_only=True):
    """Report changes to a subscriber from here on; at most ``most`` for one subscriber."""

    subscription: SubscriptionSet
    most: int


class Unsubscribe(OwnShape, frozen=True, kw_only=True):
    """Tell them no more; ``subscriber``: only if it is theirs."""

    subscription_id: str
    subscriber: str | None
    reason: str = ""


class ReceiveForeign(OwnShape, frozen=True, kw_only=True):
    """Take a page of facts that a foreign node sent. ``facts`` are checked and carry
    ``foreign``; ``refused`` were not worth taking; ``cursor`` is empty for pushed facts;
    ``scope`` is the requested one."""

    node_id: str
    facts: tuple[FactAsserted, ...]
    refused: tuple[RefusedFact, ...] = ()
    cursor: str = ""
    scope: str = ""
    received: int


class Refused(Struct, frozen=True):
    """Why a command did not happen; nothing of it was written.

    ``code`` is a stable snake_case name (``docs/errors.md``), ``field`` the request field.
    """

    code: str
    message: str
    field: str | None = None


class Done(Struct, frozen=True, gc=False):
    """What a command did.

    Attributes:
        events: what was recorded (empty if the state was so already).
        fact_id: the fact that answers the command, where one does.
        created: False if an equal live fact already answered.
        contradicted: whether the fact now has a live sibling with another value.
        retracted: ids of facts that ended through this command.
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
        """The last position this command wrote, or None."""
        return self.events[-1].position if self.events else None


class WriteAnswer(Struct, frozen=True):
    """One outcome a command, in order, and the log's head after them."""

    outcomes: list[Done | Refused]
    position: int
    replayed: bool = False


class EraseFacts(OwnShape, frozen=True, kw_only=True):
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


class EraseEvents(OwnShape, frozen=True, kw_only=True):
    """Erase the payloads of more local events under an erasure that was begun."""

    erasure_id: str
    reason: ErasureReason = "unspecified"
    events: tuple[str, ...] = ()


class StoreMemory(OwnShape, frozen=True, kw_only=True):
    """State a memory, unless its owner has just said the same (``memory_rules``).

    Attributes:
        fact: what is stated.
        rights: the asker's. What they may not read has no say.
        supersede: whether old memories end that the new one says are no longer so.
        likeness: compares texts whose vectors are known; None if nothing makes vectors.
    """

    fact: AssertFact
    rights: Authorization
    supersede: bool = True
    likeness: TextLikeness | None = None


class MergeMemories(OwnShape, frozen=True, kw_only=True):
    """Let the newer of two memories take the place of the older. ``rights``: the asker's, who
    may write as the owner of both."""

    fact_ids: tuple[str, str]
    rights: Authorization
    member: str | None = None


ALONE = (EraseFacts, EraseEvents, TakeForeignEnds, StoreMemory, MergeMemories)
"""Commands that are decided alone, with everything before them committed."""


class SetAttributes(OwnShape, frozen=True, kw_only=True):
    """Change attributes of a fact. ``changes``: by field. ``scopes``: those the caller may
    touch. ``admin``: may also lower a classification and lend any trust. ``relevance_change``
    is added to the present relevance, within its bounds."""

    fact_id: str
    changes: dict[str, Any]
    scopes: frozenset[str]
    relevance_change: int = 0
    admin: bool = False
    member: str | None = None


class PutManifest(OwnShape, frozen=True, kw_only=True):
    """A manifest that was read and whose signature holds, and the ``rotations`` it tells of."""

    manifest: OrgManifestSet
    rotations: tuple[dict[str, Any], ...]


class RestatedFact(Struct, frozen=True, kw_only=True):
    """What an event led to: a fact it stated, which the event calls ``key``, or one it ended
    (``ends``, a key or a fact id)."""

    key: str = ""
    fact: AssertFact | None = None
    ends: str = ""
    reason: str = ""


class RestateBatch(OwnShape, frozen=True, kw_only=True):
    """Deltas or a summary as another log has them, with the facts that they stated and ended.

    Where ``payload`` says a key of ``then``, the fact that gets stated is meant. Deltas that
    were applied here already are left out; ``detail.facts``: by key, the fact's id.
    """

    payload: DeltaApplied | SummaryRecorded
    then: tuple[RestatedFact, ...] = ()
