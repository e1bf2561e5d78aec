from typing import Any

import pytest

from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.conversation.overview import topic_of
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import parse_profile
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import World, reader, user

pytestmark = pytest.mark.usefixtures("every_text_is_told")


@pytest.mark.parametrize(
    ("query", "topic"),
    [
        (
            "Can you list the order in which I brought up different aspects of my budget tracker"
            " throughout our conversations, in order? Mention ONLY and ONLY three items.",
            "my budget tracker?",
        ),
        (
            "Can you give me a comprehensive summary of how my weather app has progressed so far?",
            "my weather app?",
        ),
        ("In what order did I mention my trips to Rome?", "mention my trips to Rome?"),
        ("How has my view of tea changed over time?", "How has my view of tea changed?"),
        ("Can you give me a summary?", "Can you give me a summary?"),
        ("What did I do in order to sleep better?", None),
        ("Who developed the plan?", None),
        ("What did we see throughout the city?", None),
        ("What did we do in the second session?", None),
        ("What did I say in our last conversation?", None),
        ("What came up in our previous conversations about tea?", "What came up about tea?"),
        ("", None),
    ],
)
def test_the_topic_of_a_question(query: str, topic: str | None) -> None:
    assert topic_of(query) == topic


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", [",", ", ", ".  ", "! "])
def test_a_topic_is_found_in_linear_time(unit: str) -> None:
    """In quadratic time this takes minutes and reaches the limit."""
    asked = f"A summary of my budget, my travels {unit * 200_000} and my dog"
    assert topic_of(asked) is not None


def ask(world: World, query: str, **overview: Any) -> RecallAnswer:
    document: dict[str, Any] = {
        "name": "tried", "description": "", "stages": [{"name": "lexical", "weight": 1.0}],
        "context": {"gap_hours": 12}, "overview": overview,
        "diversity": {"lambda": 0.99},
    }  # fmt: skip
    return recall(
        world.view(), world.rows, RecallRequest(query=query), parse_profile(document), reader(),
        world.moment(), stopwatch=lambda: 0.0,
    )  # fmt: skip


def trips() -> World:
    world = World()
    for source, text in (
        ("one", "rome trip rome trip"), ("one", "rome trip booked"), ("two", "trip"),
        ("one", "a list in order"),
    ):  # fmt: skip
        world.fact(user("ann"), "said", text, source=source)
    return world


def found(answer: RecallAnswer) -> list[str]:
    return [each.row.value_v for each in answer.results]


def test_the_answer_to_it_is_on_its_topic_and_spread_over_conversations() -> None:
    query = "Can you list the order in which I brought up my rome trip in our conversations?"
    near = found(ask(trips(), query, spread=0.0))
    assert near[2:] == ["trip"]
    assert set(near[:2]) == {"rome trip rome trip", "rome trip booked"}
    spread = ask(trips(), query, spread=0.9)
    assert found(spread)[1] == "trip"
    assert "on: my Rome Trip" in spread.stages[0].detail


def test_other_questions_are_asked_as_they_are() -> None:
    answer = ask(trips(), "rome trip list", spread=0.9)
    assert found(answer)[1:2] != ["trip"]
    assert "a list in order" in found(answer)
    assert answer.stages[0].detail == ""
