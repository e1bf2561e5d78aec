"""S6 over paragraphs that are facts: keywords, order, limit, and exclusions."""

from typing import Any

import pytest

from engramlog.projections.memories.summary_naming import period_of_name
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile, parse_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import summaries
from engramlog.projections.recall.stages.summaries import keywords_of
from tests.worlds.recall_world import DAY_US, World, reader

RELATION = "summary:paragraph"


def surveyed(world: World, query: str, *scopes: str) -> Survey:
    gate = Gate(effective_min=0.2, contradicted=True)
    request = RecallRequest(query=query)
    return survey(world.view(), request, reader(*scopes), world.moment(), gate=gate, depth=1)


def found(world: World, query: str, *scopes: str, **parameters: float) -> list[int]:
    chosen = summaries.Parameters(**parameters)  # pyright: ignore[reportArgumentType]
    hits = summaries.run(surveyed(world, query, *scopes), chosen, {})
    assert set(hits.scores.tolist()) <= {0.5}
    assert not hits.hops.any()
    return hits.slots.tolist()


def weekly(world: World, day: str, text: str, **more: str) -> int:
    start = f"{day}T00:00:00Z"
    return world.fact(f"summary:weekly:{day}", RELATION, text, valid_from=start, **more)  # pyright: ignore[reportArgumentType]


def test_one_keyword_within_a_word_is_enough() -> None:
    world = World()
    moved = weekly(world, "2026-06-15", "We MIGRATED to SQLite.")
    weekly(world, "2026-06-15", "Nothing of note.")
    assert found(world, "sqlite OR postgres") == [moved]
    assert found(world, "grate") == [moved]
    assert found(world, '"to sqlite"') == [moved]
    assert found(world, '"sqlite to"') == []


def test_only_paragraphs_of_summaries_count() -> None:
    world = World()
    world.fact("summary:weekly:2026-06-15", "memory:note", "sqlite")
    world.fact("summary:weekly:someday", RELATION, "sqlite")
    world.fact("project:x", RELATION, "sqlite")
    assert found(world, "sqlite") == []


def test_the_newest_ten_periods_come_first_in_any_order_of_writing() -> None:
    world = World()
    days = [f"2026-06-{day:02d}" for day in (20, 3, 11, 8, 1, 15, 17, 5, 9, 2, 28, 4)]
    slots = {day: weekly(world, day, "the deploy of " + day) for day in days}
    newest = sorted(slots[day] for day in sorted(days)[2:])
    assert found(world, "deploy") == newest
    assert found(world, "deploy", results=2) == sorted([slots["2026-06-28"], slots["2026-06-20"]])


@pytest.mark.parametrize("profile", ["abmind", "abmind-head"])
def test_the_latest_week_comes_first_whether_its_file_names_a_date_or_a_week(profile: str) -> None:
    world = World()
    # 20 September 2026 is later than week 25, which begins on 15 June.
    for name in ("weekly/weekly_2026-09-20.md", "weekly/weekly_2026-W25.md"):
        period = period_of_name(name)
        assert period is not None
        weekly(world, period.start.isoformat(), f"the deploy of {name}")
    request = RecallRequest(query="deploy", stages=frozenset({"S6"}))
    answer = recall(
        world.view(), world.rows, request, load_profile(profile), reader(), world.moment()
    )
    assert [each.row.entity for each in answer.results] == [
        "summary:weekly:2026-09-20",
        "summary:weekly:2026-06-15",
    ]


def test_equal_beginnings_count_once_a_period() -> None:
    world = World()
    start = "x" * 79 + "a"  # 80 characters
    first = weekly(world, "2026-06-15", start + " one")
    weekly(world, "2026-06-15", start + " two")
    other = weekly(world, "2026-06-22", start + " one")
    differs = weekly(world, "2026-06-15", "x" * 79 + "b one")
    assert found(world, "one OR two") == [first, other, differs]


def test_another_sources_equal_beginning_hides_no_paragraph() -> None:
    world = World()
    start = "x" * 80
    theirs = weekly(world, "2026-06-15", start + " poisoned deploy", source="agent:max")
    ours = weekly(world, "2026-06-15", start + " deploy", source="agent:ann")
    assert found(world, "deploy") == [theirs, ours]


def test_no_source_takes_every_place() -> None:
    world = World()
    ours = [weekly(world, f"2026-01-{d}", "deploy", source="agent:ann") for d in ("12", "19", "26")]
    theirs = [weekly(world, f"2026-06-{d}", "deploy", source="agent:max") for d in range(10, 25)]
    assert found(world, "deploy", results=1) == theirs[-1:]
    assert found(world, "deploy", results=4) == ours[1:] + theirs[-2:]
    assert found(world, "deploy") == ours + theirs[-7:]


def test_unreadable_paragraphs_take_no_place() -> None:
    world = World()
    mine = weekly(world, "2026-01-05", "deploy")
    for day in range(10, 25):
        weekly(world, f"2026-06-{day}", "deploy", scope="team")
    assert found(world, "deploy") == [mine]
    assert len(found(world, "deploy", "company", "team")) == 10


def test_a_retracted_paragraph_is_visible_only_before() -> None:
    world = World()
    slot = weekly(world, "2026-06-15", "deploy")
    before = world.moment()
    world.retract(slot)
    assert found(world, "deploy") == []
    gate = Gate(effective_min=0.2, contradicted=True)
    then = survey(world.view(), RecallRequest(query="deploy"), reader(), before, gate=gate, depth=1)
    assert summaries.run(then, summaries.Parameters(), {}).slots.tolist() == [slot]


def test_it_says_where_it_comes_from() -> None:
    world = World()
    slot = weekly(world, "2026-06-15", "deploy")
    hits = summaries.run(surveyed(world, "the deploy"), summaries.Parameters(), {})
    assert hits.slots.tolist() == [slot]
    assert hits.why(hits.slots) == [["S6:consolidation:weekly: holds deploy"]]


@pytest.mark.parametrize(
    ("query", "length", "keywords"),
    [
        ("puppy OR dog", 1, ["puppy", "dog"]),
        ('NOT "He said, hello" AND  Bob', 1, ["he said, hello", "bob"]),
        ("what is the deadline", 1, ["deadline"]),
        ("who is it", 1, ["who", "is", "it"]),
        ("go to Ulm", 3, ["ulm"]),
        ("go", 3, ["go"]),
        ("Váltókezelő's O'Brien", 1, ["váltókezelő's", "o'brien"]),
        ('" , ( ) * ^ + - : { }', 1, []),
        ("", 1, []),
    ],
)
def test_keywords_are_what_a_query_asks_for(query: str, length: int, keywords: list[str]) -> None:
    assert keywords_of(query, length) == keywords


def asked(world: World, **request: Any) -> list[int]:
    gate = Gate(effective_min=0.2, contradicted=True)
    question = RecallRequest(query=request.pop("query", ""), **request)
    at = survey(world.view(), question, reader(), world.moment(), gate=gate, depth=1)
    return summaries.run(at, summaries.Parameters(), {}).slots.tolist()


def test_keywords_of_a_request_are_phrases_and_so_is_the_original() -> None:
    world = World()
    first = weekly(world, "2026-06-15", "The build failed on Tuesday.")
    second = weekly(world, "2026-06-22", "Failed: a build.")
    third = weekly(world, "2026-06-29", "Elromlott a fordítás.")
    assert asked(world, query="failed", keywords=("Build failed ", "nothing")) == [first]
    assert asked(world, query="no", keywords=("build failed",)) == [first, second]
    assert asked(world, keywords=("nothing", "else"), original='ELROMLOTT "a" OR ') == [third]
    assert asked(world, keywords=("nothing OR tuesday",)) == [first]


def test_times_asked_for_are_those_of_the_periods() -> None:
    world = World()
    slots = [weekly(world, day, "deploy") for day in ("2026-06-15", "2026-06-22", "2026-06-29")]
    # 22 June 2026, midnight UTC: 1,782,086,400 s since 1970 (20,626 days).
    middle = 20_626 * DAY_US
    assert asked(world, query="deploy", filters=Filters(since_us=middle)) == slots[1:]
    assert asked(world, query="deploy", filters=Filters(until_us=middle)) == slots[:2]
    only = Filters(since_us=middle, until_us=middle)
    assert asked(world, query="deploy", filters=only) == slots[1:2]
    assert asked(world, query="deploy", filters=Filters(since_us=middle + 1)) == slots[2:]


def test_filters_apply_as_in_every_stage() -> None:
    world = World()
    mine = weekly(world, "2026-06-15", "deploy", source="user:mara")
    weekly(world, "2026-06-15", "deploy again", source="user:tom")
    assert asked(world, query="deploy", source="user:mara") == [mine]
    assert asked(world, query="deploy", relation="memory:role") == []


@pytest.mark.parametrize("name", ["abmind", "abmind-head"])
def test_in_abminds_profiles_paragraphs_are_no_memories(name: str) -> None:
    world = World()
    # Recorded in another order than that of the periods.
    days = ("2026-06-22", "2026-06-29", "2026-06-15")
    slots = {day: weekly(world, day, f"deploy number {n}") for n, day in enumerate(days)}
    memory = world.fact("project:x", "memory:note", "deploy done")
    view, request = world.view(), RecallRequest(query="deploy", min_confidence=0.0)
    answer = recall(view, world.rows, request, load_profile(name), reader(), world.moment())
    found = {each.slot: each.found_by for each in answer.results}
    assert found[memory] is not None
    assert found[memory].startswith("Sf")
    assert [found[slot] for slot in slots.values()] == ["S6:consolidation:weekly"] * 3
    order = [each.slot for each in answer.results if each.slot != memory]
    # Equal scores and equal similarity, so only the periods decide.
    assert order == [slots[day] for day in sorted(days, reverse=True)]
    scores = {each.score for each in answer.results if each.slot != memory}
    assert scores == {0.5}


def test_a_profile_may_name_the_stage() -> None:
    world = World()
    slot = weekly(world, "2026-06-15", "We migrated to sqlite.")
    world.fact("project:x", "memory:note", "sqlite too")
    profile = parse_profile(
        {
            "name": "only-summaries",
            "description": "the stage alone",
            "stages": [{"name": "summaries", "weight": 1.0, "parameters": {"results": 5}}],
        }
    )
    answer = recall(
        world.view(), world.rows, RecallRequest(query="sqlite"), profile, reader(), world.moment()
    )
    assert [each.slot for each in answer.results] == [slot]
    assert answer.results[0].why == ("S6:consolidation:weekly: holds sqlite",)
    assert [(each.name, each.status, each.hits) for each in answer.stages] == [
        ("summaries", "completed", 1)
    ]
