"""The two stores as protocols: episodic memory and semantic memory, all asynchronous.

Source: the Stargraph seed. ``api/node/memory_stores.py`` implements them over a node.
What a store answers is exact: names are compared by equality, and None widens.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from engramlog.projections.episodes.delta import MemoryDelta, Proposal
from engramlog.projections.episodes.episode import Episode, FactPattern, MemoryFact
from engramlog.projections.episodes.rule import Rule


class MigrationNotSupported(ValueError):
    """Only columns that may be null can be added to a store."""


class Migration(Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a store's shape."""

    operation: Literal["add", "drop", "rename", "narrow"]
    column: str
    nullable: bool = True


class MigrationPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes, in order."""

    changes: list[Migration] = field(default_factory=list)


class StoreHealth(Struct, frozen=True):
    """``version`` is the projection's; ``position`` what it has seen of the log."""

    ok: bool
    version: int
    position: int
    lock_state: Literal["free", "held"] = "held"
    warnings: list[str] = field(default_factory=list)


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

    async def consolidate(self, rule: Rule) -> list[Proposal]:
        """What the rule makes of the episodes it has not read; nothing is applied."""
        ...


@runtime_checkable
class FactStore(_Store, Protocol):
    """Facts, scoped (user, agent): they outlive sessions."""

    async def pin(self, fact: MemoryFact) -> None:
        """State a fact under its id. Raises ValueError without lineage or for a confidence
        outside (0, 1]."""
        ...

    async def query(self, pattern: FactPattern) -> list[MemoryFact]:
        """The facts that hold and match."""
        ...

    async def unpin(self, fact_id: str, *, user: str, agent: str) -> None:
        """End a fact; nothing happens where there is none."""
        ...

    async def apply_delta(self, delta: MemoryDelta, *, user: str, agent: str) -> None:
        """Raises FactConflictError, ConsolidationRuleError."""
        ...


class EpisodeConflict(ValueError):
    """An episode of this id is recorded already, with another body."""


def check_migration(plan: MigrationPlan) -> None:
    """Raises MigrationNotSupported."""
    for change in plan.changes:
        if change.operation != "add" or not change.nullable:
            raise MigrationNotSupported(f"cannot {change.operation} column {change.column!r}")
