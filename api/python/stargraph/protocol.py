"""Stargraph's models and protocols: episodic memory, semantic memory and salience, asynchronous.

Source: the Stargraph seed. Stores compare names by equality, and None widens. An instant without an
offset is in UTC.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel, Field

from engramlog.projections.episodes import delta as typed
from engramlog.projections.episodes import salience
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


class MigrationNotSupported(ValueError):
    """A store can only gain nullable columns."""


class EpisodeConflict(ValueError):
    """An episode with this id exists, with another body."""


class Migration(BaseModel, extra="forbid"):
    """One change of a store's shape."""

    operation: Literal["add", "drop", "rename", "narrow"]
    column: str
    nullable: bool = True


class MigrationPlan(BaseModel, extra="forbid"):
    """Changes, in order."""

    changes: list[Migration] = Field(default_factory=list)

    def check(self) -> None:
        """Raises MigrationNotSupported: metadata and payloads accept new fields without one."""
        for change in self.changes:
            if change.operation != "add" or not change.nullable:
                raise MigrationNotSupported(f"cannot {change.operation} column {change.column!r}")


class StoreHealth(BaseModel):
    """``version`` is the projection's; ``position``: how far it has read the log."""

    ok: bool
    version: int
    position: int
    lock_state: Literal["free", "held"] = "held"
    warnings: list[str] = Field(default_factory=list)


class _Store(Protocol):
    async def bootstrap(self) -> None:
        """Prepare the store. Idempotent."""
        ...

    async def health(self) -> StoreHealth: ...

    async def migrate(self, plan: MigrationPlan) -> None:
        """Raises MigrationNotSupported except for added nullable columns."""
        ...


@runtime_checkable
class MemoryStore(_Store, Protocol):
    """Episodes, scoped (user, session, agent)."""

    async def put(self, episode: Episode, *, user: str, session: str, agent: str) -> None:
        """Record an episode. Raises EpisodeConflict, MemoryScopeError."""
        ...

    async def recent(
        self, user: str, session: str | None = None, agent: str | None = None, *, limit: int
    ) -> list[Episode]:
        """Newest first; None widens."""
        ...

    async def consolidate(self, rule: ConsolidationRule) -> list[AnyDelta]:
        """The rule's deltas from unread episodes; applies none."""
        ...


@runtime_checkable
class FactStore(_Store, Protocol):
    """Facts, scoped (user, agent): they outlive sessions."""

    async def pin(self, fact: MemorisedFact) -> None:
        """State a fact under its id. Raises ConsolidationRuleError without lineage, or for a
        confidence outside (0, 1]."""
        ...

    async def query(self, pattern: FactPattern) -> list[MemorisedFact]:
        """The live facts that match."""
        ...

    async def unpin(self, fact_id: str) -> None:
        """End a fact; does nothing without one."""
        ...

    async def apply_delta(self, delta: AnyDelta) -> None:
        """Raises FactConflictError, ConsolidationRuleError."""
        ...


WEIGHTS = {"recency": 1.0, "relevance": 0.0, "importance": 0.0}


class SalienceContext(BaseModel):
    """The inputs of salience besides the episode itself. Recency counts from the last access. An
    absent weight is 0."""

    last_access_ts: datetime
    query_embedding: list[float] | None = None
    access_count: int = 0
    rule_match_count: int = 0
    weights: dict[str, float] = Field(default_factory=lambda: dict(WEIGHTS))
    decay_tau_seconds: float = Field(default=salience.DAY_S, gt=0)


@runtime_checkable
class SalienceScorer(Protocol):
    """Scores episodes; ``score`` returns a number in [0, 1]."""

    async def score(self, memory: Episode, context: SalienceContext) -> float: ...


class RuleBasedScorer:
    """Recency × frequency × rule matches, without relevance and importance."""

    async def score(self, memory: Episode, context: SalienceContext) -> float:  # noqa: ARG002
        """The episode's salience, in [0, 1]."""
        return salience.salience(
            salience.SalienceContext(
                now_us=instant_us(datetime.now(UTC)),
                last_access_us=instant_us(context.last_access_ts),
                access_count=context.access_count,
                rule_match_count=context.rule_match_count,
                weights=salience.SalienceWeights(recency=context.weights.get("recency", 0.0)),
                tau_seconds=context.decay_tau_seconds,
                frequency="mul",
            )
        )
