"""Two worlds that differ in the facts that a tombstone hides."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from engramlog.eventlog.kinds import GardenCreated, RecallServed, RecallUse
from engramlog.projections.authorization import everything
from engramlog.projections.episodes.delta import (
    AddDelta,
    DeleteDelta,
    MemoryDelta,
    UpdateDelta,
    stated_id,
)
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.writing.commands import AssertFact, Command, ResolveConflict, RetractFact
from engramlog.projections.writing.memory_commands import ApplyDeltas, RecordEpisodes
from tests.worlds.live import CONTROL_TOKEN
from tests.worlds.private_questions import STATEMENTS, Ask, reads
from tests.worlds.private_steps import (
    ENTITIES,
    GARDENS,
    MEMBER,
    SCOPE,
    USERS,
    VALUES,
    Step,
)
from tests.worlds.private_worlds import Life
from tests.worlds.stated_facts import stated

BURIED = ENTITIES[2]

BURIED_NAMES = ("hid-0", "hid-1", "hid-2")
"""Of episodes and of facts that deltas write about the entity."""


class Buried(Life):
    """A life whose private steps are about the entity to hide, in no garden."""

    @cached_property
    def named(self) -> set[str]:
        """Names of facts about the entity in deltas."""
        return set()

    def _intent(self, step: Step) -> Command | None:
        if not step.private or step.kind == "garden":
            if step.kind == "garden":
                slug = GARDENS[step.garden]
                return GardenCreated(
                    garden_id=str(uuid4()), slug=slug, name=slug, scope=SCOPE, created_by=MEMBER
                )
            return super()._intent(step)
        match step.kind:
            case "fact":
                return self._about(step)
            case "retract" if self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return RetractFact(fact_id=fact)
            case "recall" if self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return RecallServed(uses=[RecallUse(fact, 3, self.clock.now_us())])
            case "resolve":
                return self._settled(step)
            case "episode":
                return self._spoken(step)
            case "delta":
                return self._proposed(step)
            case _:
                return None

    def _spoken(self, step: Step) -> RecordEpisodes:
        """An episode whose metadata name the entity as subject or object."""
        plain = self._episode(msgspec.structs.replace(step, private=False, derived=False))
        (episode,) = plain.episodes
        said = ({"subject": BURIED}, {"subject": "self", "object": BURIED})[step.pick % 2]
        named = msgspec.structs.replace(
            episode, metadata=said, id=BURIED_NAMES[step.pick % 3] if step.derived else None
        )
        return msgspec.structs.replace(plain, episodes=(named,))

    def _proposed(self, step: Step) -> ApplyDeltas:
        """A delta that states a fact about the entity, ends one, or is rejected over one."""
        plain = self._delta(msgspec.structs.replace(step, private=False, derived=False, pick=1))
        (proposal,) = plain.proposals
        place = MemoryPlace(USERS[step.pick % 2], "rag", SCOPE, None)
        name, older = BURIED_NAMES[step.pick % 3], BURIED_NAMES[(step.pick + 1) % 3]
        payload = {"id": name, "subject": BURIED, "predicate": "memory:role", "object": "x"}
        payload["object"] = VALUES[step.value].v
        origin: dict[str, Any] = {
            "confidence": 1.0,
            "source_episode_ids": [name],
            "promotion_us": self.clock.now_us(),
            "rule_id": "by-hand",
        }
        delta: MemoryDelta = AddDelta(fact_payload=payload, **origin)
        if step.derived and name in self.named and older in self.named:
            delta = UpdateDelta(
                fact_payload=payload, replaces=[older], expected_version=step.pick % 2 + 1, **origin
            )
        elif step.pick % 5 == 4 and older in self.named:
            delta = DeleteDelta(replaces=[older], **origin)
        self.named.add(name)
        proposal = msgspec.structs.replace(
            proposal, delta=delta, place=place, delta_id=stated_id(delta, place)
        )
        return msgspec.structs.replace(plain, proposals=(proposal,))

    def _about(self, step: Step) -> AssertFact:
        """A fact about the entity, or (every third) another's fact that points at it."""
        plain = msgspec.structs.replace(step, private=False)
        intent = super()._fact(plain, self.open + self.hidden)
        if step.pick % 3 == 0:
            other = ENTITIES[step.entity % 2]
            return stated(
                intent,
                entity=other,
                value=msgspec.structs.replace(VALUES[3], v=BURIED),
            )
        return stated(intent, entity=BURIED)

    def _settled(self, step: Step) -> ResolveConflict | None:
        view = self.node.reader.pin()
        about = view.entities.number(BURIED)
        return self._settling(
            step, lambda each: int(view.entity[each.newer]) == about, reads=everything()
        )


@contextmanager
def two_graves(path: Path, history: Sequence[Step]) -> Generator[tuple[Buried, Buried]]:
    """The history, lived with its private steps and without them; both hide the entity. Receipts
    are off: each world would record them at other times."""
    private_life = Buried(path / "told", private=True, recall_receipts=False)
    try:
        neutral_life = Buried(path / "untold", private=False, recall_receipts=False)
        try:
            for step in history:
                recorded = private_life.take(step, 0)
                assert neutral_life.take(step, recorded) == recorded
            assert private_life.open == neutral_life.open
            for life in (private_life, neutral_life):
                life.live.run(life.live.app_tracker().stop())  # it writes at times of its own
                _remember(life)
                body = {"entity_uri": BURIED}
                made = life.live.call("POST", "/v1/tombstones", key=CONTROL_TOKEN, json=body)
                assert made.status_code == 201, made.text
            yield private_life, neutral_life
        finally:
            neutral_life.close()
    finally:
        private_life.close()


def _remember(life: Life) -> None:
    """Make the node fill its caches: none of them may show afterwards."""
    for key in (CONTROL_TOKEN, life.key):
        body = {"query": "tea secrets", "scope": SCOPE, "track": False}
        full = {"Stigmem-Verify": "full"}
        life.live.call("POST", "/v1/recall", key=key, json=body, headers=full)
        for entity in ENTITIES:
            life.live.call("GET", f"/v1/cards/{entity}", key=key, params={"scope": SCOPE})
    sql = {"sql": STATEMENTS[1]}
    life.live.call("POST", "/v1/time-travel/sql", key=life.key, json=sql)


def reads_afterwards(private_life: Life) -> Iterator[Ask]:
    """Every read route except the one that counts earlier answers, and the manifest, which each
    node signs for itself."""
    other = ("/metrics", "/.well-known/stigmem-manifest.json")
    yield from (ask for ask in reads(private_life) if ask.path not in other)
    for name in BURIED_NAMES:
        yield Ask("GET", f"/v1/episodes/{name}")
        yield Ask("GET", "/v1/deltas", {"episode_id": name})
        yield Ask("POST", "/v1/episodes/accesses", body={"episodes": [name]})
    for name, _ in private_life.hidden:
        yield Ask("GET", "/v1/deltas", {"fact_id": name})


ALL_OF_IT = [
    Step("fact", False, entity=0, relation=0, value=0),
    Step("fact", False, entity=0, relation=0, value=1, source=1),
    Step("fact", True, relation=0, value=0, source=0, pick=1),
    Step("fact", True, relation=0, value=1, source=1, pick=1),
    Step("fact", True, relation=1, value=2, source=2, pick=1, derived=True),
    Step("fact", True, entity=0, relation=1, source=0, pick=3),
    Step("fact", True, entity=1, relation=1, source=1, pick=6),
    Step("fact", False, entity=1, relation=0, value=1, derived=True, pick=2),
    Step("resolve", True, pick=0),
    Step("recall", True, pick=1),
    Step("retract", True, pick=2),
    Step("fact", False, entity=3, relation=1, value=3, source=1),
    Step("fact", True, relation=2, value=6, source=3, pick=4),
    Step("sweep", False, pick=0),
    Step("episode", True, value=1, pick=0, derived=True),
    Step("episode", False, value=0, pick=0, derived=True),
    Step("episode", True, value=1, pick=1, derived=True),
    Step("delta", True, value=0, pick=0),
    Step("delta", True, value=1, pick=1),
    Step("delta", False, entity=1, value=0, pick=2, source=0),
    Step("delta", True, value=0, pick=2),
    Step("delta", True, value=1, pick=0, derived=True),
    Step("delta", True, value=2, pick=1, derived=True),
    Step("delta", True, value=1, pick=4),
]
"""A history with every kind of step about the entity."""
