"""What people and other nodes say about facts that are there, and which facts recalls returned."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import FactId, GardenId, InstantUs, Payload


class RecallUse(Struct, frozen=True, omit_defaults=True):
    """One fact's share in a batch of recalls.

    ``earlier_us``: the instants before the last, oldest first, as many as are kept.
    """

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


class FactFeedback(Payload, frozen=True, tag="fact_feedback"):
    """The caller of a recall says what became of its facts: ``cited`` ones were used in an
    answer, ``rejected`` ones were found wrong. ``receipt_id`` names the recall, where known."""

    line: ClassVar[str] = "feedback"
    cited: list[FactId] = field(default_factory=list)
    rejected: list[FactId] = field(default_factory=list)
    receipt_id: str | None = None


class ContentReviewed(Payload, frozen=True, tag="content_reviewed"):
    """A decision about a fact that the sanitizer flagged: serve it, or keep it back."""

    line: ClassVar[str] = "review"
    fact_id: FactId
    decision: Literal["release", "keep"]
    reason: str = ""


class QuarantineReviewed(Payload, frozen=True, tag="quarantine_reviewed"):
    """A quarantined fact was judged. Admitted, it was stated again as ``admitted_fact_id`` in
    ``target_garden_id`` (null: outside gardens); either way it no longer holds itself."""

    line: ClassVar[str] = "judged"
    fact_id: FactId
    garden_id: GardenId
    decision: Literal["admitted", "rejected"]
    reason: str = ""
    target_garden_id: GardenId | None = None
    admitted_fact_id: FactId | None = None


class TombstoneSet(Payload, frozen=True, tag="tombstone_set"):
    """Facts about ``entity``, and refs to it, are hidden from every answer from here on.

    ``scopes`` are those it hides in here; ``scope`` is what was signed, of which a peer's may
    count for less. ``node_id`` signed the record (``replay/stigmem/tombstones.py``);
    null: this node. ``entity_uri`` is the entity as it was signed.
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
    """A tombstone hides nothing any more."""

    line: ClassVar[str] = "tombstone"
    revocation_id: str
    tombstone_id: str
    reason: str
    created_at: str
    signed_by: str
    key_id: str
    signature: str
    node_id: str | None = None


JudgementPayload: TypeAlias = (
    RecallServed
    | RecallAnswered
    | FactFeedback
    | ContentReviewed
    | QuarantineReviewed
    | TombstoneSet
    | TombstoneRevoked
)
