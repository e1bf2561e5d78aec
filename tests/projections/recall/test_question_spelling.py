import pytest

from engramlog.projections.moment import Moment
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.question_spelling import spelled
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import NOW_US, World, reader, user


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("where did melanie go", "where did Melanie Go?"),
        ("Where did melanie go?", "Where did Melanie Go?"),
        ("did i meet ann", "did i Meet Ann?"),
        ("did I meet ann", "did I Meet Ann?"),
        ("melanie's children", "Melanie's Children"),
        ("  who is zoë ", "who is Zoë?"),
        ("what does src/main.rs hold", "what does src/main.rs Hold?"),
        ("who wrote user_id and bo@example.org", "who Wrote user_id and bo@example.org?"),
        ("is ß a letter", "is ß a Letter?"),
        ("Where did Melanie go", "Where did Melanie go?"),
        ("Where did Melanie go. I forgot.", "Where did Melanie go. I forgot."),
        ("NASA", "NASA"),
        ("who runs getUserById", "who runs getUserById?"),
        ("tell me about tea.", "Tell me about Tea."),
        ("где живёт анна", "Где Живёт Анна"),
        ("你好", "你好"),
        ("", ""),
    ],
)
def test_a_hasty_question_is_spelled_with_care(typed: str, meant: str) -> None:
    assert spelled(typed) == meant


@pytest.mark.parametrize(
    "typed", ["who wrote heat and collateral", "Who wrote heat and collateral"]
)
def test_a_question_without_capitals_is_answered_as_the_one_with_them(typed: str) -> None:
    world = World()
    for n, (title, text) in enumerate(
        [("heat", "Heat is a film."), ("later", "Collateral is a later film."), ("tea", "A drink.")]
    ):
        world.fact(user(title), "text", text, source=f"doc:{n}")

    def found(query: str, profile: str) -> list[tuple[str, float]]:
        answer = recall(
            world.view(), world.rows, RecallRequest(query=query), load_profile(profile), reader(),
            Moment(3, NOW_US), stopwatch=lambda: 0.0,
        )  # fmt: skip
        return [(each.row.id, each.score) for each in answer.results]

    assert found(typed, "default") == found("Who wrote Heat and Collateral?", "default")
    assert len(found(typed, "default")) == 2
