"""Facts: stated, ended, settled, described, erased."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import FactId, InstantUs, Payload, Scope


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


class FactAsserted(Payload, frozen=True, gc=False, tag="fact_asserted"):
    """A source states a fact. Its id is the event id unless ``id`` says otherwise.

    ``garden_id`` is the garden whose members alone may see it; such a fact, and whatever
    ends or settles it, is in the garden's stream, not the scope's.
    ``foreign`` wraps a fact of a node that speaks only the protocol's federation; its id is
    then computed from the payload, so that all who wrap it agree
    (``projections/tables/peers/protocol_facts.py``).
    """

    version: ClassVar[int] = 4
    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "assert"
    entity: str
    relation: str
    value: Value
    source: str
    scope: Scope
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

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "retract"
    fact_ids: list[FactId]
    reason: str = ""
    marker_id: str | None = None


class FactDenied(Payload, frozen=True, tag="fact_denied"):
    """Another source says that the named facts do not hold. They stay live, in contradiction
    with ``marker_id``, the confidence-0 fact that says so."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "deny"
    fact_ids: list[FactId]
    marker_id: FactId


class ConflictResolved(Payload, frozen=True, tag="conflict_resolved"):
    """A settled contradiction: ``winner_id`` stays live, ``loser_ids`` are set aside."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "resolve"
    conflict_id: str
    winner_id: FactId
    loser_ids: list[FactId]
    resolution_fact_id: str
    note: str = ""


class FactAttributesSet(Payload, frozen=True, tag="fact_attributes_set"):
    """All attributes of a fact, as they are from here on. In the fact's scope or garden;
    another node's word counts for facts that it stated itself."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "attributes"
    fact_id: FactId
    attributes: FactAttributes


class MemoriesMerged(Payload, frozen=True, tag="memories_merged"):
    """One memory takes the place of others: ``kept_id`` counts as recalled, cited and rejected
    that much oftener from here on. ``instants_us``: the recalls to remember of it besides its
    own, ascending, in microseconds. The end of ``merged_ids`` and what ``kept_id`` takes over
    of their attributes are their own events."""

    line: ClassVar[str] = "merged"
    kept_id: FactId
    merged_ids: list[FactId]
    recalls: int = 0
    instants_us: list[InstantUs] = field(default_factory=list)
    citations: int = 0
    rejections: int = 0


ErasureReason: TypeAlias = Literal["request", "law", "policy", "mistake", "unspecified"]


class FactErased(Payload, frozen=True, tag="fact_erased"):
    """The payloads of ``events`` (ids) are gone from the log, and with them what the facts
    ``fact_ids`` said. Nothing here repeats any of it: a reason is a word of a fixed list.

    One erasure leaves such an event in every stream that it touched, under one
    ``erasure_id``; in the node's own stream it names local events (receipts, reviews).
    """

    replicated: ClassVar[bool] = True
    erasure_id: str
    events: list[str]
    fact_ids: list[str] = field(default_factory=list)
    reason: ErasureReason = "unspecified"


class LegalHoldSet(Payload, frozen=True, tag="legal_hold_set"):
    """A fact, or all facts about an entity, may not be erased from here on, or may again."""

    line: ClassVar[str] = "hold"
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


FactPayload: TypeAlias = (
    FactAsserted
    | FactRetracted
    | FactDenied
    | ConflictResolved
    | FactAttributesSet
    | MemoriesMerged
    | FactErased
    | LegalHoldSet
    | ErasureCertified
)
