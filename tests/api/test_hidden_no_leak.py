"""What a tombstone hides is hidden everywhere: with it, every route answers the same bytes
whether or not there ever was anything about the entity."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from eventlog.kinds import RecallUse
from projections.authorization import everything
from projections.conflicts import conflicts
from projections.episodic.delta import (
    AddDelta,
    DeleteDelta,
    MemoryDelta,
    UpdateDelta,
    stated_id,
)
from projections.episodic.place import Place
from projections.intents import (
    ApplyDeltas,
    AssertFact,
    CreateGarden,
    Intent,
    RecordEpisodes,
    ResolveConflict,
    RetractFact,
    TrackRecalls,
)
from projections.moment import Moment
from tests.api.live import CONTROL_TOKEN
from tests.api.private_worlds import (
    ALL_SCOPES,
    ENTITIES,
    GARDENS,
    MEMBER,
    OUTSIDER,
    SCOPE,
    USERS,
    VALUES,
    Life,
    Step,
    steps,
)
from tests.api.test_no_leak import STATEMENTS, Ask, answers, declared, reads, same

BURIED = ENTITIES[2]
KINDS = ("fact", "fact", "fact", "retract", "resolve", "recall", "episode", "delta", "delta")
BURIED_NAMES = ("hid-0", "hid-1", "hid-2")
"""Of episodes and of facts that deltas write about the entity."""


class Buried(Life):
    """A life whose private steps are about the entity that will be hidden, in no garden."""

    @cached_property
    def named(self) -> set[str]:
        """Names that deltas gave to facts about the entity."""
        return set()

    def _intent(self, step: Step) -> Intent | None:
        if not step.private or step.kind == "garden":
            if step.kind == "garden":
                slug = GARDENS[step.garden]
                return CreateGarden(slug=slug, name=slug, scope=SCOPE, created_by=MEMBER)
            return super()._intent(step)
        match step.kind:
            case "fact":
                return self._about(step)
            case "retract" if self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return RetractFact(fact_id=fact, scopes=ALL_SCOPES, member=MEMBER)
            case "recall" if self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return TrackRecalls(uses=(RecallUse(fact, 3, self.clock.now_us()),))
            case "resolve":
                return self._settled(step)
            case "episode":
                return self._spoken(step)
            case "delta":
                return self._proposed(step)
            case _:
                return None

    def _spoken(self, step: Step) -> RecordEpisodes:
        """An episode whose metadata name the entity, as subject or object."""
        plain = self._episode(msgspec.structs.replace(step, private=False, derived=False))
        (episode,) = plain.episodes
        said = ({"subject": BURIED}, {"subject": "self", "object": BURIED})[step.pick % 2]
        named = msgspec.structs.replace(
            episode, metadata=said, id=BURIED_NAMES[step.pick % 3] if step.derived else None
        )
        return msgspec.structs.replace(plain, episodes=(named,), member=MEMBER)

    def _proposed(self, step: Step) -> ApplyDeltas:
        """A delta that states a fact about the entity, ends one, or is rejected over one."""
        plain = self._delta(msgspec.structs.replace(step, private=False, derived=False, pick=1))
        (proposal,) = plain.proposals
        place = Place(USERS[step.pick % 2], "rag", SCOPE, None)
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
        return msgspec.structs.replace(plain, proposals=(proposal,), member=MEMBER)

    def _about(self, step: Step) -> AssertFact:
        """A fact about the entity, or (every third) another's fact that points at it."""
        plain = msgspec.structs.replace(step, private=False)
        intent = super()._fact(plain, self.open + self.hidden)
        if step.pick % 3 == 0:
            other = ENTITIES[step.entity % 2]
            return _stated(intent, entity=other, value=msgspec.structs.replace(VALUES[3], v=BURIED))
        return _stated(intent, entity=BURIED)

    def _settled(self, step: Step) -> ResolveConflict | None:
        view = self.node.reader.pin()
        moment = Moment(view.position, self.clock.now_us())
        about = view.entities.number(BURIED)
        shown = [
            each
            for each in conflicts(self.node.reader, view, everything(), moment, status="unresolved")
            if int(view.entity[each.newer]) == about
        ]
        if not shown:
            return None
        chosen = shown[step.pick % len(shown)]
        side = self.node.reader.rows([int(view.from_position[chosen.newer])])[0]
        return ResolveConflict(
            conflict_id=chosen.row.conflict_id,
            winning_fact_id=side.id,
            source="agent:judge",
            scopes=ALL_SCOPES,
            member=MEMBER,
        )


def _stated(intent: AssertFact, **fields: object) -> AssertFact:
    from projections.cid import compute_cid

    changed = msgspec.structs.replace(intent, member=MEMBER, **fields)
    cid = compute_cid(
        entity=changed.entity,
        relation=changed.relation,
        value=changed.value,
        source=changed.source,
        confidence=changed.confidence,
        scope=changed.scope,
    )
    return msgspec.structs.replace(changed, cid=cid)


@contextmanager
def two_graves(path: Path, history: Sequence[Step]) -> Generator[tuple[Buried, Buried]]:
    """The history lived with its private steps and without them; the entity hidden in both.
    Receipts are off: they would be recorded at times of their own."""
    with mock.patch.dict(os.environ, {"STIGMEM_RECALL_RECEIPTS": "false"}):
        told = Buried(path / "told", private=True)
    try:
        with mock.patch.dict(os.environ, {"STIGMEM_RECALL_RECEIPTS": "false"}):
            untold = Buried(path / "untold", private=False)
        try:
            for step in history:
                recorded = told.take(step, 0)
                assert untold.take(step, recorded) == recorded
            assert told.open == untold.open
            for life in (told, untold):
                life.live.run(life.live.app_tracker().stop())  # it writes at times of its own
                _remember(life)
                body = {"entity_uri": BURIED}
                made = life.live.call("POST", "/v1/tombstones", key=CONTROL_TOKEN, json=body)
                assert made.status_code == 201, made.text
            yield told, untold
        finally:
            untold.close()
    finally:
        told.close()


def _remember(life: Life) -> None:
    """Let the node keep what it keeps of answers: nothing of it may show afterwards."""
    for key in (CONTROL_TOKEN, life.key):
        body = {"query": "tea secrets", "scope": SCOPE, "track": False}
        full = {"Stigmem-Verify": "full"}
        life.live.call("POST", "/v1/recall", key=key, json=body, headers=full)
        for entity in ENTITIES:
            life.live.call("GET", f"/v1/cards/{entity}", key=key, params={"scope": SCOPE})
    sql = {"sql": STATEMENTS[1]}
    life.live.call("POST", "/v1/time-travel/sql", key=life.key, json=sql)


def reads_afterwards(told: Life) -> Iterator[Ask]:
    """Every read route but the one that counts what was answered before, and the manifest, which
    each node signs of itself alone."""
    other = ("/metrics", "/.well-known/stigmem-manifest.json")
    yield from (ask for ask in reads(told) if ask.path not in other)
    for name in BURIED_NAMES:
        yield Ask("GET", f"/v1/episodes/{name}")
        yield Ask("GET", "/v1/deltas", {"episode_id": name})
        yield Ask("POST", "/v1/episodes/accesses", body={"episodes": [name]})
    for name, _ in told.hidden:
        yield Ask("GET", "/v1/deltas", {"fact_id": name})


def is_public(step: Step) -> bool:
    """Public steps do not speak of the entity: it is nobody's but the private steps'."""
    value = VALUES[step.value]
    clear = ENTITIES[step.entity] != BURIED and value.v != BURIED
    return clear and step.kind in ("fact", "retract", "recall", "sweep")


def private(step: Step, kind: str) -> Step:
    return msgspec.structs.replace(step, private=True, kind=kind)


public_steps = steps.map(lambda s: msgspec.structs.replace(s, private=False)).filter(is_public)
private_steps = st.builds(private, steps, st.sampled_from(KINDS))
histories = st.lists(st.one_of(public_steps, private_steps), min_size=4, max_size=18)

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
"""A history in which everything happens to the entity."""


@given(histories)
@settings(
    max_examples=5,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example costs seconds
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
def test_what_is_hidden_leaves_no_trace_on_any_route(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path, two_graves(Path(path), history) as (told, untold):
        note(f"{len(told.open)} shown, {len(told.hidden)} hidden")
        for ask in reads_afterwards(told):
            same(told, untold, ask)


def test_everything_about_a_hidden_entity_leaves_no_trace(tmp_path: Path) -> None:
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        assert len(told.hidden) >= 6
        assert len(told.node.reader.pin().hiding.names) == 1
        for ask in reads_afterwards(told):
            same(told, untold, ask)
        # A stream is numbered without gaps, so its numbers tell that something is left out.
        events = "SELECT * EXCLUDE (hash, stream_seq) FROM events ORDER BY position"
        for sql in (events, *STATEMENTS[1:]):
            same(told, untold, Ask("POST", "/v1/time-travel/sql", body={"sql": sql}))
        for name, _ in told.hidden:
            again = Ask("POST", f"/v1/facts/{name}/retract", body={})
            same(told, untold, again)
        for row in _copies(told):
            other = {"type": "string", "v": "not that"}
            for body in (row, {**row, "value": other}):
                one, two = (_written(life, body) for life in (told, untold))
                assert one == two, body


def test_the_owner_of_every_right_sees_nothing_of_it_either(tmp_path: Path) -> None:
    """But for the notices, and what only says that there is something hidden."""
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        told.key, untold.key = told.admin_key, untold.admin_key
        skipped = ("/v1/auth", "/v1/admin/audit", "/v1/time-travel/sql", "/v1/recall", "/v1/facts")
        for ask in reads_afterwards(told):
            if ask.path == "/v1/export" and ask.params:  # trust is the other world's silence
                assert declared(told, ask) == declared(untold, ask)
            elif not ask.path.startswith(skipped):
                same(told, untold, ask)


def test_the_worlds_differ_once_the_tombstone_is_revoked(tmp_path: Path) -> None:
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        for life in (told, untold):
            stones = life.live.call("GET", "/v1/tombstones", key=CONTROL_TOKEN).json()
            path = f"/v1/tombstones/{stones['tombstones'][0]['id']}/revoke"
            ended = life.live.call("POST", path, key=CONTROL_TOKEN, json={"reason": "seen"})
            assert ended.status_code == 200
        different = [ask for ask in reads(told) if answers(told, ask) != answers(untold, ask)]
        paths = {ask.path.split("/")[2] for ask in different if ask.path.startswith("/v1/")}
        assert paths >= {
            "facts", "recall", "conflicts", "graph", "cards", "lint", "scopes", "time-travel",
            "audit", "episodes", "deltas",
        }  # fmt: skip


def _written(life: Life, body: dict[str, object]) -> tuple[int, str]:
    """What a write is answered, but for its place in the log: counts of recalls are recorded
    in between, at times of their own. A fact that stood before would show by its timestamp."""
    status, _, text = answers(life, Ask("POST", "/v1/facts", body=body))
    return status, re.sub(r'"(id|hlc|position)":("[^"]*"|[0-9]+)', r'"\1":""', text)


def _copies(life: Life) -> list[dict[str, object]]:
    """Assertions with the content of hidden facts."""
    view = life.node.reader.pin()
    hidden = view.hidden()
    assert hidden is not None
    slots = np.flatnonzero(hidden)
    rows = life.node.reader.rows(view.from_position[slots].tolist())
    return [
        {
            "entity": row.entity,
            "relation": row.relation,
            "source": row.source,
            "scope": SCOPE,
            "value": {"type": row.value_type, "v": row.value_v},
        }
        for row in rows
        if row.source in (OUTSIDER, "agent:one") and row.value_type != "number"
    ]
