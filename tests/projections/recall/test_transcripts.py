"""Where the texts about an entity begin with names in turns, these are its speakers."""

import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engramlog.projections.columns.spoken_texts import NONE, SpokenTexts
from engramlog.projections.recall.conversation.called_names import read_as
from engramlog.projections.recall.conversation.channels import (
    machine_said,
)
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.conversation.layouts import (
    SAID_MIN,
    SESSIONS,
    TRANSCRIPT,
    are_discussed,
    judge,
)
from engramlog.projections.recall.conversation.speakers import without_speakers
from engramlog.projections.recall.ranking.selecting import repeats_last
from engramlog.projections.recall.request_facts import Survey
from tests.worlds.recall_world import World, speaker_names, survey_of, user

CONTEXT = ConversationContext(before=(0.5,), after=(0.25,), session=0.25)
CHAT, IMPORTER = "chat:kitchen", "agent:importer"
TURNS = ("Ann", "Bob") * SAID_MIN


def say(world: World, *turns: str, chat: str = CHAT, source: str = IMPORTER, **more: Any) -> Any:
    """A text of each of these speakers about the chat."""
    return slots_of(
        world.fact(chat, "said", f"{name}: this is {n} of {source}", source=source, **more)
        for n, name in enumerate(turns)
    )


def slots_of(numbers: Any) -> Any:
    return np.array(list(numbers), dtype=np.int32)


def at(world: World, query: str = "", **more: Any) -> Survey:
    return survey_of(world, query, context=CONTEXT, **more)


def talk_of(survey: Survey, slot: int) -> list[int]:
    return conversations(survey, CONTEXT, slots_of([slot])).members.tolist()


def test_the_names_that_begin_its_texts_are_its_speakers() -> None:
    world = World()
    said = say(world, *TURNS)
    assert speaker_names(at(world), said) == ["ann", "bob"] * SAID_MIN


def test_the_chats_of_one_source_are_conversations_of_their_own() -> None:
    world = World()
    kitchen, garden = say(world, *TURNS), say(world, *TURNS, chat="chat:garden")
    found = at(world)
    assert talk_of(found, kitchen[0]) == kitchen.tolist()
    assert talk_of(found, garden[0]) == garden.tolist()


def test_the_sources_of_one_chat_are_its_sessions() -> None:
    world = World()
    sessions = [say(world, *TURNS, source=f"session:{n}") for n in range(3)]
    found = at(world)
    for said in sessions:
        assert talk_of(found, said[0]) == said.tolist()
        assert speaker_names(found, said) == ["ann", "bob"] * SAID_MIN


def test_a_channel_whose_texts_repeat_their_source_stays_a_channel() -> None:
    world = World()
    said = slots_of(
        world.fact(CHAT, "said", f"{name}: this is message {n}", source=user(name.lower()))
        for n, name in enumerate(TURNS)
    )
    found = at(world)
    assert speaker_names(found, said) == [user("ann"), user("bob")] * SAID_MIN
    assert talk_of(found, said[0]) == said.tolist()


@pytest.mark.parametrize(
    "turns",
    [
        ("Ann",) * 2 * SAID_MIN,
        ("Ann", "Bob") * (SAID_MIN - 1),
        ("Ann", *("Bob",) * 2 * SAID_MIN),
        ("Ann",) * SAID_MIN + ("Bob",) * SAID_MIN,
        ("Ann", "Bob", "see https", "it was 9") * SAID_MIN,
        tuple(f"Part {chr(65 + n)}" for n in range(2 * SAID_MIN)),
    ],
    ids=["one name", "few", "one speaks once", "no turns", "half without", "all differ"],
)
def test_what_is_no_transcript(turns: tuple[str, ...]) -> None:
    world = World()
    if "see https" in turns:
        said = slots_of(
            world.fact(CHAT, "said", f"{name}{':' if name in TURNS else '://'} this is {n}")
            for n, name in enumerate(turns)
        )
    else:
        said = say(world, *turns)
    assert set(speaker_names(at(world), said)) == {CHAT}


def test_a_text_without_a_name_is_said_by_the_chat() -> None:
    world = World()
    said = say(world, *TURNS, *TURNS)
    alone = world.fact(CHAT, "said", "and this is all of it", source=IMPORTER)
    assert speaker_names(at(world), slots_of([*said, alone]))[-2:] == ["bob", CHAT]


def test_a_question_names_the_speaker() -> None:
    world = World()
    say(world, *("Ann", "Bob Ross") * 5)
    assert without_speakers(at(world, "What does Ann cook?")).names == ("Ann",)
    assert without_speakers(at(world, "What does Ross cook?")).names == ("Ross",)
    assert without_speakers(at(world, "What does Cyd cook?")).names == ()


def test_an_assistant_is_a_machine() -> None:
    world = World()
    said = say(world, *("User", "Assistant") * SAID_MIN)
    own = world.fact(user("ann"), "said", "Assistant: this is alone", source=IMPORTER)
    assert machine_said(at(world), slots_of([*said, own])).tolist() == [False, True] * 3 + [False]


def by_relations(world: World, *relations: str) -> Any:
    return slots_of(
        world.fact(CHAT, relation, f"this is message {n}", source=IMPORTER)
        for n, relation in enumerate(relations * SAID_MIN)
    )


def test_a_relation_says_that_an_assistant_speaks() -> None:
    world = World()
    said = by_relations(world, "user_said", "assistant_said")
    found = at(world)
    assert machine_said(found, said).tolist() == [False, True] * SAID_MIN
    assert speaker_names(found, said) == [CHAT, "assistant_said"] * SAID_MIN
    assert talk_of(found, said[0]) == said.tolist()


@pytest.mark.parametrize("relations", [("assistant_said",) * 2, ("noted", "said")])
def test_other_relations_are_no_speakers(relations: tuple[str, ...]) -> None:
    world = World()
    said = by_relations(world, *relations)
    assert set(speaker_names(at(world), said)) == {CHAT}


def test_an_attribute_about_a_tool_is_not_said_by_it() -> None:
    world = World()
    said = [
        world.fact(CHAT, relation, text)
        for n in range(SAID_MIN)
        for relation, text in (("uses_tool", f"hammer {n}"), ("noted", f"this is message {n}"))
    ]
    assert not machine_said(at(world), slots_of(said)).any()


def test_a_name_by_which_one_calls_the_other() -> None:
    world = World()
    for n in range(5):
        world.fact(CHAT, "said", f"Emi: I ski in week {n}", source=IMPORTER)
        world.fact(CHAT, "said", f"Elise: Hi Kate! Week {n} is mine", source=IMPORTER)
    found = at(world, "Where does Kate ski?")
    assert read_as(found, SAID_MIN) == {"Kate": "Emi"}


def test_a_name_is_known_while_an_erasure_is_published() -> None:
    """It numbers labels again; what a recall kept meanwhile still counts then."""
    world = World()
    for n in range(5):
        world.fact(CHAT, "said", f"Emi: I ski in week {n}", source=IMPORTER)
        world.fact(CHAT, "said", f"Elise: Hi Kate! Week {n} is mine", source=IMPORTER)
    for _ in range(2):
        found = at(world, "Where does Kate ski?")
        assert read_as(found, SAID_MIN) == {"Kate": "Emi"}
        world.image._drop_text_caches()  # pyright: ignore[reportPrivateUsage]


def test_a_transcript_is_judged_as_of_the_moment() -> None:
    world = World()
    said = say(world, *TURNS[:-1])
    before = world.moment()
    say(world, TURNS[-1])
    assert set(speaker_names(at(world, moment=before), said)) == {CHAT}
    assert set(speaker_names(at(world), said)) == {"ann", "bob"}


def test_an_erased_name_is_forgotten() -> None:
    world = World()
    said = say(world, *TURNS, "Cyd")
    assert speaker_names(at(world), said)[-1] == "cyd"
    world.erase(int(said[-1]))
    found = at(world)
    assert speaker_names(found, said[:-1]) == ["ann", "bob"] * SAID_MIN
    assert found.view.spoken.names.since(0) == ["ann", "bob"]


HIDDEN = st.lists(st.tuples(st.sampled_from(["Ann", "Bob", "Cyd"]), st.booleans()), max_size=20)


@given(HIDDEN)
@example([(name, n % 3 == 2) for n, name in enumerate(("Ann", "Bob", "Cyd") * SAID_MIN)])
def test_unreadable_facts_make_no_transcript(turns: list[tuple[str, bool]]) -> None:
    whole, visible = World(), World()
    for n, (name, hidden) in enumerate(turns):
        text = f"{name}: this is {n}"
        whole.fact(CHAT, "said", text, scope="team" if hidden else "company", source=IMPORTER)
        if not hidden:
            visible.fact(CHAT, "said", text, source=IMPORTER)
    kept = slots_of(slot for slot, (_, hidden) in enumerate(turns) if not hidden)
    assert speaker_names(at(whole), kept) == speaker_names(at(visible), slots_of(range(len(kept))))
    for word in ("Ann", "Bob", "Cyd"):
        assert (
            without_speakers(at(whole, f"What about {word}?")).names
            == without_speakers(at(visible, f"What about {word}?")).names
        )


STATED = st.tuples(st.sampled_from(["Ann", "Bob", ""]), st.sampled_from(["s:a", "s:b"]))


@given(st.lists(STATED, min_size=5, max_size=24))
@example([(name, "s:a") for name in TURNS])
@example([(name, source) for source in ("s:a", "s:b") for name in TURNS])
def test_a_transcript_is_judged_by_its_definition(stated: list[tuple[str, str]]) -> None:
    """No sample decides: up to 16 facts, all are in it; more, the first 16."""
    world = World()
    for n, (name, source) in enumerate(stated):
        text = f"this is {n} of it"
        world.fact(CHAT, "said", f"{name}: {text}" if name else text, source=source)
    labels = [name for name, _ in stated]
    sources = [source for _, source in stated]
    first = sum(map(bool, labels[:16]))
    often = [n for name, n in Counter(labels).items() if name and n >= SAID_MIN]
    is_one = (
        first >= 0.8 * min(16, len(labels))
        and len(often) > 1
        and sum(often) >= 0.8 * len(labels)
        and changes(labels) > max(SAID_MIN, 2 * changes(sources))
    )
    several = sum(n >= SAID_MIN for n in Counter(sources).values()) > 1
    found = at(world)
    (judged,) = judge(found, slots_of([found.view.entities.numbered(CHAT)])).tolist()
    assert (judged in (TRANSCRIPT, SESSIONS)) == is_one
    assert (judged == SESSIONS) == (is_one and several)


def test_judging_many_chats_takes_no_more_steps_than_few() -> None:
    """Each write has all of them judged again."""

    def steps(count: int) -> int:
        world = World()
        for n in range(count):
            say(world, *TURNS, chat=f"chat:{n}")
        found = at(world)
        asked = np.arange(count, dtype=np.int32)
        assert set(judge(found, asked).tolist()) == {TRANSCRIPT}  # reads each text
        steps: list[str] = []
        sys.setprofile(lambda _frame, event, _arg: steps.append(event))
        judge(found, asked)
        sys.setprofile(None)
        return steps.count("call")

    assert steps(40) == steps(4)


def changes(values: list[str]) -> int:
    return sum(one != other for one, other in pairwise(values))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Ann: see you", "ann"),
        ("  Ann-Marie O\u2019Neil: see you", "ann-marie o\u2019neil"),
        ("Dr. Smith: see you: soon", "dr. smith"),
        ("\u5f20\u4f1f: \u4f60\u597d", "\u5f20\u4f1f"),
        ("\u5f20\u4f1f\uff1a\u4f60\u597d", "\u5f20\u4f1f"),
        ("USER:\nsee you", "user"),
        ("see you", None),
        ("Ann:", None),
        ("Ann: ", None),
        ("https://ann.example", None),
        ("12: noon", None),
        ("at 9:00 we met", None),
        (f"{'a' * 41}: too long", None),
        ("", None),
    ],
)
def test_the_name_that_begins_a_text(text: str, label: str | None) -> None:
    spoken = SpokenTexts([text])
    (number,) = spoken.labels(slots_of([0])).tolist()
    assert (None if number == NONE else spoken.names.text(number)) == label


SENTENCES = [f"this is {n} of all" for n in range(SAID_MIN)]
SESSIONS_SAID = [(f"s:{s}", text) for s in range(2) for text in SENTENCES]


@pytest.mark.parametrize(
    ("turns", "asked", "expected"),
    [
        (SESSIONS_SAID, {"s:0", "s:1"}, True),
        ([*SESSIONS_SAID, ("s:9", "this is it")], {"s:0", "s:1"}, True),
        ([*SESSIONS_SAID, ("s:9", "this is it")], {"s:0", "s:9"}, False),
        ([(f"s:{s}", f"x{n}") for s in range(2) for n in range(SAID_MIN)], {"s:0", "s:1"}, False),
    ],
    ids=["sessions", "another is short", "one is short", "no sentences"],
)
def test_a_discussion_is_what_each_source_says_much_about(
    turns: list[tuple[str, str]], asked: set[str], expected: bool
) -> None:
    world = World()
    slots = [world.fact(user("ann"), "chat:turn", text, source=source) for source, text in turns]
    found = at(world)
    chosen = slots_of(slot for slot in slots if turns[slot][0] in asked)
    discussed = are_discussed(found, found.view.key[chosen], found.view.voices(chosen))
    assert discussed.tolist() == [expected] * len(chosen)


def test_turns_under_an_undeclared_relation_are_no_variations() -> None:
    world = World()
    said = [
        world.fact(user("ann"), "chat:turn", f"I bake bread of kind {n}", source=f"s:{n % 2}")
        for n in range(4 * SAID_MIN)
    ]
    found = at(world, "Which bread?")
    slots = slots_of(said)
    order, firsts = repeats_last(found, slots, np.ones(len(slots), dtype=np.bool_), slots)
    assert order.tolist() == said
    assert firsts == len(said)
