"""Pairs of worlds that differ only in private facts, for tests that nothing of them leaks.

A history is drawn once and lived twice. In the second life neutral events replace every private
step: a garden, its members, facts, retractions, settlements, sweeps, reviews, recalls by members.
Positions, times and identifiers stay the same. A non-member gets the same bytes in both.
"""

import asyncio
import hashlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import msgspec
import numpy as np

from engramlog.api.node.tasks.recall_tracking import RecallTracker
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import (
    DecayPolicy,
    EpisodeAccessed,
    EpisodeRecorded,
    FactAsserted,
    FactAttributes,
    GardenCreated,
    GardenMemberSet,
    Parent,
    ProfileSet,
    RecallServed,
    RecallUse,
    SourceTrustSet,
    Value,
)
from engramlog.projections.authorization import Authorization, everything
from engramlog.projections.contradictions.conflicts import Conflict, conflicts
from engramlog.projections.episodes.delta import (
    AddDelta,
    DeleteDelta,
    MemoryDelta,
    Proposal,
    UpdateDelta,
    stated_id,
)
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    ResolveConflict,
    RetractFact,
    ReviewQuarantined,
    SetAttributes,
    SetMember,
    SweepDecay,
)
from engramlog.projections.writing.memory_commands import (
    ApplyDeltas,
    MergeMemories,
    RecordEpisodes,
    RecordSummary,
    StoreMemory,
)
from tests.worlds.live import LiveNode
from tests.worlds.private_steps import (
    ALIKE,
    ALL_SCOPES,
    ENTITIES,
    GARDENS,
    MEMBER,
    MEMORIES,
    NAMES,
    NAMING,
    OUTSIDER,
    RELATIONS,
    SCOPE,
    SECOND_US,
    SOURCES,
    START_US,
    STEP_US,
    SUMMARIES,
    USERS,
    VALUES,
    Step,
)
from tests.worlds.stated_facts import stated, stating


async def _idle(_: RecallTracker) -> None:
    """Receipts are written on request and at the end: by the clock, two worlds on a slow machine
    would write them at different points."""
    await asyncio.Event().wait()


class AtOnce(Executor):
    """Runs each submitted call to its end, so that no deadline passes."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def unhurried(live: LiveNode) -> None:
    """Make answers independent of a busy machine's timing: which stages of a recall, and which
    memory cards, are done in time."""
    service = live.service()
    object.__setattr__(service, "stage_pool", AtOnce())
    service.cards._force_seconds = 120.0


class Life:
    """One life of a history, in an open node behind HTTP."""

    def __init__(self, path: Path, *, private: bool, **settings: Any) -> None:
        self.clock = FixedClock(START_US)
        with (
            mock.patch("engramlog.api.node.node._cursor_key", return_value=b"k" * 32),
            mock.patch.object(RecallTracker, "run", _idle),
        ):
            self.live = LiveNode(
                path, clock=self.clock, auth_required=True, explain_permission="read", **settings
            )
        unhurried(self.live)
        self.node = self.live.node
        numbers = count()
        self.node.writer._identifiers = IdentifierSource(  # the same in both lives
            "of either world",
            lambda size: hashlib.shake_256(next(numbers).to_bytes(8)).digest(size),
        )
        self.private = private
        self.gardens: dict[int, str] = {}
        self.open: list[tuple[str, str]] = []
        """(id, content id) of public facts."""
        self.hidden: list[tuple[str, str]] = []
        """The same of private facts."""
        self.key = self.live.mint("read", "write", "federate", "audit.read", entity=OUTSIDER)
        self.member_key = self.live.mint("read", "write", "audit.read", entity=MEMBER)
        self.admin_key = self.live.mint("read", "admin", "audit.read", entity="agent:root")
        self.node.write(ProfileSet(name=NAMING["name"], document=NAMING))

    def take(self, step: Step, events: int) -> int:
        """Run a step, or ``events`` neutral events; returns how many were recorded."""
        self.clock.advance(SECOND_US if step.kind == "memory" else STEP_US)
        if step.private and not self.private:
            # one command each, so that counters of the node agree as well
            silence = [
                SourceTrustSet(source="agent:nobody", trust=1.0, reason=str(n))
                for n in range(events)
            ]
            self._write(silence, MEMBER)
            return events
        intent = self._intent(step)
        done = self._write([] if intent is None else [intent], MEMBER if step.private else OUTSIDER)
        recorded = 0
        for outcome in done:
            if isinstance(outcome, Done):
                recorded += len(outcome.events)
                self._learn(step, intent, outcome)
        return recorded

    def _write(self, intents: Sequence[Command], actor: str) -> list[Any]:
        return self.node.writer.submit(intents, actor=actor).result().outcomes

    def _learn(self, step: Step, intent: Command | None, done: Done) -> None:
        if isinstance(intent, GardenCreated):
            self.gardens[step.garden] = done.detail["garden_id"]
        if isinstance(intent, ApplyDeltas):
            for result in done.detail["results"]:
                if result["status"] == "applied" and result["fact_id"] is not None:
                    slot = self.node.reader.image.facts.slot_of[result["fact_id"]]
                    position = int(self.node.reader.pin().from_position[slot])
                    (row,) = self.node.reader.rows([position])
                    (self.hidden if step.private else self.open).append((row.id, row.cid))
        if isinstance(intent, RecordSummary | StoreMemory | MergeMemories):
            for event in done.events:
                if isinstance(event.payload, FactAsserted):
                    stated = (fact_id(event), event.payload.cid)
                    (self.hidden if step.private else self.open).append(stated)
        if isinstance(intent, AssertFact) and done.fact_id is not None and done.created:
            (self.hidden if step.private else self.open).append((done.fact_id, intent.fact.cid))

    def _intent(self, step: Step) -> Command | None:
        among = self.hidden if step.private else self.open
        alone: dict[str, Callable[[Step], Command | None]] = {
            "classified": self._classified,
            "episode": self._episode,
            "delta": self._delta,
            "look": self._look,
            "memory": self._memory,
            "summary": self._summary,
            "resolve": self._settlement,
            "sweep": self._sweep,
        }
        if step.kind in alone:
            return alone[step.kind](step)
        match step.kind:
            case "garden":
                slug = GARDENS[step.garden]
                return GardenCreated(
                    garden_id=str(uuid4()),
                    slug=slug,
                    name=slug,
                    scope=SCOPE,
                    created_by=MEMBER,
                    quarantine=step.garden > 0,
                )
            case "fact":
                return self._fact(step, self.open + (self.hidden if step.private else []))
            case "reclassify" if among:
                return self._set(step, among[step.pick % len(among)][0])
            case "retract" if among:
                fact, _ = among[step.pick % len(among)]
                rights = self._authority(step)
                return RetractFact(fact_id=fact, rights=rights)
            case "recall" if among:
                fact, _ = among[step.pick % len(among)]
                return RecallServed(uses=[RecallUse(fact, 3, self.clock.now_us())])
            case "merge" if among:
                one, other = (among[(step.pick + n) % len(among)][0] for n in (0, step.value))
                return MergeMemories(fact_ids=(one, other), rights=self._rights(step))
            case "review" if step.private and self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return ReviewQuarantined(
                    fact_id=fact,
                    decision="admitted" if step.pick % 2 else "rejected",
                    target_garden_id=self.gardens[0],
                )
            case _:
                return None

    def _fact(self, step: Step, known: list[tuple[str, str]]) -> AssertFact:
        value, confidence = VALUES[step.value], step.confidence
        entity, relation = ENTITIES[step.entity], RELATIONS[step.relation]
        source = SOURCES[step.source]
        parents: list[Parent] = []
        if step.derived and known:
            fact, cid = known[step.pick % len(known)]
            parents = [Parent(cid.removeprefix("sha256:"), fact)]
        command = stating(
            entity=entity,
            relation=relation,
            value=value,
            source=source,
            scope=SCOPE,
            confidence=confidence,
            derived_from=parents,
            garden_id=self.gardens[step.garden] if step.private else None,
        )
        rights = None if step.private else self._rights(step)
        return msgspec.structs.replace(command, rights=rights)

    def _classified(self, step: Step) -> AssertFact:
        """Outside gardens: private by its classification alone, in a scope with only such facts; or
        public, with attributes."""
        plain = stated(self._fact(step, self.open), garden_id=None)
        level = 2 + step.pick % 2 if step.private else step.pick % 2
        attributes = FactAttributes(classification=level, topic=f"t{step.pick % 3}")
        if not step.private:
            return stated(plain, attributes=attributes)
        source = SOURCES[step.source % 3]
        return stated(plain, source=source, scope="team", attributes=attributes)

    def _memory(self, step: Step) -> StoreMemory:
        """Private by its classification: the same words as public ones, under the same owners and
        in the same scope. A source without read rights stores a private one, since its effect on
        public ones would be visible."""
        source = SOURCES[step.source % 2]
        plain = stated(self._fact(step, []), garden_id=None)
        level = 2 + step.pick % 2 if step.private else step.pick % 2
        value, entity = Value("text", MEMORIES[step.value % len(MEMORIES)]), source
        if step.private:
            entity = MEMBER
        fact = stated(
            plain,
            entity=entity,
            relation=MEMORY_RELATION,
            value=value,
            source=source,
            scope="team",
            confidence=1.0,
            attributes=FactAttributes(classification=level, topic="work"),
        )
        rights = self._rights(step)
        if step.private:
            rights = rights.narrowed(frozenset())
        return StoreMemory(assertion=fact, rights=rights, supersede=step.derived, likeness=ALIKE)

    def _rights(self, step: Step) -> Authorization:
        """The rights of the step's source."""
        actor = MEMBER if step.private else OUTSIDER
        gardens = self.node.reader.gardens.of_member(actor)
        return Authorization(actor, frozenset({"read", "write"}), ALL_SCOPES, gardens)

    def _authority(self, step: Step) -> Authorization:
        """The same, over the facts of one source, or of all."""
        sources = ("*",) if step.pick % 2 else (SOURCES[step.source % len(SOURCES)],)
        return msgspec.structs.replace(self._rights(step), sources=sources)

    def _set(self, step: Step, fact: str) -> SetAttributes:
        level = {"classification": 2 + step.pick % 2} if step.private else {}
        changes = {"relevance": 10 * (step.pick % 4), **level}
        return SetAttributes(fact_id=fact, changes=changes)

    def _episode(self, step: Step) -> RecordEpisodes:
        said = VALUES[step.value]
        metadata = {"subject": "self", "predicate": RELATIONS[step.relation], "object": said.v}
        return RecordEpisodes(
            episodes=(
                EpisodeRecorded(
                    scope=SCOPE,
                    garden_id=self.gardens[step.garden] if step.private else None,
                    user=USERS[step.pick % 2],
                    session=f"s{step.source}",
                    agent="rag",
                    content=f"{said.v}, said {step.entity}",
                    at_us=self.clock.now_us(),
                    id=NAMES[step.pick % 3] if step.derived else None,
                    metadata=metadata,
                ),
            ),
        )

    def _delta(self, step: Step) -> ApplyDeltas:
        garden = self.gardens[step.garden] if step.private else None
        place = MemoryPlace(USERS[step.pick % 2], "rag", SCOPE, garden)
        origin: dict[str, Any] = {
            "source_episode_ids": [NAMES[step.source % 3]],
            "promotion_us": self.clock.now_us(),
            "rule_id": "by-hand",
            "confidence": step.confidence or 0.5,
        }
        payload = {
            "id": NAMES[step.pick % 3],
            "subject": ENTITIES[step.entity],
            "predicate": RELATIONS[step.relation],
            "object": VALUES[step.value].v,
        }
        older = NAMES[(step.pick + 1) % 3]
        delta: MemoryDelta = AddDelta(fact_payload=payload, **origin)
        if step.derived:
            delta = UpdateDelta(fact_payload=payload, replaces=[older], **origin)
        elif step.pick % 7 == 0:
            delta = DeleteDelta(replaces=[older], **origin)
        return ApplyDeltas(
            scope=SCOPE,
            garden_id=garden,
            proposals=(Proposal(delta, place, stated_id(delta, place), SOURCES[step.source]),),
            strict=bool(step.pick % 2),
        )

    def _summary(self, step: Step) -> RecordSummary:
        said = [VALUES[(step.value + n) % len(VALUES)].v for n in range(1 + step.pick % 3)]
        return RecordSummary(
            name=SUMMARIES[step.entity % len(SUMMARIES)],
            text=None if step.pick % 5 == 4 else "\n\n".join(said),
            owner=SOURCES[step.source],
            scope=SCOPE,
            garden_id=self.gardens[step.garden] if step.private else None,
        )

    def _look(self, step: Step) -> EpisodeAccessed | None:
        with self.node.reader.pool.connection() as db:
            sql = "SELECT key FROM episodes WHERE (garden_id IS NOT NULL) = ? ORDER BY position"
            keys = [str(row[0]) for row in db.execute(sql, (step.private,))]
        if not keys:
            return None
        looked = [keys[step.pick % len(keys)]]
        return EpisodeAccessed(episodes=looked, at_us=self.clock.now_us())

    def _settlement(self, step: Step) -> ResolveConflict | None:
        rights = Authorization(OUTSIDER, frozenset({"read"}), ALL_SCOPES)
        garden = self.node.reader.pin().garden
        return self._settling(
            step,
            lambda each: (int(garden[each.newer]) >= 0) == step.private,
            reads=everything() if step.private else rights,
            rights=self._authority(step),
        )

    def _settling(
        self,
        step: Step,
        wanted: Callable[[Conflict], bool],
        *,
        reads: Authorization,
        rights: Authorization | None = None,
    ) -> ResolveConflict | None:
        """Settle one of the wanted disputes for its newer side."""
        view = self.node.reader.pin()
        moment = Moment(view.position, self.clock.now_us())
        found = conflicts(self.node.reader, view, reads, moment, status="unresolved")
        shown = [each for each in found if wanted(each)]
        if not shown:
            return None
        chosen = shown[step.pick % len(shown)]
        side = self.node.reader.rows([int(view.from_position[chosen.newer])])[0]
        return ResolveConflict(
            conflict_id=chosen.row.conflict_id,
            winning_fact_id=side.id,
            source="agent:judge",
            rights=rights,
        )

    def _sweep(self, step: Step) -> SweepDecay | None:
        """A sweep of open facts; by a member, also of those in the gardens."""
        fade = DecayPolicy(id="fade", mode="confidence", half_life_s=86_400.0)
        end = DecayPolicy(id="end", mode="retract", ttl_s=86_400.0)
        if step.private:
            return None
        gardens = tuple(self.gardens.values()) if step.pick % 3 == 0 else ()
        policies = ((fade, end)[step.pick % 2],)
        return SweepDecay(scopes=(SCOPE,), policies=policies, gardens=gardens)

    def close(self) -> None:
        self.live.close()


@contextmanager
def two_lives(path: Path, history: list[Step]) -> Generator[tuple[Life, Life]]:
    """The history, lived with its private steps and without them."""
    private_life = Life(path / "told", private=True)
    try:
        neutral_life = Life(path / "untold", private=False)
        try:
            for step in history:
                recorded = private_life.take(step, 0)
                assert neutral_life.take(step, recorded) == recorded
            assert private_life.open == neutral_life.open
            yield private_life, neutral_life
        finally:
            neutral_life.close()
    finally:
        private_life.close()


def garden_members(life: Life, entity: str, role: str) -> None:
    """Let another member into the first garden."""
    life.node.write(
        SetMember(
            member=GardenMemberSet(
                garden_id=life.gardens[0],
                entity_uri=entity,
                added_by=MEMBER,
                role=role,  # type: ignore[arg-type]
            ),
            change="add",
        )
    )


def private_texts(life: Life) -> np.ndarray:
    """Slots of private facts, as proof that a world has some."""
    view = life.node.reader.pin()
    return np.flatnonzero((view.garden >= 0) | (view.classification > 1))
