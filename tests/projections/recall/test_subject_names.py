import pytest

from engramlog.projections.recall.conversation.speakers import PlainQuestion
from engramlog.projections.recall.conversation.subject_names import LOOKED_AT_MAX, without_names
from tests.worlds.recall_world import World, survey_of, user


def plain(world: World, query: str, *scopes: str) -> PlainQuestion:
    at = survey_of(world, query, *scopes)
    return without_names(at)


def table() -> World:
    world = World()
    world.fact(user("g585"), "is:called", "Jimmy Gomez")
    world.fact(user("g585"), "is:born", "1974-11-25")
    world.fact(user("apollo-8"), "is:launched", "1968-12-21")
    world.ref(user("anders"), "was:aboard", user("apollo-8"))
    world.ref(user("anders"), "was:from", user("hong-kong"))
    return world


@pytest.mark.parametrize(
    ("query", "text", "names"),
    [
        ("When was Jimmy Gomez born?", "When was born?", ("Jimmy Gomez",)),
        ("When did Apollo 8 lift off?", "When did lift off?", ("Apollo 8",)),
        ("Who came from Hong Kong?", "Who came from ?", ("Hong Kong",)),
        ("Apollo 8's crew?", "crew?", ("Apollo 8",)),
        ("Did Jimmy Gomez see Apollo 8?", "Did see ?", ("Jimmy Gomez", "Apollo 8")),
        ("when was jimmy gomez born?", "when was jimmy gomez born?", ()),
        ("When was Jimmy born?", "When was born?", ("Jimmy",)),
        ("when was jimmy born?", "when was jimmy born?", ()),
        ("Who is Jimmy Gomez?", "Who is Jimmy Gomez?", ()),  # nothing else would be left
    ],
)
def test_names_of_what_facts_are_about_leave_the_question(
    query: str, text: str, names: tuple[str, ...]
) -> None:
    assert plain(table(), query) == PlainQuestion(text, names)


def test_values_of_many_entities_and_frequent_words_are_no_names() -> None:
    world = table()
    for number in range(3):
        world.fact(user(f"n{number}"), "is:called", "Jimmy Gomez")
    assert plain(world, "When was Jimmy Gomez born?").names == ()
    world = table()
    for number in range(LOOKED_AT_MAX):
        world.fact(user("w"), "memory:note", f"Jimmy Gomez was seen {number} times")
    assert plain(world, "When was Jimmy Gomez born?").names == ()


def test_a_speaker_with_nothing_but_speech_is_named_by_single_words() -> None:
    world = World()
    for number in range(6):
        world.fact(user("ann-lee"), "says", f"And then we met at the lake {number}.", source="talk")
    assert plain(world, "Where did Ann Lee go?") == PlainQuestion("Where did go?", ("Ann", "Lee"))
    world.fact(user("ann-lee"), "is:born", "1990")
    assert plain(world, "Where did Ann Lee go?") == PlainQuestion("Where did go?", ("Ann Lee",))


def test_unreadable_facts_make_no_names() -> None:
    world = table()
    world.fact(user("z17"), "is:called", "Lee Zeldin", scope="team")
    query = "When was Lee Zeldin born?"
    assert plain(world, query).names == ()
    assert plain(world, query, "company", "team").names == ("Lee Zeldin",)
    for number in range(LOOKED_AT_MAX + 6):  # hidden facts make no word frequent
        world.fact(user("h"), "memory:note", f"Gomez {number}", scope="team")
    for number in range(LOOKED_AT_MAX - 1):
        world.fact(user("v"), "memory:note", f"Jimmy {number}")
    for number in range(LOOKED_AT_MAX - 3):
        world.fact(user("v"), "memory:note", f"Gomez {number}")
    assert plain(world, "When was Jimmy Gomez born?").names == ("Jimmy Gomez",)
