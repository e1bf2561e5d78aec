"""Which side shows among facts that are valid at different times: the same as by comparing each
fact with all others, in work that does not grow with their square."""

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.contradictions.claims import Prefer
from engramlog.projections.contradictions.preferred_side import preferred
from engramlog.projections.image.view import View, everything
from tests.worlds.counted_work import work
from tests.worlds.recall_world import World, reader
from tests.worlds.timed_facts import TimedFact, facts, world_of

RIGHTS = reader()


def shows(view: View, slot: int, prefer: Prefer | None) -> bool:
    """By the rule: of the values that are valid at some time together with the fact, and its own,
    the highest confidence leads; a source that states several of the highest does not count, or
    only with its newest."""
    siblings = [s for s in range(view.count) if view.key[s] == view.key[slot]]
    heard = {view.value[slot]} | {
        view.value[s]
        for s in siblings
        if view.valid_from[s] < view.valid_until[slot]
        and view.valid_from[slot] < view.valid_until[s]
    }

    def rank(s: int) -> tuple[float, int]:
        return float(view.base[s]), int(view.hlc[s]) if prefer == "hlc" else 0

    competing = [s for s in siblings if view.value[s] in heard]
    highest = [s for s in competing if rank(s) == max(map(rank, competing))]
    said: dict[int, set[int]] = {}
    for s in sorted(highest, key=lambda s: int(view.hlc[s])):
        if prefer == "source":
            said.pop(int(view.source[s]), None)
        said.setdefault(int(view.source[s]), set()).add(int(view.value[s]))
    return {int(view.value[slot])} in said.values()


@given(facts, st.sampled_from([None, "hlc", "source"]))
def test_the_same_as_by_comparing_each_with_all(
    stated: list[TimedFact], prefer: Literal["hlc", "source"] | None
) -> None:
    world = world_of(stated)
    view = world.view()
    slots = everything(view)
    shown = preferred(view, slots, world.moment(), RIGHTS, prefer=prefer)
    assert shown.tolist() == [shows(view, slot, prefer) for slot in slots.tolist()]


def of_many_sources(size: int) -> World:
    return world_of([(0, n, n, 0, 1.0, n, 9) for n in range(size)])


def of_one_source(size: int) -> World:
    return world_of([(0, n, 0, 0, 1.0, n, 9) for n in range(size)])


def one_after_another(size: int) -> World:
    return world_of([(0, n, n % 3, 0, 1 - n / 1000, 3 * n, 5) for n in range(size)])


@pytest.mark.parametrize("prefer", [None, "hlc", "source"])
@pytest.mark.parametrize("make", [of_many_sources, of_one_source, one_after_another])
def test_twice_the_facts_are_about_twice_the_work(
    make: Callable[[int], World], prefer: Prefer | None
) -> None:
    small, large = make(100), make(200)
    once, twice = (
        work(
            world.view(),
            lambda view, world=world: preferred(
                view, everything(view), world.moment(), RIGHTS, prefer=prefer
            ),
        )
        for world in (small, large)
    )
    assert twice < 2.5 * once
