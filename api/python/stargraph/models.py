"""Stargraph's models, with the fields of its documentation.

An instant without an offset is in UTC.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from engramlog.projections.episodes import delta as typed
from engramlog.projections.moment import parse_instant


class Episode(BaseModel):
    """An episode. Without ``timestamp``, the time of the put counts, and a second put changes
    nothing. ``metadata`` may hold ``intent``, ``replaces``, ``subject``, ``predicate`` and
    ``object``, which consolidation reads."""

    id: str
    content: str
    timestamp: datetime | None = None
    source_node: str = ""
    agent: str = ""
    user: str = ""
    session: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)


class AddDelta(BaseModel):
    """State a fact."""

    kind: Literal["add"] = "add"
    fact_payload: dict[str, Any]
    source_episode_ids: list[str]
    promotion_ts: datetime
    rule_id: str
    confidence: float


class UpdateDelta(BaseModel):
    """End the replaced facts and state one."""

    kind: Literal["update"] = "update"
    replaces: list[str]
    fact_payload: dict[str, Any]
    source_episode_ids: list[str]
    promotion_ts: datetime
    rule_id: str
    confidence: float


class DeleteDelta(BaseModel):
    """End the replaced facts."""

    kind: Literal["delete"] = "delete"
    replaces: list[str]
    source_episode_ids: list[str]
    promotion_ts: datetime
    rule_id: str
    confidence: float


class NoopDelta(BaseModel):
    """Change nothing, but record the delta."""

    kind: Literal["noop"] = "noop"
    source_episode_ids: list[str]
    promotion_ts: datetime
    rule_id: str
    confidence: float


AnyDelta: TypeAlias = AddDelta | UpdateDelta | DeleteDelta | NoopDelta
MemoryDelta: TypeAlias = Annotated[AnyDelta, Field(discriminator="kind")]


class MemorisedFact(BaseModel):
    """A fact of a user and agent. ``lineage`` (rule, source episodes, promotion) is mandatory."""

    id: str
    user: str
    agent: str
    payload: dict[str, Any]
    lineage: list[dict[str, Any]]
    confidence: float
    pinned_at: datetime
    metadata: dict[str, Any] = Field(default_factory=dict)


class FactPattern(BaseModel):
    """A filter of facts: None matches everything; other values match by equality. ``user`` defaults
    to the store's; a query reads one user's facts."""

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    user: str | None = None
    agent: str | None = None


class ConsolidationRule(BaseModel):
    """Turns episodes into deltas. ``then_emits``: only deltas of these kinds; empty for all.
    ``when_filter`` must be empty: a node's rules have no SQL."""

    id: str
    cadence: dict[str, Any]
    when_filter: str = ""
    then_emits: list[str] = Field(default_factory=list)


def utc_text(at: datetime) -> str:
    """An instant in wire form."""
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).isoformat()


def instant_us(at: datetime) -> int:
    """Microseconds UTC."""
    return parse_instant(utc_text(at))


def check_stargraph_delta(delta: AnyDelta) -> None:
    """Raises ConsolidationRuleError for the first rule that a delta breaks."""
    fields = delta.model_dump(exclude={"kind", "promotion_ts"})
    shape = _SHAPES[delta.kind]
    typed.check_delta(shape(promotion_us=instant_us(delta.promotion_ts), **fields))


_SHAPES: dict[str, Any] = {
    "add": typed.AddDelta,
    "update": typed.UpdateDelta,
    "delete": typed.DeleteDelta,
    "noop": typed.NoopDelta,
}
