"""Which denials are open: the same as by the plain definition, in work that grows with facts plus
denials, not with their product."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from engramlog.projections.columns.denied_facts import DeniedFacts
from engramlog.projections.image.contradicted_facts import are_denied
from engramlog.projections.image.open_denials import OpenDenials
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import Moment
from tests.worlds.counted_work import work
from tests.worlds.image_contents import records_against
from tests.worlds.recall_world import World, reader, user

RIGHTS = reader()
VALUES = ("CEO", "CTO")
SOURCES = ("agent:ann", "agent:max", "agent:eve")
KEYS = ("memory:role", "memory:title")


def test_facts_and_records_that_are_gone_leave_the_others_as_they_were() -> None:
    denied, says = DeniedFacts(), (7, 1)
    for position, (fact, record) in enumerate(((0, 10), (5000, 11), (0, 12)), 1):
        denied.add(fact, record, says, position)
    slots = np.array([0, 1, 5000, 9000], dtype=np.int32)
    assert denied.ever(slots).tolist() == [True, False, True, False]
    assert list(denied.newest_first(2)) == [(2, 0, 1), (1, 0, 0)]
    assert [dict(denied.runs(fact)) for fact in (0, 5000)] == [{0: [0, 1, 2, 3]}, {0: [1, 2]}]
    left = denied.without({11})
    for each in (left, DeniedFacts.of(left.state())):
        assert each.ever(slots).tolist() == [True, False, False, False]
        assert list(each.newest_first(9)) == [(3, 0, 1), (1, 0, 0)]
        assert [dict(each.runs(fact)) for fact in (0, 5000)] == [{0: [0, 2]}, {}]
    assert denied.without({0}).facts() == [5000]


class Step(Struct, frozen=True):
    """One event of a world. ``picks``: which facts a denial names, also ones still to come."""

    kind: str
    key: str
    value: str
    source: str
    hidden: bool
    picks: tuple[int, ...]


steps = st.builds(
    Step,
    st.sampled_from(["state", "state", "deny", "deny", "deny", "retract", "lose"]),
    st.sampled_from([KEYS[0], *KEYS]),
    st.sampled_from(VALUES),
    st.sampled_from(SOURCES),
    st.sampled_from([False, False, False, True]),
    st.lists(st.integers(0, 24), min_size=1, max_size=6, unique=True).map(tuple),
)


def live(history: list[Step]) -> World:
    world = World()
    for step in history:
        scope = "team" if step.hidden else "company"
        match step.kind:
            case "state":
                world.fact(user("x"), step.key, step.value, source=step.source, scope=scope)
            case "deny":
                record = world.fact(
                    user("x"), step.key, step.value, source=step.source, scope=scope, confidence=0
                )
                world.deny(record, step.picks)
            case "retract" if step.picks[0] < world.facts:
                world.retract(step.picks[0])
            case "lose" if step.picks[0] < world.facts:
                world.set_aside(step.picks[0])
            case _:
                pass
    return world


def denies(view: View, record: int, slot: int, moment: Moment) -> bool:
    """By the plain definition: the record is readable and stands, and its source has not restated
    the fact's value since."""
    at = moment.position
    standing = (
        record < view.count
        and RIGHTS.mask(view, np.int32(record))
        and view.from_position[record] <= at < view.to_position[record]
        and at < view.set_aside[record]
        and view.base[record] == 0
        and view.key[record] == view.key[slot]
    )
    return bool(standing) and not any(
        view.key[again] == view.key[slot]
        and view.value[again] == view.value[slot]
        and view.base[again] > 0
        and view.from_position[again] <= at
        and RIGHTS.mask(view, np.int32(again))
        and view.voices(np.array([again])) == view.voices(np.array([record]))
        and view.hlc[again] > view.hlc[record]
        for again in range(view.count)
    )


@given(st.lists(steps, min_size=4, max_size=24))
def test_the_same_as_by_the_plain_definition_at_every_moment(history: list[Step]) -> None:
    world = live(history)
    view = world.view()
    slots = everything(view)
    stated = [
        (slot, each) for slot in slots.tolist() for each in records_against(world.image, slot)
    ]
    for position in range(world.position + 1):
        moment = Moment(position, world.moment().valid_us)
        pairs = {
            (slot, record)
            for slot, (at, record) in stated
            if at <= position and denies(view, record, slot, moment)
        }
        found = OpenDenials(view, moment, RIGHTS)
        assert slots[found.name(slots)].tolist() == sorted({slot for slot, _ in pairs})
        claimed = set(slots[view.claimed(slots, moment)].tolist())
        named = are_denied(view, slots, moment, RIGHTS)
        assert {*slots[named].tolist()} == {slot for slot, _ in pairs} & claimed
        for slot, (at, record) in stated:
            if at <= position:
                assert found.holds(record, slot) == ((slot, record) in pairs)
        readable = RIGHTS.mask(view, slots)
        listed = {
            (at, slot)
            for slot, (at, record) in stated
            if (slot, record) in pairs and at <= position and slot in claimed and readable[slot]
        }
        walked = [(at, slot) for at, each in found.newest_first(2**62) for slot in each.tolist()]
        assert [at for at, _ in walked] == sorted((at for at, _ in walked), reverse=True)
        assert set(walked) == listed


_denial = st.tuples(st.integers(0, 9), st.integers(10, 15), st.integers(0, 1))


@given(st.lists(_denial, max_size=30), st.frozensets(st.integers(0, 15), max_size=5))
def test_erased_facts_and_records_are_gone_and_all_others_stay(
    denials: list[tuple[int, int, int]], gone: frozenset[int]
) -> None:
    book = DeniedFacts()
    for position, (fact, record, value) in enumerate(denials):
        book.add(fact, record, (0, value), position)
    kept = book.without(gone)
    again = DeniedFacts.of(kept.state())
    wanted = [
        (fact, record, position)
        for position, (fact, record, _) in enumerate(denials)
        if not {fact, record} & gone
    ]
    assert pairs(kept) == pairs(again) == sorted(wanted)
    assert book.names(gone) == any({fact, record} & gone for fact, record, _ in denials)
    named = {fact for fact, _, _ in wanted}
    assert np.flatnonzero(kept.ever(np.arange(20, dtype=np.int32))).tolist() == sorted(named)
    standing = [at for at, (_, record, _) in enumerate(denials) if record not in gone]
    assert [each[0] for each in again.newest_first(99)] == standing[::-1]


def pairs(book: DeniedFacts) -> list[tuple[int, int, int]]:
    """(fact, record, position) of every denial."""
    found: list[tuple[int, int, int]] = []
    for fact in book.facts():
        for number, runs in book.runs(fact):
            positions, markers = (each.tolist() for each in book.series[number].records())
            for start, end in zip(runs[::2], runs[1::2], strict=True):
                found += [(fact, markers[at], positions[at]) for at in range(start, end)]
    return sorted(found)


def all_open(size: int) -> World:
    """As many denials as equal statements, each of all of them."""
    world = World()
    for number in range(size):
        world.fact(user("x"), "memory:role", "CEO", source=f"agent:a{number}")
    for number in range(size):
        record = world.fact(
            user("x"), "memory:role", "CEO", source=f"agent:d{number}", confidence=0
        )
        world.deny(record, range(size))
    return world


def all_taken_back(size: int) -> World:
    world = all_open(size)
    for number in range(size):
        world.fact(user("x"), "memory:role", "CEO", source=f"agent:d{number}")
    return world


def in_turns(size: int) -> World:
    """Each denial names one statement more."""
    world = World()
    facts: list[int] = []
    for number in range(size):
        facts.append(world.fact(user("x"), "memory:role", "CEO", source=f"agent:a{number}"))
        record = world.fact(
            user("x"), "memory:role", "CEO", source=f"agent:d{number}", confidence=0
        )
        world.deny(record, facts)
    return world


def of_every_value(size: int) -> World:
    """Records that deny whatever a set-valued relation holds."""
    world = World()
    facts = [world.fact(user("x"), "rel:likes", f"thing {number}") for number in range(size)]
    for number in range(size):
        record = world.fact(
            user("x"), "rel:likes", "retracted", source=f"agent:d{number}", confidence=0
        )
        world.deny(record, facts)
    return world


def named(view: View, moment: Moment) -> None:
    are_denied(view, everything(view), moment, RIGHTS)


def paged(view: View, moment: Moment) -> None:
    for _ in zip(range(10), OpenDenials(view, moment, RIGHTS).newest_first(2**62), strict=False):
        pass


@pytest.mark.parametrize("read", [named, paged])
@pytest.mark.parametrize("make", [all_open, all_taken_back, in_turns, of_every_value])
def test_twice_the_facts_and_denials_are_twice_the_work(
    make: Callable[[int], World], read: Callable[[View, Moment], None]
) -> None:
    small, large = make(100), make(200)
    once = work(small.view(), lambda view: read(view, small.moment()))
    twice = work(large.view(), lambda view: read(view, large.moment()))
    assert twice < 2.3 * once
