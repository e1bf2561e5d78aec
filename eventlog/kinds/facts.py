"""Facts: stated, ended, settled, described, erased."""

from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import FactId, InstantUs, Payload, Scope


class Value(Struct, frozen=True, omit_defaults=True, gc=False):
    """A typed value. ``v`` is the canonical text that the CID covers."""

    type: Literal["string", "text", "number", "boolean", "datetime", "ref", "null"]
    v: str = "null"
    interpret_as: Literal["content", "instruction"] = "content"


class Parent(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of ``derived_from``: 64 hex digits, and the fact id if given."""

    hash: str
    fact_id: str | None = None


class Attestation(Struct, frozen=True, gc=False):
    """A source's own signature over a fact, by a registered agent key (wire 1.6)."""

    key_id: str
    signature: str


class ForeignFact(Struct, frozen=True, gc=False):
    """The origin of a fact from a node without our event log: that node, its id for the fact, its
    clock reading (packed like ours) and its time (microseconds)."""

    node_id: str
    fact_id: str
    hlc: int
    recorded_at: int


class FactAttributes(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Attributes for abmind's ranking (its seed, and the columns of ``extracted_memories``).

    ``emotion_score`` is -5 to 5. ``trust`` is 0 (web, unknown) to 3 (owner). ``integrity`` is 0
    (verbatim) to 3 (compacted). ``credibility`` is 1 (confirmed) to 6 (unknown), lower is better.
    ``classification`` is 0 (public), 1 (internal), 2 (confidential) or 3 (secret). ``relevance`` is
    set by hand, in steps of 10. ``original``: the user's own words of a translated fact;
    ``keywords``: terms that must find it in that language.
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
    """A source states a fact. Its id is the event id unless ``id`` is set.

    ``garden_id``: the garden whose members alone may see it; such a fact, and the events that end
    or settle it, are in the garden's stream, not the scope's. ``foreign`` wraps a fact of a node
    that speaks only the protocol's federation. Its id is computed from the payload, so that all
    wrappers agree (``projections/tables/peers/protocol_facts.py``).
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
    """The named facts are retracted. ``marker_id``: the confidence-0 fact that asked for it."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "retract"
    fact_ids: list[FactId]
    reason: str = ""
    marker_id: str | None = None


class FactDenied(Payload, frozen=True, tag="fact_denied"):
    """Another source denies the named facts. They stay live, in contradiction with ``marker_id``,
    the confidence-0 fact of the denial."""

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
    """All attributes of a fact, from now on. In the fact's scope or garden; another node may set
    those of facts that it stated."""

    replicated: ClassVar[bool] = True
    line: ClassVar[str] = "attributes"
    fact_id: FactId
    attributes: FactAttributes


class MemoriesMerged(Payload, frozen=True, tag="memories_merged"):
    """One memory replaces others: ``kept_id`` inherits these counts of recalls, citations and
    rejections. ``instants_us``: recalls to add to its own, ascending, in microseconds. Separate
    events end ``merged_ids`` and give ``kept_id`` their attributes."""

    line: ClassVar[str] = "merged"
    kept_id: FactId
    merged_ids: list[FactId]
    recalls: int = 0
    instants_us: list[InstantUs] = field(default_factory=list)
    citations: int = 0
    rejections: int = 0


ErasureReason: TypeAlias = Literal["request", "law", "policy", "mistake", "unspecified"]


class FactErased(Payload, frozen=True, tag="fact_erased"):
    """The payloads of ``events`` (ids) are erased from the log, and with them the content of the
    facts ``fact_ids``. Nothing here repeats any of it: the reason is a word of a fixed list.

    One erasure leaves such an event in every stream that it touched, under one ``erasure_id``; in
    the node's own stream it names local events (receipts, reviews).
    """

    replicated: ClassVar[bool] = True
    erasure_id: str
    events: list[str]
    fact_ids: list[str] = field(default_factory=list)
    reason: ErasureReason = "unspecified"


class LegalHoldSet(Payload, frozen=True, tag="legal_hold_set"):
    """A fact, or all facts about an entity, may not be erased from now on, or may again. Version 1
    had no ``reason``."""

    version: ClassVar[int] = 2
    line: ClassVar[str] = "hold"
    target_kind: Literal["fact", "entity"]
    target: str
    held: bool = True
    reason: str = ""


class ErasureCertified(Payload, frozen=True, tag="erasure_certified"):
    """The receipt of an erasure: no file of this node holds anything of it. ``document`` is the
    signed JSON text, ``signature`` the node's Ed25519 over its bytes (base64)."""

    erasure_id: str
    document: str
    signature: str
