from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.speakers import are_said
from engramlog.projections.recall.conversation.subject_names import HOLDERS_MAX
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages import lexical, subject
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from tests.worlds.counted_work import work
from tests.worlds.recall_world import NOW_US, World, reader, survey_of, user


def found(
    world: World,
    query: str,
    *scopes: str,
    context: ConversationContext | None = None,
    **more: Any,
) -> Candidates:
    """What the stage finds after the words of the question."""
    at = survey_of(world, query, *scopes, context=context)
    words = lexical.run(at, lexical.Parameters(), {})
    return subject.run(at, subject.Parameters(**more), {"lexical": words})


def table() -> World:
    """A register with numbers for names, as a database exports it."""
    world = World()
    world.fact(user("g585"), "is:called", "Jimmy Gomez")  # 0
    world.fact(user("g585"), "is:born", "1974-11-25")  # 1
    world.fact(user("z17"), "is:called", "Lee Zeldin")  # 2
    world.fact(user("z17"), "is:born", "1980-01-30")  # 3
    world.ref(user("bill-9"), "is:proposed-by", user("g585"))  # 4
    return world


def test_a_value_names_the_entity_of_its_other_facts() -> None:
    candidates = found(table(), "When was Jimmy Gomez born?")
    assert candidates.slots.tolist() == [0, 1, 4]
    assert candidates.scores.tolist() == [0.25, 1.0, 1.0]  # the first says what the question does
    assert candidates.why(candidates.slots) == [
        [f"subject: about {user('g585')}"],
        [f"subject: about {user('g585')}"],
        [f"subject: points at {user('g585')}"],
    ]


def test_only_whole_words_and_whole_values_name_an_entity() -> None:
    for query in ("When was jimmy born?", "When was Gomezine born?", "jimmy's gomez born?"):
        with pytest.raises(StageDisabled):
            found(table(), query)
    world = table()
    world.fact(user("x1"), "is:called", "the of")  # only stop-words
    world.fact(user("x1"), "is:born", "1990-01-01")
    with pytest.raises(StageDisabled):
        found(world, "the of born")


def test_a_word_of_a_name_stands_for_it() -> None:
    for query in ("When was Jimmy born?", "When was Gomez born?", "Jimmy's bill, Gomez' bill"):
        assert found(table(), query).slots.tolist() == [0, 1, 4]
    world = table()
    for number, value in enumerate(("Jimmy gave a speech", "Jimmy G. H. I. Jones")):
        world.fact(user(f"n{number}"), "is:noted", value)  # a sentence, too many words
    assert found(world, "When was Jimmy born?").slots.tolist() == [0, 1, 4]
    with pytest.raises(StageDisabled):  # a small letter is no name
        found(world, "When was jimmy born?")


def test_a_word_of_the_names_of_many_things_stands_for_none() -> None:
    world = table()
    for number in range(HOLDERS_MAX):
        world.fact(user(f"n{number}"), "is:called", f"Jimmy Jones {'ABC'[number]}", scope="team")
    assert found(world, "When was Jimmy born?").slots.tolist() == [0, 1, 4]
    with pytest.raises(StageDisabled):
        found(world, "When was Jimmy born?", "company", "team")


def test_a_display_name_names_its_entity_and_a_reference_to_it_counts() -> None:
    world = World()
    world.fact(user("apollo-8"), "is:called", "Apollo 8")  # 0
    world.fact(user("apollo-8"), "is:launched", "1968-12-21")  # 1
    world.ref(user("anders"), "was:aboard", user("apollo-8"))  # 2
    world.fact(user("apollo-9"), "is:launched", "1969-03-03")  # 3
    candidates = found(world, "Who flew on Apollo 8?")
    assert candidates.slots.tolist() == [0, 1, 2]
    assert candidates.scores.tolist() == [0.25, 1.0, 1.0]


def test_a_value_of_more_entities_names_none_of_them() -> None:
    world = table()
    world.fact(user("a1"), "is:called", "Jimmy Gomez")
    world.fact(user("a1"), "is:born", "1990-01-01")
    assert found(world, "When was Jimmy Gomez born?").slots.tolist() == [0, 1, 4, 5, 6]
    with pytest.raises(StageDisabled):
        found(world, "When was Jimmy Gomez born?", holders_max=1)


def test_what_the_question_says_already_does_not_answer_first() -> None:
    world = World()
    for number in range(8):
        world.fact(user(f"g{number}"), "is:called", f"{'ABCDEFGH'[number]}dam Gomez")
        world.fact(user(f"g{number}"), "has:birthday", f"197{number}-11-25")
    answer = ask(world, "What is the birthday of Adam Gomez?", world.moment())
    assert [each.row.value_v for each in answer.results[:2]] == ["1970-11-25", "Adam Gomez"]


def test_the_fact_with_the_value_may_be_the_answer_itself() -> None:
    world = World()
    world.fact(user("bo"), "has:role", "CFO")  # 0
    world.fact(user("bo"), "has:desk", "12")  # 1
    answer = ask(world, "Who is the CFO?", world.moment())
    assert [each.row.value_v for each in answer.results] == ["CFO", "12"]
    assert found(world, "Who is the CFO?").scores.tolist() == [1.0, 1.0]
    assert found(world, "Which desk has the CFO?").scores.tolist() == [0.25, 1.0]


def calls() -> World:
    world = World()
    world.fact(user("ops"), "ran", '{"tool": "http", "url": "/v2/INV-20931", "status": 403}')  # 0
    world.fact(user("ops"), "ran", '{"tool": "http", "url": "/v2/INV-20932", "status": 200}')  # 1
    world.fact(user("ops"), "ran", "invoice 20931 has no INV yet")  # 2
    world.fact(user("ops"), "ran", "edit src/main.rs, then make")  # 3
    return world


def test_facts_that_hold_a_code_of_the_question_count_twice_what_it_names() -> None:
    candidates = found(calls(), "why was inv-20931 refused?")
    assert (candidates.slots.tolist(), candidates.scores.tolist()) == ([0], [2.0])
    assert candidates.why(candidates.slots) == [["subject: holds inv-20931"]]
    candidates = found(calls(), "did Ops edit src/main.rs?")
    assert dict(zip(candidates.slots.tolist(), candidates.scores.tolist(), strict=True)) == {
        0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0,
    }  # fmt: skip


def test_a_code_that_many_facts_hold_or_that_is_a_name_says_nothing_more() -> None:
    world = calls()
    for n in range(5):
        world.fact(user(f"u{n}"), "paid", "INV-20931")
    with pytest.raises(StageDisabled):
        found(world, "why was INV-20931 refused?")
    world = World()
    world.fact(user("sup-1043"), "has:status", "open")  # 0
    world.fact(user("ann"), "has:note", "SUP-1043 is urgent")  # 1
    candidates = found(world, "status of SUP-1043")
    assert (candidates.slots.tolist(), candidates.scores.tolist()) == ([0], [1.0])


def test_unreadable_facts_hold_no_codes() -> None:
    world = calls()
    for n in range(5):
        world.fact(user(f"u{n}"), "paid", "INV-20931", scope="team")
    assert found(world, "why was INV-20931 refused?").slots.tolist() == [0]


def test_a_long_code_is_looked_up_by_its_last_words() -> None:
    world = World()
    path = "/".join(f"part{n}" for n in range(40))
    world.fact(user("ops"), "ran", f"rm {path}/a.log")  # 0
    world.fact(user("ops"), "ran", f"rm {path}/b.log")  # 1
    assert codes_of(world, f"who removed {path}/b.log") == {f"{path}/b.log": [1]}

    def work_of(length: int) -> int:
        query = f"who ran {'rm/part1/log/' * length}b"
        return work(world.view(), lambda _: codes_of(world, query))

    work_of(1)  # what is made once is made
    assert work_of(1000) < 2 * work_of(100)


def codes_of(world: World, query: str) -> dict[str, list[int]]:
    found = subject._holding_codes(survey_of(world, query), [])
    return {code: slots.tolist() for code, slots in found.items()}


def test_what_an_entity_says_is_not_about_it() -> None:
    world = World()
    for n in range(6):
        world.fact(user("ann"), "says", f"And then we went to the lake number {n}.", source="talk")
    with pytest.raises(StageDisabled):
        found(world, "Where did Ann go?")
    for n in range(6):  # many values, but no sentences
        world.fact(user("ann"), "is:member", f"committee {n}", source="table")
    world.fact(user("ann"), "says", "I will be back.", source="another talk")
    assert found(world, "On which committee is Ann?").slots.tolist() == [6, 7, 8, 9, 10, 11]


def service_and_channel(messages: int) -> World:
    """Two records of a service, and a channel in which people speak of it."""
    world = World()
    world.fact(user("search"), "has:owner", "team discovery", source="table")  # 0
    world.fact(user("search"), "has:port", "8090", source="table")  # 1
    for n in range(messages):
        world.fact(user("omar"), "says", f"Search was slow for us, it is the {n}.", source="talk")
    world.fact(user("omar"), "says", "I am sorry that it took me an hour.", source="talk")
    return world


def test_what_others_say_of_a_named_thing_counts_as_its_records_do() -> None:
    context = ConversationContext()
    candidates = found(service_and_channel(3), "Why was Search slow?", context=context)
    assert candidates.slots.tolist() == [0, 1, 2, 3, 4]
    assert set(candidates.scores.tolist()) == {1.0}
    assert candidates.why(candidates.slots)[1:3] == [
        [f"subject: about {user('search')}"],
        ["subject: with the name Search"],
    ]


def test_a_thing_of_which_much_is_said_and_talk_without_context_lift_no_speech() -> None:
    much = service_and_channel(subject.SAID_WITH_NAME_MAX + 1)
    assert found(
        much, "Why was Search slow?", context=ConversationContext()
    ).slots.tolist() == [0, 1]  # fmt: skip
    assert found(service_and_channel(3), "Why was Search slow?").slots.tolist() == [0, 1]


def test_unreadable_speech_neither_counts_nor_makes_it_much() -> None:
    world = service_and_channel(3)
    for n in range(subject.SAID_WITH_NAME_MAX):
        text = f"Search was secret, and it is the {n}."
        world.fact(user("eve"), "says", text, source="board", scope="team")
    context = ConversationContext()
    seen = found(world, "Why was Search slow?", context=context)
    assert seen.slots.tolist() == [0, 1, 2, 3, 4]
    asked = found(world, "Why was Search slow?", "company", "team", context=context)
    assert asked.slots.tolist() == [0, 1]


def test_a_name_in_many_conversations_costs_about_what_it_costs_in_some() -> None:
    few, many = (naming_work(talks) for talks in (50, 400))
    assert many < 2 * few


def naming_work(talks: int) -> int:
    """Work of finding what is said with a name in so many conversations."""
    world = service_and_channel(0)
    for n in range(5 * talks):
        text = f"Search was slow for us, it is the {n}."
        world.fact(user(f"u{n % talks}"), "says", text, source=f"talk-{n % talks}")
    survey = survey_of(world, "Why was Search slow?", context=ConversationContext())
    about = np.empty(0, dtype=np.int32)
    return work(survey.view, lambda _: subject._said_with_names(survey, about))


def test_twice_the_relations_of_an_entity_are_about_twice_the_work() -> None:
    once, twice = (said_work(relations) for relations in (50, 100))
    assert twice < 2.5 * once


def said_work(relations: int) -> int:
    """Work of judging which of an entity's facts are speech; each relation has five."""
    world = World()
    for n in range(5 * relations):
        world.fact(user("ann"), f"is:r{n % relations}", f"note {n}", source="table")
    survey = survey_of(world, "Ann?")
    slots = np.arange(survey.view.count, dtype=np.int32)
    named = survey.view.entity[:1].copy()
    return work(survey.view, lambda _: are_said(survey, named, slots))


def test_unreadable_facts_name_nothing_and_are_not_found() -> None:
    world = table()
    world.fact(user("z17"), "is:also-called", "Jimmy Gomez", scope="team")  # 5
    world.fact(user("g585"), "is:ill", "yes", scope="team")  # 6
    query = "When was Jimmy Gomez born?"
    assert found(world, query).slots.tolist() == found(table(), query).slots.tolist()
    assert found(world, query, "company", "team").slots.tolist() == [0, 1, 2, 3, 4, 5, 6]


def ask(world: World, query: str, moment: Moment) -> RecallAnswer:
    return recall(
        world.view(), world.rows, RecallRequest(query=query, explain=True),
        load_profile("default"), reader(), moment, stopwatch=lambda: 0.0,
    )  # fmt: skip


def test_an_answer_shows_what_the_stage_gave() -> None:
    answer = ask(table(), "When was Jimmy Gomez born?", table().moment())
    born = next(each for each in answer.results if each.row.value_v == "1974-11-25")
    assert born.explain is not None
    assert born.explain["stages"]["subject"]["normalised"] == 1.0
    assert born.why[-1] == f"subject: about {user('g585')}"


entities = st.sampled_from(["g585", "z17", "jimmy-gomez"])
values = st.sampled_from(["Jimmy Gomez", "1974", "I was in the house.", "born"])


@given(st.lists(st.tuples(entities, values, st.booleans()), min_size=2, max_size=12), st.data())
@settings(deadline=None, max_examples=25)
def test_an_answer_about_the_past_or_without_rights_knows_no_more(
    facts: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(facts)))
    past, present, hidden = World(), World(), World()
    for n, (entity, value, points) in enumerate(facts):
        for world in (past, present, hidden):
            if n >= cut and world is past:
                continue
            scope = "team" if n >= cut and world is hidden else "company"
            if points:
                world.ref(user(f"bill-{n}"), "is:by", user(entity), scope=scope)
            else:
                world.fact(user(entity), "is", value, scope=scope)
    present.retract(0)
    moment = Moment(cut, NOW_US)
    shown = [
        [(each.row.id, each.score, each.explain) for each in ask(world, "Jimmy Gomez", at).results]
        for world, at in ((past, moment), (present, moment), (hidden, Moment(len(facts), NOW_US)))
    ]
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("王小明", "请问王小明住在哪个城市？"),
        ("山田花子", "山田花子さんの住まいはどこですか。"),
        ("김민수", "김민수는 어디에 사나요?"),
        ("สมชาย", "ตอนนี้สมชายอยู่ที่ไหน"),
        ("ليلى", "أين تسكن وليلى؟"),
        ("ольга", "В каком городе квартира Ольги?"),
        ("ελένη", "Πού είναι το σπίτι της Ελένης;"),
    ],
)
def test_a_sentence_names_an_entity_without_spaces_or_with_an_ending(
    name: str, question: str
) -> None:
    world = World()
    world.fact(user(name), "is:born", "1990-01-01")  # 0
    world.fact(user("other"), "is:born", "1980-01-30")  # 1
    assert found(world, question).slots.tolist() == [0]


def test_one_letter_of_a_longer_word_names_nothing() -> None:
    world = World()
    world.fact(user("王"), "is:born", "1990-01-01")
    world.fact(user("x1"), "is:called", "王小明")
    with pytest.raises(StageDisabled):
        found(world, "国王住在哪里？")
