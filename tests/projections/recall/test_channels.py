"""Where sources speak in turns about an entity, it is a conversation, and they are its speakers."""

import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.recall.conversation.called_names import read_as
from engramlog.projections.recall.conversation.channels import (
    machine_said,
    said_by,
    speaker_name,
    speakers,
    talks,
)
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import AROUND, conversations
from engramlog.projections.recall.conversation.layouts import CHANNEL as CHANNEL_LAYOUT
from engramlog.projections.recall.conversation.layouts import SAID_MIN, judge
from engramlog.projections.recall.conversation.speakers import without_speakers
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages import lexical
from tests.worlds.recall_world import World, speaker_names, survey_of, user

CONTEXT = ConversationContext(before=(0.5,), after=(0.25,), session=0.25)
CHANNEL = "chat:kitchen"


def say(world: World, *turns: str, channel: str = CHANNEL, **more: Any) -> list[int]:
    """Messages in a channel, one of each of these sources after the other."""
    return [
        world.fact(
            channel, "said", f"this is message {n} of {channel}", source=f"user:{name}", **more
        )
        for n, name in enumerate(turns)
    ]


def meet(world: World, session: str, *turns: str, **more: Any) -> list[int]:
    """The same as most clients store it: the speaker is the entity, the session the source."""
    return [
        world.fact(user(name), "said", f"this is message {n} of {session}", source=session, **more)
        for n, name in enumerate(turns)
    ]


def at(world: World, *scopes: str, query: str = "", **more: Any) -> Survey:
    return survey_of(world, query, *scopes, context=CONTEXT, **more)


def slots_of(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int32)


TURNS = ("ann", "bob") * SAID_MIN


def test_a_channel_is_one_conversation_of_its_sources() -> None:
    world = World()
    said = say(world, *TURNS)
    found = at(world)
    assert len(set(talks(found, slots_of(*said)).tolist())) == 1
    assert speaker_names(found, said) == [f"user:{name}" for name in TURNS]
    talk = conversations(found, CONTEXT, slots_of(said[0]))
    assert talk.members.tolist() == said


@pytest.mark.parametrize("gone", ["user:aaa", "user:zzz"])
def test_an_entity_whose_facts_are_gone_is_no_channel(gone: str) -> None:
    """As after an erasure between two looks at the memory image."""
    world = World()
    if gone == "user:aaa":
        world.ref("user:other", "knows", gone)
    say(world, *TURNS)
    if gone == "user:zzz":
        world.ref("user:other", "knows", gone)
    found = at(world)
    numbers = [found.view.entities.number(name) for name in (CHANNEL, gone)]
    asked = np.array(sorted(each for each in numbers if each is not None), dtype=np.int32)
    assert len(asked) == 2
    assert (judge(found, asked) == CHANNEL_LAYOUT).tolist() == (asked == numbers[0]).tolist()


def test_sessions_that_are_sources_stay_conversations() -> None:
    world = World()
    sessions = [meet(world, f"session:{n}", *TURNS) for n in range(4)]
    found = at(world)
    for said in sessions:
        assert conversations(found, CONTEXT, slots_of(said[0])).members.tolist() == said
    assert set(speaker_names(found, sessions[0])) == {user("ann"), user("bob")}


@pytest.mark.parametrize(
    "turns",
    [
        ("ann", "bob") * (SAID_MIN - 1),
        ("ann",) * 2 * SAID_MIN,
        ("ann", *("bob",) * 2 * SAID_MIN),
    ],
    ids=["few", "one speaker", "one speaks once"],
)
def test_what_is_no_channel(turns: tuple[str, ...]) -> None:
    world = World()
    said = say(world, *turns)
    assert set(speaker_names(at(world), said)) == {CHANNEL}


def test_sources_that_report_on_many_things_make_no_channel() -> None:
    world = World()
    for n in range(3 * SAID_MIN):
        for name in ("station-a", "station-b"):
            for city in ("graz", "linz", "wels"):
                world.fact(f"city:{city}", f"weather:{n}", "sunny", source=f"agent:{name}")
    found = at(world)
    every = np.arange(len(world.view().entity), dtype=np.int32)
    assert {speaker_name(found, each) for each in speakers(found, every).tolist()} == {
        "city:graz",
        "city:linz",
        "city:wels",
    }


def test_attributes_from_several_sources_make_no_channel() -> None:
    world = World()
    slots = [
        world.fact(CHANNEL, relation, text, source=f"user:{name}")
        for n, name in enumerate(TURNS)
        for relation, text in ((f"memory:part{n}", "it is the one of us"), ("memory:code", f"x{n}"))
    ]
    assert set(speaker_names(at(world), slots)) == {CHANNEL}


def test_two_channels_of_the_same_people_are_two_conversations() -> None:
    world = World()
    kitchen, garden = say(world, *TURNS), say(world, *TURNS, channel="chat:garden")
    found = at(world)
    assert conversations(found, CONTEXT, slots_of(kitchen[0])).members.tolist() == kitchen
    assert conversations(found, CONTEXT, slots_of(garden[0])).members.tolist() == garden


def test_a_question_names_the_speaker_of_a_channel() -> None:
    world = World()
    said = say(world, *TURNS)
    query = "What does Ann cook?"
    found = at(world, query=query)
    assert said_by(found, "Ann").tolist() == said[::2]
    assert without_speakers(found).names == ("Ann",)
    assert said_by(found, "Cyd").tolist() == []


def test_what_a_speaker_says_is_found_by_the_name() -> None:
    world = World()
    said = [world.fact(CHANNEL, "said", "I cook", source=f"user:{name}") for name in TURNS]
    found = survey_of(world, "What does Bob cook?", context=ConversationContext())
    hits = lexical.run(found, lexical.Parameters(), {})
    assert hits.slots.tolist() == said
    assert hits.scores[1::2].min() > hits.scores[::2].max()


def test_a_machine_that_speaks_in_a_channel_is_one() -> None:
    world = World()
    said = say(world, *("ann", "assistant") * SAID_MIN)
    own = world.fact(user("assistant"), "said", "alone", source="user:ann")
    assert machine_said(at(world), slots_of(*said, own)).tolist() == [False, True] * 3 + [True]


def test_a_name_by_which_one_calls_the_other_in_a_channel() -> None:
    world = World()
    for n in range(SAID_MIN):
        world.fact(CHANNEL, "said", f"I ski in week {n}", source="user:emi")
        world.fact(CHANNEL, "said", f"Hi Kate! Week {n} is mine", source="user:elise")
    found = at(world, query="Where does Kate ski?")
    assert read_as(found, SAID_MIN) == {"Kate": "Emi"}


def test_of_a_long_channel_what_is_near_counts() -> None:
    world = World()
    said = say(world, *("ann", "bob") * AROUND)
    short = ConversationContext(before=(0.5,), facts_max=len(said) - 1)
    found = survey_of(world, "", context=short)
    near = conversations(found, short, slots_of(said[1])).members.tolist()
    assert near == said[: AROUND + 2]


HIDDEN = st.lists(st.tuples(st.sampled_from(["ann", "bob", "cyd"]), st.booleans()), max_size=20)


@given(HIDDEN)
def test_unreadable_facts_make_no_channel(turns: list[tuple[str, bool]]) -> None:
    whole, visible = World(), World()
    for n, (name, hidden) in enumerate(turns):
        fields: dict[str, Any] = {"source": f"user:{name}"}
        whole.fact(CHANNEL, "said", f"this is {n}", scope="team" if hidden else "company", **fields)
        if not hidden:
            visible.fact(CHANNEL, "said", f"this is {n}", **fields)
    kept = [slot for slot, (_, hidden) in enumerate(turns) if not hidden]
    assert speaker_names(at(whole), kept) == speaker_names(at(visible), list(range(len(kept))))
    for word in ("Ann", "Bob", "Cyd"):
        seen = said_by(at(visible), word).tolist()
        assert said_by(at(whole), word).tolist() == [kept[slot] for slot in seen]


def test_a_channel_is_judged_as_of_the_moment() -> None:
    world = World()
    said = say(world, *TURNS[:-1])
    before = world.moment()
    say(world, TURNS[-1])
    assert set(speaker_names(at(world, moment=before), said)) == {CHANNEL}
    assert set(speaker_names(at(world), said)) == {"user:ann", "user:bob"}


ROOMS, TOPICS = ("room:a", "room:b", "room:c"), ("said", "noted")
STATED = st.tuples(
    st.sampled_from(ROOMS), st.sampled_from(TOPICS), st.sampled_from(["ann", "bob", "cyd"])
)


@given(st.lists(STATED, min_size=6, max_size=40), st.sets(st.integers(0, 39), max_size=6))
def test_entities_judged_together_are_judged_by_the_definition(
    stated: list[tuple[str, str, str]], gone: set[int]
) -> None:
    world = World()
    for n, (room, topic, name) in enumerate(stated):
        world.fact(room, topic, f"this is message {n} of them all", source=f"user:{name}")
    for slot in gone:
        if slot < len(stated):
            world.retract(slot)
    there = [fact for slot, fact in enumerate(stated) if slot not in gone]

    def expected(room: str) -> bool:
        topics = Counter(topic for each, topic, _ in there if each == room)
        if not topics:
            return False
        most = topics.most_common(1)[0][0]  # of equal ones the first
        own = [n for n, fact in enumerate(there) if fact[:2] == (room, most)]
        said = [there[n][2] for n in own]
        often = [name for name, count in Counter(said).items() if count >= SAID_MIN]
        moves = sum(
            changes([each for each, _, by in there[own[0] : own[-1] + 1] if by == name])
            for name in often
        )
        return len(often) > 1 and moves < changes(said)

    found = at(world)
    rooms = found.view.entities
    numbers = np.arange(len(rooms), dtype=np.int32)
    assert (judge(found, numbers) == CHANNEL_LAYOUT).tolist() == [
        expected(rooms.text(n)) for n in numbers.tolist()
    ]


def changes(values: list[str]) -> int:
    return sum(one != other for one, other in pairwise(values))


def test_judging_many_entities_takes_no_more_steps_than_few() -> None:
    """Each write has all of them judged again."""

    def steps(count: int) -> int:
        world = World()
        for n in range(2 * count * SAID_MIN):
            room = f"room:{n % count}"
            world.fact(room, f"note:{n // count}", "this is it", source=f"agent:{n % 5}")
        found = at(world)
        asked = np.arange(len(found.view.entities), dtype=np.int32)
        steps: list[str] = []
        sys.setprofile(lambda _frame, event, _arg: steps.append(event))
        judge(found, asked)
        sys.setprofile(None)
        return steps.count("call")

    assert steps(80) == steps(8)
