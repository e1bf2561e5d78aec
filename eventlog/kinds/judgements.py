"""Judgements of existing facts by people and other nodes, and the facts that recalls returned."""

from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import FactId, GardenId, InstantUs, Payload


class RecallUse(Struct, frozen=True, omit_defaults=True):
    """One fact's share in a batch of recalls. ``earlier_us``: the instants before the last, oldest
    first, up to a limit."""

    fact_id: FactId
    count: int
    last_at_us: InstantUs
    earlier_us: tuple[InstantUs, ...] = ()


class RecallServed(Payload, frozen=True, tag="recall_served"):
    """Facts returned by recalls since the last such event (batched, at most 30 s)."""

    version: ClassVar[int] = 2
    line: ClassVar[str] = "recalled"
    uses: list[RecallUse]


class Returned(Struct, frozen=True, array_like=True):
    """One fact of a recall's answer, in order of rank. ``card``: a memory card's fact."""

    fact_id: str
    score: float
    card: bool = False


class StageReport(Struct, frozen=True, array_like=True):
    """The outcome of a stage of a recall: ``completed``, ``disabled``, ``deadline``, ``failed``."""

    name: str
    status: str


class RecallAnswered(Payload, frozen=True, tag="recall_answered"):
    """The receipt of one recall: caller, question, moment, and answer.

    ``request`` holds the fields that were sent, without the query. ``profile_digest``: of the
    profile's document. ``position``, ``instant_us`` and ``valid_us`` are the Moment. ``counted``:
    the facts' access counts include it (``recall_served`` carries them, so that they outlive an
    erased receipt).
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


class FactFeedback(Payload, frozen=True, tag="fact_feedback"):
    """Feedback of a recall's caller on its facts: ``cited`` ones were used in an answer,
    ``rejected`` ones were found wrong. ``receipt_id``: the recall, if known."""

    line: ClassVar[str] = "feedback"
    cited: list[FactId] = field(default_factory=list)
    rejected: list[FactId] = field(default_factory=list)
    receipt_id: str | None = None


class ContentReviewed(Payload, frozen=True, tag="content_reviewed"):
    """A decision on a fact that the sanitizer flagged: serve it, or hold it back."""

    line: ClassVar[str] = "review"
    fact_id: FactId
    decision: Literal["release", "keep"]
    reason: str = ""


class QuarantineReviewed(Payload, frozen=True, tag="quarantine_reviewed"):
    """The review of a quarantined fact. If admitted, it was restated as ``admitted_fact_id`` in
    ``target_garden_id`` (null: outside gardens). Either way the quarantined fact ends."""

    line: ClassVar[str] = "judged"
    fact_id: FactId
    garden_id: GardenId
    decision: Literal["admitted", "rejected"]
    reason: str = ""
    target_garden_id: GardenId | None = None
    admitted_fact_id: FactId | None = None


class TombstoneSet(Payload, frozen=True, tag="tombstone_set"):
    """Facts about ``entity``, and refs to it, are hidden from every answer from now on.

    ``scopes``: where it hides here. ``scope``: as signed; of a peer's, only part may have effect.
    ``node_id``: the signer of the record (``replay/stigmem/tombstones.py``); null: this node.
    ``entity_uri``: the entity as signed.
    """

    line: ClassVar[str] = "tombstone"
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
    """A tombstone is revoked and hides nothing any more."""

    line: ClassVar[str] = "tombstone"
    revocation_id: str
    tombstone_id: str
    reason: str
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    node_id: str | None = None
