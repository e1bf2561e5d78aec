"""The fast paths of recall against a plain implementation of the same definitions."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.arrays import I32
from engramlog.projections.columns.slot_lists import Postings
from engramlog.projections.columns.term_postings import COUNTED_FROM, TermPostings
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.moment import LIVE, Moment, format_instant
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.matching_facts import find_surviving, surviving
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import graph, lexical, running
from engramlog.projections.recall.stages.candidates import Candidates
from tests.worlds.recall_world import DAY_US, NOW_US, World, reader

ENTITIES = ("user:ann", "user:bo", "project:apollo", "project:hermes")
RELATIONS = ("memory:note", "memory:role", "rel:knows", "stigmem:memory:card")
WORDS = ("rocket", "launch", "delay", "engine", "budget", "the")
SCOPES = ("local", "team", "company")
SOURCES = ("agent:one", "agent:two")

facts = st.fixed_dictionaries(
    {
        "entity": st.sampled_from(ENTITIES),
        "relation": st.sampled_from(RELATIONS),
        "value": st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
        "target": st.sampled_from((None, None, *ENTITIES)),
        "scope": st.sampled_from(SCOPES),
        "source": st.sampled_from(SOURCES),
        "confidence": st.sampled_from((0.0, 0.15, 0.5, 1.0)),
        "until_days": st.sampled_from((None, None, -1, 1, 2)),
        "retracted": st.integers(0, 9).map(lambda n: n == 0),
    }
)
worlds = st.lists(facts, min_size=1, max_size=40)
askers = st.sets(st.sampled_from(SCOPES), min_size=1)


def built(stated: list[dict]) -> World:
    world = World()
    for number, each in enumerate(stated):
        kind, value = ("ref", each["target"]) if each["target"] else ("text", each["value"])
        until = each["until_days"]
        payload = FactAsserted(
            id=f"fact-{number}",
            entity=each["entity"],
            relation=each["relation"],
            value=Value(type=kind, v=value),
            source=each["source"],
            scope=each["scope"],
            confidence=each["confidence"],
            cid=f"sha256:{number:064x}",
            valid_until=None if until is None else format_instant(NOW_US + until * DAY_US),
        )
        world._append(payload, NOW_US)
        world._ids.append(f"fact-{number}")
    for number, each in enumerate(stated):
        if each["retracted"]:
            world.retract(number)
    world.trust("agent:two", 0.5)
    return world


def surveyed(world: World, scopes: set[str], at: Moment | None = None, **request: object) -> Survey:
    asked = RecallRequest(**{"query": "rocket launch the engine", **request})  # type: ignore[arg-type]
    gate = Gate(0.2, True)
    moment = world.moment() if at is None else at
    return survey(world.view(), asked, reader(*scopes), moment, gate=gate, depth=2)


def survives(view: View, slot: int, scopes: set[str], moment: Moment) -> bool:
    number = ("local", "team", "company", "public").index
    return bool(
        view.scope[slot] in {number(scope) for scope in scopes}
        and view.from_position[slot] <= moment.position < view.to_position[slot]
        and view.base[slot] > 0.0
        and view.valid_until[slot] > moment.valid_us
        and not view.relations.text(int(view.relation[slot])).startswith("stigmem:")
    )


@given(worlds, askers, st.lists(st.tuples(st.integers(0, 60), st.integers(-2, 3)), max_size=6))
def test_survivors_are_those_that_pass_every_condition_one_by_one(
    stated: list[dict], scopes: set[str], moments: list[tuple[int, int]]
) -> None:
    world = built(stated)
    view = world.view()
    for back, days in [(0, 0), (0, 0), *moments, (0, 0)]:
        moment = Moment(max(0, world.position - back), NOW_US + days * DAY_US)
        found = surveyed(world, scopes, moment)
        wanted = [n for n in range(view.count) if survives(view, n, scopes, moment)]
        assert np.flatnonzero(found.visible_mask).tolist() == wanted
        by_source = surveyed(world, scopes, moment, source="agent:two").survivors.tolist()
        two = view.sources.number("agent:two")
        assert by_source == [n for n in wanted if view.source[n] == two]
        unknown = surveyed(world, scopes, moment, relation="memory:unheard-of")
        assert unknown.survivors.tolist() == []
        assert np.flatnonzero(unknown.visible_mask).tolist() == wanted


@given(worlds, facts, st.lists(st.integers(-2, 3), min_size=1, max_size=5))
def test_cached_survivors_equal_computed_ones(
    stated: list[dict], late: dict, days: list[int]
) -> None:
    world = built(stated)
    before, moment_before = world.view(), world.moment()
    for step in range(2):
        for day in days:
            for view, at in ((before, moment_before), (world.view(), world.moment())):
                moment = Moment(at.position, NOW_US + day * DAY_US)
                known = surviving(view, reader("local", "team"), moment, Filters())
                fresh = find_surviving(view, reader("local", "team"), moment, Filters())
                assert known.visible.slots.tolist() == fresh.visible.slots.tolist()
        world.accessed(0, 1)
        if step == 0:
            world.fact(late["entity"], late["relation"], late["value"], scope=late["scope"])
            world.retract(0)


def test_recalls_leave_cached_survivors_and_writes_do_not() -> None:
    world = World()
    world.fact("user:amy", "memory:note", "Amy keeps bees")
    rights = reader()

    def found() -> list[int]:
        kept = surviving(world.view(), rights, world.moment(), Filters()).visible
        assert kept.slots.tolist() == np.flatnonzero(kept.mask).tolist()
        return [id(kept), *kept.slots.tolist()]

    cached = found()
    world.accessed(0, 1)
    assert found() == cached
    world.trust("agent:one", 0.5)
    assert found()[0] != cached[0], "the gate of a conversation asks for trust"
    world.fact("user:amy", "memory:note", "Amy keeps hens")
    assert found()[1:] == [0, 1]
    world.retract(0)
    assert found()[1:] == [1]


@given(worlds, askers)
def test_lexical_scores_are_bm25_counted_fact_by_fact(stated: list[dict], scopes: set[str]) -> None:
    world = built(stated)
    at = surveyed(world, scopes)
    view, parameters = at.view, lexical.Parameters(k1=1.2, b=0.4)
    found = lexical.run(at, parameters, {})
    terms = lexical.query_terms(view, at.request.query)
    texts = {
        slot: Counter(
            view.tokenize(
                f"{stated[slot]['entity']} {stated[slot]['relation']}"
                f" {stated[slot]['target'] or stated[slot]['value']}"
            )
        )
        for slot in at.survivors.tolist()
    }
    average = max(sum(sum(text.values()) for text in texts.values()) / max(len(texts), 1), 1.0)
    wanted: dict[int, float] = {}
    for term in terms:
        df = sum(term in text for text in texts.values())
        idf = math.log1p((len(texts) - df + 0.5) / (df + 0.5))
        for slot, text in texts.items():
            if text[term]:
                norm = 1.2 * (1.0 - 0.4 + 0.4 * (sum(text.values()) / average))
                score = idf * text[term] * 2.2 / (text[term] + norm)
                wanted[slot] = wanted.get(slot, 0.0) + score
    assert dict(zip(found.slots.tolist(), found.scores, strict=True)) == pytest.approx(wanted)
    again = lexical.run(at, parameters, {})
    assert np.array_equal(found.scores, again.scores), "nothing is left in the tally"


@given(worlds, askers)
def test_a_dispute_is_a_claimed_sibling_with_another_value(
    stated: list[dict], scopes: set[str]
) -> None:
    world = built(stated)
    view, moment, rights = world.view(), world.moment(), reader(*scopes)
    slots: I32 = np.arange(view.count, dtype=np.int32)
    standing = [
        n
        for n in range(view.count)
        if stated[n]["scope"] in scopes
        and view.to_position[n] == LIVE
        and view.base[n] > 0
        and view.valid_until[n] > NOW_US
    ]

    def disputed(slot: int) -> bool:
        if slot not in standing or stated[slot]["relation"].startswith(("rel:", "stigmem:")):
            return False
        rivals = [n for n in standing if view.key[n] == view.key[slot]]
        return any(
            view.value[n] != view.value[slot]
            and view.valid_from[n] < view.valid_until[slot]
            and view.valid_from[slot] < view.valid_until[n]
            for n in rivals
        )

    wanted = [disputed(n) for n in range(view.count)]
    assert are_contradicted(view, slots, moment, rights).tolist() == wanted


@given(worlds, askers, st.booleans(), st.integers(1, 12), st.data())
def test_the_gate_before_the_best_or_after_gives_the_same(
    stated: list[dict], scopes: set[str], contradicted: bool, count: int, data: st.DataObject
) -> None:
    world = built(stated)
    at = survey(
        world.view(), RecallRequest(query="rocket"), reader(*scopes), world.moment(),
        gate=Gate(0.2, contradicted), depth=1,
    )  # fmt: skip
    slots = at.survivors
    given_scores = [data.draw(st.sampled_from((0.25, 0.5, 1.0))) for _ in slots]
    scores = np.array(given_scores, dtype=np.float64)
    found = Candidates(slots, scores, np.zeros(len(slots), dtype=np.int32), lambda _: [])
    passing = set(at.admits(slots).tolist())
    ranked = sorted(zip(-scores, slots.tolist(), strict=True))
    wanted = sorted([slot for _, slot in ranked if slot in passing][:count])
    assert running._admitted(at, found, count).slots.tolist() == wanted


@given(worlds, askers)
def test_out_degrees_are_visible_edges_counted_one_by_one(
    stated: list[dict], scopes: set[str]
) -> None:
    world = built(stated)
    at = surveyed(world, scopes)
    view = at.view
    subjects: I32 = np.repeat(np.arange(len(view.entities), dtype=np.int32), 2)
    edges = [n for n in np.flatnonzero(at.visible_mask).tolist() if view.object[n] >= 0]
    wanted = [sum(int(view.entity[n]) == subject for n in edges) for subject in subjects.tolist()]
    assert graph._out_degree(at, subjects).tolist() == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "LOOKUPS_MAX", 0)
        assert graph._out_degree(at, subjects).tolist() == wanted


@given(worlds, askers, st.integers(1, 4))
def test_the_newest_facts_of_an_entity_are_counted_entity_by_entity(
    stated: list[dict], scopes: set[str], most: int
) -> None:
    at = surveyed(built(stated), scopes, entity="user:ann")
    view = at.view
    entities: I32 = np.arange(len(view.entities), dtype=np.int32)
    wanted: list[int] = []
    for number in entities.tolist():
        passing = at.admits(at.survivors[view.entity[at.survivors] == number]).tolist()
        wanted += passing if number == at.focus else passing[-most:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "FACTS_PER_ENTITY_MAX", most)
        found = graph.newest_facts(at, entities, view.entity_lists, whole=at.focus or 0)
        assert sorted(found.tolist()) == sorted(wanted)


@given(st.lists(st.sampled_from((0.0, 0.5, 0.5, 1.0)), max_size=30), st.integers(1, 35))
def test_the_best_are_the_first_of_all_in_order(given_scores: list[float], count: int) -> None:
    slots: I32 = np.arange(0, 2 * len(given_scores), 2, dtype=np.int32)
    scores = np.array(given_scores, dtype=np.float64)
    found = Candidates(slots, scores, np.zeros(len(slots), dtype=np.int32), lambda _: [])
    order = sorted(range(len(slots)), key=lambda n: (-scores[n], n))
    assert set(order[:count]) <= set(found.leading(count).tolist())
    assert found.best(count).slots.tolist() == sorted(slots[order[:count]].tolist())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 3 * COUNTED_FROM)),
        st.tuples(st.just("ask"), st.integers(0, 12 * COUNTED_FROM)),
    ),
    max_size=12,
)


@given(steps, st.integers(1, 200))
def test_counted_postings_equal_a_plain_count(taken: list[tuple[str, int]], kept: int) -> None:
    plain, counted = Postings(), TermPostings()
    published = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engramlog.projections.columns.term_postings.COUNTED_ENTRIES_MAX", kept)
        for what, number in taken:
            for term in ("often", "seldom"):
                _check(what, number, term, plain, counted, published)
            published += number if what == "say" else 0


def _check(
    what: str, number: int, term: str, plain: Postings, counted: TermPostings, published: int
) -> None:
    every: Callable[[int], int] = (lambda n: 1 + n % 3) if term == "often" else (lambda n: n % 2)
    if what == "say":
        for slot in range(published, published + number):
            for lists in (plain, counted):
                lists.add_all([term] * every(slot), slot)
        return
    below = min(number, published)
    wanted = Counter(plain.slots(term, below).tolist())
    slots, frequencies = counted.counted(term, below)
    assert dict(zip(slots.tolist(), frequencies.tolist(), strict=True)) == wanted
    assert slots.tolist() == sorted(wanted)
