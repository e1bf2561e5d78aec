"""A source that states another value of a key revises itself; only others put a value in doubt."""

from typing import Any

import pytest

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import World, reader, user

OTHER = "agent:other"
TOWN = (user("ann"), "memory:town")


def weights(world: World, query: str = "ledger", **more: Any) -> dict[str, float]:
    """The factor of the contradiction, by fact, in the order of the answer."""
    answer = recall(
        world.view(), world.rows, RecallRequest(query=query, explain=True, **more),
        load_profile("default"), reader(), world.moment(), stopwatch=lambda: 0.0,
    )  # fmt: skip
    return {
        each.row.value_v: each.explain["factors"]["contradiction"]
        for each in answer.results
        if each.explain is not None
    }


def towns() -> World:
    world = World()
    world.fact(*TOWN, "ledger Graz", age_days=9)
    world.fact(*TOWN, "ledger Linz", age_days=3)
    return world


def test_the_last_word_of_a_source_that_only_itself_contradicts_is_whole() -> None:
    world = towns()
    world.fact(user("bob"), "memory:town", "ledger Wels", age_days=30)
    assert weights(world) == pytest.approx(
        {"ledger Linz": 1.0, "ledger Wels": 1.0, "ledger Graz": 0.8}
    )


def test_another_source_puts_every_value_in_doubt() -> None:
    world = towns()
    world.fact(*TOWN, "ledger Wels", source=OTHER)
    assert weights(world) == pytest.approx(
        {"ledger Graz": 0.85 * 0.8, "ledger Linz": 0.85, "ledger Wels": 0.85}
    )
    world = towns()
    record = world.fact(*TOWN, "ledger Linz", source=OTHER, confidence=0.0)
    world.deny(record, [1])
    assert weights(world)["ledger Linz"] == pytest.approx(0.85)
    world = towns()
    world.set_aside(1)
    assert weights(world, include_contradicted=True)["ledger Linz"] == pytest.approx(0.85)


def test_a_value_that_is_set_aside_puts_no_other_one_in_doubt() -> None:
    world = towns()
    world.set_aside(world.fact(*TOWN, "ledger Wels", source=OTHER))
    alone = weights(towns())
    assert weights(world) == alone
    assert weights(world, include_contradicted=True) == {**alone, "ledger Wels": 0.85}


def test_an_unreadable_source_puts_nothing_in_doubt() -> None:
    world = towns()
    secret = FactAttributes(classification=3)
    world.fact(*TOWN, "ledger Wels", source=OTHER, attributes=secret)
    assert weights(world) == weights(towns())


def test_of_a_value_that_holds_again_the_newest_statement_comes_first() -> None:
    world = World()
    for n in range(3):  # what was said around the first statement gives it more context
        world.fact(user("ann"), "memory:note", f"ledger town {n}", age_days=9)
    first = world.fact(*TOWN, "ledger Graz", age_days=9)
    world.fact(*TOWN, "ledger Linz", age_days=6)
    again = world.fact(*TOWN, "ledger Graz", age_days=1)
    world.fact(user("bob"), "memory:note", "ledger", age_days=1)
    answer = recall(
        world.view(), world.rows, RecallRequest(query="ledger town"), load_profile("default"),
        reader(), world.moment(), stopwatch=lambda: 0.0,
    )  # fmt: skip
    slots = [each.slot for each in answer.results]
    assert slots[-1] == first
    assert slots.index(again) < len(slots) - 1
