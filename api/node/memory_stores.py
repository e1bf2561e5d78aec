"""Both stores over an open node, for programs that hold one: the same commands as over HTTP.

A store stands in one scope or garden and speaks for one actor, with the rights of the node.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import CEILING, Authorization, everything
from engramlog.projections.episodes import reading
from engramlog.projections.episodes.classifying import UnusableEpisode, check_payload
from engramlog.projections.episodes.delta import (
    AddDelta,
    ConflictReason,
    ConsolidationRuleError,
    DeleteDelta,
    FactConflictError,
    MemoryDelta,
    Proposal,
    check_delta,
    kind_of_delta,
    payload_of,
    stated_id,
)
from engramlog.projections.episodes.episode import Episode, FactPattern, MemoryFact
from engramlog.projections.episodes.recounting import matches, memory_fact
from engramlog.projections.episodes.rule import Rule
from engramlog.projections.episodes.salience import SalienceScorer
from engramlog.projections.episodes.stores import (
    EpisodeConflict,
    MigrationPlan,
    StoreHealth,
    check_migration,
)
from engramlog.projections.image.visible_facts import live
from engramlog.projections.memories.place import MemoryPlace, name_part
from engramlog.projections.moment import Moment
from engramlog.projections.tables.episodes.deltas import DeltasProjector
from engramlog.projections.tables.episodes.episodes import EpisodesProjector
from engramlog.projections.writing.commands import (
    ApplyDeltas,
    Command,
    Done,
    RecordEpisodes,
    Refused,
)

PINNED = "pin"
"""Rule id of facts that are pinned without one."""


class Standpoint(Struct, frozen=True):
    """Where a store's memories lie, and who records them."""

    scope: str = "local"
    garden_id: str | None = None
    actor: str = "system:engramlog"

    @property
    def rights(self) -> Authorization:
        """The node's own, within the scope or garden."""
        inside = everything(self.actor).narrowed(frozenset({self.scope})).capped(CEILING)
        if self.garden_id is not None:
            return inside.within(self.garden_id)
        return msgspec.structs.replace(inside, every_garden=False)


class _NodeStore:
    """What both stores have in common."""

    _version: int

    def __init__(self, node: Node, where: Standpoint | None = None) -> None:
        self._node = node
        self._where = Standpoint() if where is None else where

    async def bootstrap(self) -> None:
        """Nothing to do: an open node has its tables."""

    async def health(self) -> StoreHealth:
        status = self._node.status()
        degraded = status["degraded"]
        warnings = [] if degraded is None else [str(degraded)]
        return StoreHealth(
            ok=degraded is None,
            version=self._version,
            position=status["position"],
            warnings=warnings,
        )

    async def migrate(self, plan: MigrationPlan) -> None:
        """Metadata and payloads take new fields as they come; nothing else is possible."""
        check_migration(plan)

    def _now(self) -> Moment:
        return self._node.moment()

    async def _do(self, command: Command) -> Done:
        future = self._node.writer.submit([command], actor=self._where.actor)
        (outcome,) = (await asyncio.wrap_future(future)).outcomes
        if isinstance(outcome, Refused):
            if outcome.code == "episode_conflict":
                raise EpisodeConflict(outcome.message)
            raise ValueError(outcome.message)
        return outcome


class NodeMemoryStore(_NodeStore):
    """Implements ``MemoryStore``."""

    _version = EpisodesProjector.version

    def __init__(
        self,
        node: Node,
        where: Standpoint | None = None,
        scorer: SalienceScorer | None = None,
    ) -> None:
        super().__init__(node, where)
        self._consolidator = Consolidator(node, scorer)

    async def put(self, episode: Episode, *, user: str, session: str, agent: str) -> None:
        where = self._where
        new = EpisodeRecorded(
            user=name_part("user", user),
            session=name_part("session", session),
            agent=name_part("agent", agent),
            content=episode.content,
            at_us=episode.at_us,
            scope=where.scope,  # pyright: ignore[reportArgumentType]  # checked: a scope
            garden_id=where.garden_id,
            id=name_part("id", episode.id),
            source_node=episode.source_node,
            metadata=episode.metadata,
            run_id=episode.run_id,
            step=episode.step,
        )
        await self._do(RecordEpisodes(episodes=(new,)))

    async def recent(
        self, user: str, session: str | None = None, agent: str | None = None, *, limit: int
    ) -> list[Episode]:
        names = {
            "user": name_part("user", user),
            "session": None if session is None else name_part("session", session),
            "agent": None if agent is None else name_part("agent", agent),
        }

        def read() -> list[Episode]:
            with self._node.reader.pool.connection() as db:
                return reading.recent(
                    db,
                    self._where.rights,
                    self._now().position,
                    user=names["user"] or "",
                    session=names["session"],
                    agent=names["agent"],
                    limit=limit,
                )

        return await asyncio.to_thread(read)

    async def consolidate(self, rule: Rule) -> list[Proposal]:
        return (await self._consolidator.dry_run(rule)).proposals


class NodeFactStore(_NodeStore):
    """Implements ``FactStore``."""

    _version = DeltasProjector.version

    async def pin(self, fact: MemoryFact) -> None:
        if not fact.lineage:
            raise ValueError("lineage must be non-empty")
        first = fact.lineage[0]
        sources = first.get("source_episode_ids") or [first.get("triple_id") or fact.id]
        delta = AddDelta(
            fact_payload={**fact.payload, "id": fact.id},
            source_episode_ids=[str(each) for each in sources],
            promotion_us=fact.pinned_us,
            rule_id=str(first.get("rule_id") or PINNED),
            confidence=fact.confidence,
        )
        await self._apply(delta, fact.user, fact.agent, lineage=fact.lineage)

    async def query(self, pattern: FactPattern) -> list[MemoryFact]:
        return await asyncio.to_thread(self._query, pattern)

    def _query(self, pattern: FactPattern) -> list[MemoryFact]:
        view, now = self._node.reader.pin(), self._now()
        with self._node.reader.pool.connection() as db:
            rows = reading.memory_facts_at(db, now.position, user=pattern.user, agent=pattern.agent)
        slot_of = self._node.reader.slot_of
        by_slot = {slot: row for row in rows if (slot := slot_of(row["fact_id"])) is not None}
        slots = live(view, self._where.rights, now, np.sort(np.array([*by_slot], dtype=np.int32)))
        said = self._node.reader.rows(view.from_position[slots].tolist())
        confidence = view.confidence(slots, now).tolist()
        facts = [
            memory_fact(by_slot[slot], row.relation, row.value_type, row.value_v, sure)
            for slot, row, sure in zip(slots.tolist(), said, confidence, strict=True)
        ]
        return [fact for fact in facts if matches(pattern, fact.payload)]

    async def unpin(self, fact_id: str, *, user: str, agent: str) -> None:
        delta = DeleteDelta(
            replaces=[fact_id],
            source_episode_ids=[fact_id],
            promotion_us=self._node.clock.now_us(),
            rule_id="unpin",
            confidence=1.0,
        )
        await self._apply(delta, user, agent, strict=False)

    async def apply_delta(self, delta: MemoryDelta, *, user: str, agent: str) -> None:
        await self._apply(delta, user, agent)

    async def _apply(
        self,
        delta: MemoryDelta,
        user: str,
        agent: str,
        *,
        strict: bool = True,
        lineage: list[dict[str, Any]] | None = None,
    ) -> None:
        check_delta(delta)
        payload = payload_of(delta)
        if payload is not None:
            try:
                check_payload(payload)
            except UnusableEpisode as fault:
                kind = kind_of_delta(delta)
                raise ConsolidationRuleError(delta.rule_id, kind, str(fault)) from fault
        where = self._where
        place = MemoryPlace(
            name_part("user", user), name_part("agent", agent), where.scope, where.garden_id
        )
        proposal = Proposal(
            delta, place, stated_id(delta, place), where.actor, lineage=lineage or []
        )
        command = ApplyDeltas(
            scope=where.scope,
            garden_id=where.garden_id,
            proposals=(proposal,),
            strict=strict,
        )
        done = await self._do(command)
        conflict: dict[str, Any] | None = done.detail.get("conflict")
        if conflict is not None:
            reason: ConflictReason = conflict["reason"]
            raise FactConflictError(reason, conflict["message"], conflict["delta_id"])
