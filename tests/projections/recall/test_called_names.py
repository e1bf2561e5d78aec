"""A name that others use for a speaker is read as the speaker's own name."""

import pytest

from engramlog.projections.moment import Moment
from engramlog.projections.recall.conversation.called_names import read_as, renamed
from engramlog.projections.recall.conversation.context import ConversationContext
from tests.worlds.recall_world import World, survey_of, user

CALLS = 3


def talk(world: World, *lines: tuple[str, str], scope: str = "company") -> list[int]:
    """One conversation: who says what."""
    return [
        world.fact(user(name), "said", text, source="session:1", scope=scope)
        for name, text in lines
    ]


def names(
    world: World, query: str, *scopes: str, calls: int = CALLS, moment: Moment | None = None
) -> dict[str, str]:
    at = survey_of(world, query, *scopes, moment=moment, context=ConversationContext())
    return read_as(at, calls)


GREETED = (
    ("elise", "Hi Kate! How was the pasta?"),
    ("emi", "Wonderful, I cooked it myself"),
    ("elise", "That looks lovely, Kate."),
    ("emi", "I ski in Vermont"),
    ("elise", "Kate, tell me more"),
)


def test_a_name_used_by_the_other_speaker_is_the_speakers() -> None:
    world = World()
    talk(world, *GREETED)
    assert names(world, "What did Kate cook?") == {"Kate": "Emi"}
    assert names(world, "What did Kate cook?", calls=4) == {}


@pytest.mark.parametrize(
    "lines",
    [
        [("emi", "Hello"), *(("elise", f"I drove to Kate in week {n}") for n in range(6))],
        [("emi", "Hi Kate!"), *GREETED, ("emi", "Hi Kate!"), ("emi", "Thanks, Kate.")],
        [*GREETED, ("tom", "So am I")],
        [(name, text) for name, text in GREETED if name == "elise"],
    ],
    ids=["mentioned", "called by both", "three speakers", "one speaker"],
)
def test_an_unclear_call_names_no_speaker(lines: list[tuple[str, str]]) -> None:
    world = World()
    talk(world, *lines)
    assert names(world, "Where is Kate?") == {}


def test_a_speakers_own_name_stays() -> None:
    world = World()
    for n in range(5):
        talk(world, ("emi", f"I ski {n}"), ("elise", "Hi Emi!"))
    assert names(world, "Where does Emi ski?") == {}


def test_unreadable_and_later_calls_do_not_count() -> None:
    world = World()
    talk(world, *GREETED[:3])
    before = world.moment()
    talk(world, *GREETED[3:], scope="team")
    assert names(world, "What did Kate cook?") == {}
    assert names(world, "What did Kate cook?", "company", "team") == {"Kate": "Emi"}
    assert names(world, "What did Kate cook?", "company", "team", moment=before) == {}


def test_facts_erased_since_the_view_was_pinned_are_passed_over() -> None:
    world = World()
    slots = talk(world, *GREETED)
    pinned = survey_of(world, "What did Kate cook?", context=ConversationContext())
    world.erase(slots[0])
    assert read_as(pinned, CALLS) == {}
    assert read_as(pinned, 2) == {"Kate": "Emi"}


CALLED = [
    "Hi Kate",
    "thanks again, KATE's well",
    "So, Kate",
    "So , kate ; no",
    "Kate!",
    "No. Kate , come",
    "Good morning\nKate",
]
MENTIONED = [
    "Ohi Kate went",
    "Hi Katelyn",
    "So, Kate went",
    " Kate!",
    "No.Kate!",
    "Is Kate",
    "again, Kate is",
    "No. Kate came",
]


@pytest.mark.parametrize("said", CALLED + MENTIONED)
def test_a_call_follows_a_greeting_or_comma_or_begins_a_sentence(said: str) -> None:
    world = World()
    talk(world, *[line for _ in range(CALLS) for line in (("elise", said), ("emi", "I ski"))])
    assert names(world, "Where is Kate?") == ({"Kate": "Emi"} if said in CALLED else {})


def test_the_question_uses_the_speakers_own_name() -> None:
    assert renamed("Kate's dog and Katelyn, says Kate?", {"Kate": "Emi"}) == (
        "Emi's dog and Katelyn, says Emi?"
    )
