from unittest.mock import Mock

import numpy as np
import pytest

from engramlog.projections.moment import Moment
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages.candidates import StageDisabled
from engramlog.projections.recall.stages.simhash import Parameters, run, sampled
from tests.worlds.recall_world import NOW_US, World, reader, user

CLERK = "We decided to use Clerk for authentication"
AUTH = "We chose Clerk for our auth system"


def surveyed(world: World, query: str, moment: Moment | None = None) -> Survey:
    at = moment or world.moment()
    gate = Gate(0.0, contradicted=True)
    return survey(world.view(), RecallRequest(query=query), reader(), at, gate=gate, depth=0)


def add_memory(world: World, text: str, **more: str) -> int:
    return world.fact(user("ann"), f"memory:n{world.position}", text, **more)  # pyright: ignore[reportArgumentType]


def numbered(world: World, slots: list[int], numbers: list[int]) -> None:
    """Give the facts' ids these numbers."""
    world.view().tie[slots] = numbers


def test_the_seeds_similar_pair_is_below_the_threshold() -> None:
    world = World()
    near, same = add_memory(world, AUTH), add_memory(world, CLERK)
    found = run(surveyed(world, CLERK), Parameters(), {})
    # 1 - 93/256 = 0.6367 is less than 0.65: a fault of the seed, kept in its version.
    assert found.slots.tolist() == [same]
    found = run(surveyed(world, CLERK), Parameters(threshold=0.63), {})
    assert found.slots.tolist() == [near, same]
    assert found.scores.tolist() == [1 - 93 / 256, 1.0]


def test_no_more_than_the_cap_and_the_oldest_among_equals() -> None:
    world = World()
    slots = [add_memory(world, CLERK) for _ in range(8)]
    assert run(surveyed(world, CLERK), Parameters(cap=5), {}).slots.tolist() == slots[:5]


def test_a_sample_is_of_the_whole_history_and_always_the_same() -> None:
    world = World()
    slots = [add_memory(world, CLERK) for _ in range(5)]
    numbered(world, slots, [1, 2, 3, 4, 5])
    found = run(surveyed(world, CLERK), Parameters(rows=2), {})
    # n * 2654435761 % 2147483647 of the numbers 1 to 5: 506952114, 1013904228, 1520856342,
    # 2027808456 and 387276923. The fifth and the first are least.
    assert found.slots.tolist() == [slots[0], slots[4]]
    assert found.detail == "2 of 5 facts compared"
    assert run(surveyed(world, CLERK), Parameters(rows=5), {}).slots.tolist() == slots
    assert run(surveyed(world, CLERK), Parameters(rows=5), {}).detail == ""


def test_a_sample_does_not_depend_on_unreadable_facts() -> None:
    world = World()
    slots: list[int] = []
    for n in range(5):
        for _ in range(n):
            add_memory(world, CLERK, scope="team")
        slots.append(add_memory(world, CLERK))
    numbered(world, slots, [1, 2, 3, 4, 5])
    found = run(surveyed(world, CLERK), Parameters(rows=2), {})
    assert found.slots.tolist() == [slots[0], slots[4]]


def test_a_sample_does_not_depend_on_the_order_of_arrival() -> None:
    world = World()
    slots = [add_memory(world, CLERK) for _ in range(5)]
    numbered(world, slots, [5, 3, 1, 4, 2])
    found = run(surveyed(world, CLERK), Parameters(rows=2), {})
    assert found.slots.tolist() == [slots[0], slots[2]]


def test_a_sample_of_thousands_is_spread_over_all_of_them() -> None:
    slots = np.arange(50_000, dtype=np.int32)
    view = Mock(tie=slots.astype(np.uint32) + 1, ages=lambda some: (some,))
    sample = sampled(slots, 5_000, view)
    by_key = sorted(range(50_000), key=lambda n: (n + 1) * 2654435761 % 2147483647)
    assert sample.tolist() == sorted(by_key[:5_000])
    assert np.bincount(sample // 12_500).min() > 1_000  # 1,250 each if perfectly even


def test_a_text_without_words_is_similar_to_nothing() -> None:
    world = World()
    add_memory(world, "12345")
    assert not len(run(surveyed(world, "hello world"), Parameters(), {}).slots)
    with pytest.raises(StageDisabled):
        run(surveyed(world, "1 2 3"), Parameters(), {})


def test_only_visible_facts_are_found() -> None:
    world = World()
    add_memory(world, CLERK, scope="team")
    first = add_memory(world, CLERK)
    then = Moment(world.position, NOW_US)
    second = add_memory(world, CLERK)
    world.retract(first)
    assert run(surveyed(world, CLERK, then), Parameters(), {}).slots.tolist() == [first]
    assert run(surveyed(world, CLERK), Parameters(), {}).slots.tolist() == [second]


def test_version_2_ignores_words_in_all_facts() -> None:
    world = World()
    for n in range(30):
        add_memory(world, f"the project meeting number {n} about zebras")
    wanted = add_memory(world, "the project uses Clerk")
    found = run(surveyed(world, "project Clerk"), Parameters(version=2, cap=1), {})
    assert found.slots.tolist() == [wanted]
