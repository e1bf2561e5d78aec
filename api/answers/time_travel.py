"""Answers about the past: the state at a moment, a difference, the lives of facts."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import FactRecord, MomentRecord, ShortFact


class MomentState(Struct):
    """The facts at a moment."""

    facts: list[FactRecord]
    total: int
    cursor: str | None
    moment: MomentRecord


class ErasedFact(Struct):
    """An erased fact."""

    fact_id: str
    erasure_id: str
    position: int | UnsetType = UNSET


class Difference(Struct, rename={"from_": "from"}):
    """The changes of facts between two moments. Has the requested lists; ``erased`` is for
    admins."""

    from_: MomentRecord
    to: MomentRecord
    counts: dict[str, int]
    cursor: str | None = None
    erased: list[ErasedFact] | UnsetType = UNSET
    added: list[FactRecord] | UnsetType = UNSET
    retracted: list[FactRecord] | UnsetType = UNSET
    decayed: list[FactRecord] | UnsetType = UNSET
    resolved: list[FactRecord] | UnsetType = UNSET


class TouchRecord(Struct):
    """One event that touched facts."""

    position: int
    received_at: str
    recorded_at: str
    kind: str
    actor: str
    event_id: str
    causation_id: str | None
    origin: str
    peer: str | None
    fact_ids: list[str]
    reason: str | None
    note: str | None
    conflict_id: str | None
    winner_id: str | None


class BeliefPoint(Struct):
    """The confidence from a position on."""

    position: int
    at: str
    confidence: float
    cause: str


class FactLife(Struct):
    """A fact's events, and its confidence over time. For an erased fact, and only for admins: the
    events that name it."""

    fact: FactRecord | None
    events: list[TouchRecord]
    belief: list[BeliefPoint]
    truncated: bool
    moment: MomentRecord
    erased: ErasedFact | UnsetType = UNSET


class EntityLife(Struct):
    """The events of all facts about an entity. ``stated``: those facts that the events name, as of
    the moment."""

    entity: str
    facts: int
    events: list[TouchRecord]
    stated: list[ShortFact]
    truncated: bool
    moment: MomentRecord


class Column(Struct):
    """A column of a table."""

    name: str
    type: str


class SqlAnswer(Struct):
    """Rows of a statement."""

    columns: list[Column]
    rows: list[list[Any]]
    truncated: bool
    moment: MomentRecord
