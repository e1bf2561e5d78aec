import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.moment import Moment
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import dates
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from tests.worlds.recall_world import World, reader, user


def surveyed(world: World, query: str, *scopes: str) -> Survey:
    return survey(
        world.view(),
        RecallRequest(query=query),
        reader(*scopes),
        world.moment(),
        gate=Gate(effective_min=0.2, contradicted=True),
        depth=1,
    )


def found(
    world: World, query: str, *scopes: str, earlier: tuple[int, ...] = (), **more: Any
) -> Any:
    slots = np.array(earlier, dtype=np.int32)
    hits = {"one": Candidates(slots, np.ones(len(slots)), slots * 0, lambda _slot: [])}
    return dates.run(surveyed(world, query, *scopes), dates.Parameters(**more), hits)


def said(world: World, day: str | None, text: str = "tea", **more: Any) -> int:
    started = None if day is None else f"{day}T10:00:00Z"
    return world.fact(user("ann"), "said", text, valid_from=started, **more)


def test_facts_of_the_day_score_1_and_those_near_it_less() -> None:
    world = World()
    for day in ("2023-05-03", "2023-05-06", "2023-05-02", "2023-07-01", None):
        said(world, day)
    at = found(world, "What was drunk on May 3, 2023?", earlier=(0, 1, 2, 3, 4), decay_days=3)
    # The 6th at 10 o'clock is 2 days and 10 hours after the 3rd, the 2nd 14 hours before it.
    assert at.slots.tolist() == [0, 1, 2]
    assert at.scores.tolist() == pytest.approx(
        [1.0, math.exp(-(2 + 10 / 24) / 3), math.exp(-(14 / 24) / 3)], abs=1e-6
    )
    assert at.why(np.array([1], dtype=np.int32)) == [["dates: of 2023-05-06, 2 days away"]]


def test_a_fact_without_a_validity_is_of_the_day_it_was_recorded() -> None:
    """ "What did I say last week?" is about texts that only their recording dates."""
    world = World()
    told = [world.fact(user("ann"), "said", "tea", age_days=days) for days in (9.0, 2.0, 1.0)]
    day = recorded(world, told[1])
    at = found(world, f"What was said on {day.isoformat()}?", decay_days=3)
    assert at.slots.tolist() == [told[1]]
    at = found(world, f"What was said on {day.isoformat()}?", earlier=tuple(told), decay_days=3)
    assert at.slots.tolist() == told
    assert at.scores.tolist()[1] == 1.0
    elsewhere = said(world, "2023-05-03")
    (slot,) = found(world, "What was said on May 3, 2023?", earlier=(*told, elsewhere)).slots
    assert slot == elsewhere


def test_an_ended_fact_counts_for_its_whole_interval() -> None:
    world = World()
    kept = world.fact(
        user("ann"), "lived", "Rome",
        valid_from="2019-01-01T00:00:00Z", valid_until="2030-01-01T00:00:00Z",
    )  # fmt: skip
    assert found(world, "Where did she live in 2022?", earlier=(kept,)).scores.tolist() == [1.0]
    assert found(world, "Where did she live in 2018?", earlier=(kept,)).scores[0] < 1.0


def test_a_date_without_a_year_is_looked_for_in_every_year_that_facts_are_of() -> None:
    world = World()
    for day in ("2021-06-05", "2023-06-05", "2023-08-05"):
        said(world, day)
    assert found(world, "in June", earlier=(0, 1, 2)).slots.tolist() == [0, 1]


def test_the_newest_of_the_very_time_are_candidates_by_it_alone() -> None:
    world = World()
    for day in ("2023-06-05", "2023-06-06", "2023-06-07", "2023-07-02"):
        said(world, day)
    assert found(world, "in June 2023", others=2).slots.tolist() == [1, 2]


def test_without_a_date_the_stage_is_disabled() -> None:
    with pytest.raises(StageDisabled, match="names no date"):
        found(World(), "Who may come?")


def recorded(world: World, slot: int) -> date:
    return datetime.fromtimestamp(int(world.view().recorded_at[slot]) / 1e6, UTC).date()


days = st.sampled_from(("2021-06-05", "2022-06-20", "2023-01-03", None))
history = st.lists(
    st.tuples(days, st.sampled_from(("company", "team")), st.booleans()), min_size=1, max_size=10
)


def ask(world: World, *, moment: Moment | None = None) -> list[Any]:
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query="Which tea in June?", explain=True),
        load_profile("default"),
        reader(),
        moment or world.moment(),
        stopwatch=lambda: 0.0,
    )
    return [(each.row.id, each.score, each.explain, each.why) for each in answer.results]


@given(history)
def test_unreadable_facts_change_no_date(told: list[tuple[str | None, str, bool]]) -> None:
    whole, own = World(), World()
    for n, (day, scope, retracted) in enumerate(told):
        for world in (whole, own) if scope == "company" else (whole,):
            slot = said(world, day, scope=scope, name=f"n{n}")
            if retracted:
                world.retract(slot)
    assert ask(whole) == ask(own)


@given(history, st.integers(0, 9))
def test_the_past_had_the_dates_of_then(told: list[tuple[str | None, str, bool]], cut: int) -> None:
    world, then, at = World(), None, None
    for n, (day, _, retracted) in enumerate(told):
        slot = said(world, day, name=f"n{n}")
        if retracted:
            world.retract(slot)
        if n <= cut:
            at, then = world.moment(), ask(world)
    assert at is not None
    assert ask(world, moment=at) == then
