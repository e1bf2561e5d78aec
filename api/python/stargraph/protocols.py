"""The two stores as protocols: episodic memory and semantic memory, all asynchronous.

Source: the Stargraph seed. What a store answers is exact: names are compared by equality, and
None widens.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.python.stargraph.models import (
    AnyDelta,
    ConsolidationRule,
    Episode,
    FactPattern,
    MemorisedFact,
)


class MigrationNotSupported(ValueError):
    """Only columns that may be null can be added to a store."""


class EpisodeConflict(ValueError):
    """An episode of this id is recorded already, with another body."""


class Migration(BaseModel):
    """One change of a store's shape."""

    model_config = ConfigDict(extra="forbid")

    operation: Literal["add", "drop", "rename", "narrow"]
    column: str
    nullable: bool = True


class MigrationPlan(BaseModel):
    """Changes, in order."""

    model_config = ConfigDict(extra="forbid")

    changes: list[Migration] = Field(default_factory=list)

    def check(self) -> None:
        """Raises MigrationNotSupported. Metadata and payloads take new fields as they come."""
        for change in self.changes:
            if change.operation != "add" or not change.nullable:
                raise MigrationNotSupported(f"cannot {change.operation} column {change.column!r}")


class StoreHealth(BaseModel):
    """``version`` is the projection's; ``position`` what it has seen of the log."""

    ok: bool
    version: int
    position: int
    lock_state: Literal["free", "held"] = "held"
    warnings: list[str] = Field(default_factory=list)


class _Store(Protocol):
    async def bootstrap(self) -> None:
        """Make the store usable. Idempotent."""
        ...

    async def health(self) -> StoreHealth: ...

    async def migrate(self, plan: MigrationPlan) -> None:
        """Raises MigrationNotSupported for all but added nullable columns."""
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
        """Newest first; what is None widens."""
        ...

    async def consolidate(self, rule: ConsolidationRule) -> list[AnyDelta]:
        """What the rule makes of the episodes it has not read; nothing is applied."""
        ...


@runtime_checkable
class FactStore(_Store, Protocol):
    """Facts, scoped (user, agent): they outlive sessions."""

    async def pin(self, fact: MemorisedFact) -> None:
        """State a fact under its id. Raises ConsolidationRuleError without lineage, or for a
        confidence outside (0, 1]."""
        ...

    async def query(self, pattern: FactPattern) -> list[MemorisedFact]:
        """The facts that hold and match."""
        ...

    async def unpin(self, fact_id: str) -> None:
        """End a fact; nothing happens if there is none."""
        ...

    async def apply_delta(self, delta: AnyDelta) -> None:
        """Raises FactConflictError, ConsolidationRuleError."""
        ...
