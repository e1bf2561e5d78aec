import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.moment import DAY_US, Moment
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


def test_a_day_that_no_year_has_is_near_nothing() -> None:
    world = World()
    assert not len(found(world, "on February 29", earlier=(said(world, "2023-02-28"),)).slots)


instants = st.integers(0, 30)
intervals = st.lists(st.tuples(instants, instants).map(sorted), min_size=1, max_size=6)


@given(intervals, intervals)
def test_the_nearest_of_the_named_times_counts(facts: Any, named: Any) -> None:
    began, ended = np.array(facts, dtype=np.int64).T
    spans = sorted((first, last + 1) for first, last in named)
    away = dates._days_away(began, ended, spans)  # pyright: ignore[reportPrivateUsage]
    assert (away * DAY_US).round().tolist() == [
        min(
            abs(then - own)
            for first, last in named
            for then in range(first, last + 1)
            for own in range(begin, end + 1)
        )
        for begin, end in facts
    ]


def recorded(world: World, slot: int) -> date:
    return datetime.fromtimestamp(int(world.view().recorded_at[slot]) / 1e6, UTC).date()


def commanders() -> World:
    """Who commanded a station, each until the next; the last one still does."""
    world = World()
    for name, begin, end in (
        ("luca", "2019-10-03", "2020-02-06"),
        ("oleg", "2020-02-06", "2020-04-17"),
        ("chris", "2020-04-17", "2020-10-21"),
        ("mike", "2020-10-21", None),
    ):
        world.fact(
            "stigmem://t/station/iss", "commanded-by", name, name=name,
            valid_from=f"{begin}T00:00:00Z", valid_until=end and f"{end}T00:00:00Z",
        )  # fmt: skip
    return world


def answers(
    world: World, query: str, profile: str = "default", moment: Moment | None = None, **more: Any
) -> set[str]:
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, **more),
        load_profile(profile),
        reader(),
        moment or world.moment(),
    )
    return {each.row.id for each in answer.results}


def test_a_question_about_a_past_time_finds_what_held_then() -> None:
    world = commanders()
    assert answers(world, "Who commanded the iss?") == {"mike"}
    assert answers(world, "Who commanded the iss in May 2020?") == {"chris", "mike"}
    assert answers(world, "Who commanded the iss in 2019?") == {"luca", "mike"}
    # On the last day of one the next one began.
    assert answers(world, "Who commanded the iss on 2020-04-17?") == {"chris", "mike"}
    assert answers(world, "Who commanded the iss on 2020-04-16?") == {"oleg", "mike"}
    assert answers(world, "Who commanded the iss in 2018?") == {"mike"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("before April 2020", {"luca", "oleg", "chris"}),
        ("until 2019", {"luca"}),
        ("since September 2020", {"chris"}),
        ("after 2021", set()),
        ("between 2019 and May 2020", {"luca", "oleg", "chris"}),
    ],
)
def test_before_and_since_leave_one_end_open(asked: str, found: set[str]) -> None:
    assert answers(commanders(), f"Who commanded the iss {asked}?") == {"mike", *found}


@pytest.mark.parametrize(
    "question",
    [
        "Who was the previous commander of the iss?",
        "Who used to command the iss?",
        "Who were FORMER commanders of the iss?",
        "How has the commander of the iss changed?",
        "Which commander of the iss did we use to have?",
        "Who commanded the iss over time?",
    ],
)
def test_a_question_about_the_past_finds_all_that_is_over(question: str) -> None:
    assert answers(commanders(), question) == {"luca", "oleg", "chris", "mike"}


@pytest.mark.parametrize(
    "question",
    [
        "Who is used to command the iss?",
        "the person used to command the iss",
        "Who may command the iss before tomorrow?",
        "Who commands the iss until December 2999?",
        "Who commands the iss from this week until next year?",
    ],
)
def test_a_question_about_the_present_or_the_future_brings_nothing_back(question: str) -> None:
    assert answers(commanders(), question) == {"mike"}


def test_a_month_without_its_year_or_another_profile_brings_nothing_back() -> None:
    world = commanders()
    assert answers(world, "Who commanded the iss in May?") == {"mike"}
    assert answers(world, "Who commanded the iss in May 2020?", "stigmem") == {"mike"}
    assert answers(world, "Who commanded the iss in May 2020?", weights={"dates": 0}) == {"mike"}


def test_what_held_at_a_valid_time_alone_answers_about_that_time() -> None:
    world = commanders()
    then = Moment(world.position, world.moment().instant_us, valid_at_us=1_590_000_000_000_000)
    assert answers(world, "Who commanded the iss in 2019?", moment=then) == {"chris"}


def test_what_was_recorded_after_its_end_is_of_its_last_day() -> None:
    world = World()
    world.fact(user("ann"), "role", "mayor", name="once", valid_until="2011-05-01T00:00:00Z")
    assert answers(world, "What was the role of ann in April 2011?") == {"once"}
    assert answers(world, "What was the role of ann in May 2011?") == set()
    assert answers(world, "What was the role of ann in 2010?") == set()


def test_a_filter_holds_for_what_held_then() -> None:
    world = commanders()
    world.fact(
        "stigmem://t/station/mir", "said", "commanded by talgat in 2020", name="talgat",
        valid_from="2020-01-01T00:00:00Z", valid_until="2020-12-01T00:00:00Z",
    )  # fmt: skip
    asked = "Who commanded in May 2020?"
    assert answers(world, asked) == {"chris", "mike", "talgat"}
    assert answers(world, asked, relation="said") == {"talgat"}


def test_the_reason_names_the_time_until_which_it_held() -> None:
    world = commanders()
    asked = surveyed(world, "in May 2020")
    asked = dates.with_facts_of_named_time(asked)
    found = dates.run(asked, dates.Parameters(), {})
    assert found.why(np.array([2], dtype=np.int32)) == [
        ["dates: of 2020-04-17 to 2020-10-21, 0 days away"]
    ]


days = st.sampled_from(("2021-06-05", "2022-06-20", "2023-01-03", None))
ends = st.sampled_from((None, None, "2022-07-01T00:00:00Z", "2023-06-04T00:00:00Z"))
told_facts = st.tuples(days, ends, st.sampled_from(("company", "team")), st.booleans())
history = st.lists(told_facts, min_size=1, max_size=10)
questions = st.sampled_from(
    ("Which tea in June?", "Which tea in June 2022?", "Tea before 2022?", "Which previous tea?")
)


def ask(world: World, query: str, *, moment: Moment | None = None) -> list[Any]:
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, explain=True),
        load_profile("default"),
        reader(),
        moment or world.moment(),
        stopwatch=lambda: 0.0,
    )
    return [(each.row.id, each.score, each.explain, each.why) for each in answer.results]


Told = tuple[str | None, str | None, str, bool]


@given(history, questions)
def test_unreadable_facts_change_no_date(told: list[Told], query: str) -> None:
    whole, own = World(), World()
    for n, (day, end, scope, retracted) in enumerate(told):
        for world in (whole, own) if scope == "company" else (whole,):
            slot = said(world, day, scope=scope, name=f"n{n}", valid_until=end)
            if retracted:
                world.retract(slot)
    assert ask(whole, query) == ask(own, query)


@given(history, questions, st.integers(0, 9))
def test_the_past_had_the_dates_of_then(told: list[Told], query: str, cut: int) -> None:
    world, then, at = World(), None, None
    for n, (day, end, _, retracted) in enumerate(told):
        slot = said(world, day, name=f"n{n}", valid_until=end)
        if retracted:
            world.retract(slot)
        if n <= cut:
            at, then = world.moment(), ask(world, query)
    assert at is not None
    assert ask(world, query, moment=at) == then
