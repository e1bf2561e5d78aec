"""The two stores as protocols: episodic memory and semantic memory, all asynchronous.

Source: the Stargraph seed. Stores compare names by equality, and None widens.
"""

from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from engramlog.api.python.stargraph.models import (
    AnyDelta,
    ConsolidationRule,
    Episode,
    FactPattern,
    MemorisedFact,
)


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
