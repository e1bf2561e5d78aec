import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.recall.conversation import conversations as module
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import (
    conversations,
    spread,
    surroundings,
)
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import ProfileError, load_profile, parse_profile
from engramlog.projections.recall.ranking.fusion import Fused
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.recall.stages import lexical
from tests.worlds.recall_world import NOW_US, SOURCE, World, reader, user

pytestmark = pytest.mark.usefixtures("every_text_is_told")

TALK = ConversationContext(before=(0.5, 0.25), after=(0.25,), session=0.5)


def surveyed(
    world: World, query: str = "", *scopes: str, context: ConversationContext = TALK, **more: Any
) -> Survey:
    return survey(
        world.view(),
        RecallRequest(query=query),
        reader(*scopes),
        more.pop("moment", None) or world.moment(),
        gate=Gate(effective_min=more.pop("effective_min", 0.0), contradicted=True),
        depth=1,
        context=context,
    )


def neighbours(world: World, slot: int, *scopes: str, **more: Any) -> tuple[int, int]:
    """The facts just before and just after one, -1 if there is none."""
    at, slots = surveyed(world, "", *scopes, **more), np.array([slot], dtype=np.int32)
    talk = conversations(at, at.context or TALK, slots)
    if slot not in talk.members:
        return -1, -1
    place, _ = talk.places(slots)
    before, after = (
        int(talk.at(place + step)[0]) if talk.near(place, step)[0] else -1 for step in (-1, 1)
    )
    return before, after


def say(world: World, text: str, **more: Any) -> int:
    return world.fact(user("ann"), f"said:{len(world.view().entity)}", text, **more)


def test_a_conversation_follows_the_clock_with_expired_facts_too() -> None:
    world = World()
    end = format_instant(NOW_US + 1_000_000)
    slots = [
        world.fact(user("ann"), "said:1", "one", valid_until=end),
        world.fact(user("ann"), "said:1", "other"),
        world.fact(user("ann"), "said:2", "rest"),
    ]

    def members(seconds: int) -> list[int]:
        at = survey(
            world.view(),
            RecallRequest(query="", filters=Filters(expired=True)),
            reader(),
            Moment(world.position, NOW_US + seconds * 1_000_000),
            gate=Gate(effective_min=0.0, contradicted=False),
            depth=1,
        )
        talk = conversations(at, TALK, np.array(slots, dtype=np.int32))
        return talk.members.tolist()

    assert members(0) == [slots[2]]
    assert members(2) == slots


def test_few_sets_of_conversations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONVERSATIONS_KEPT_MAX", 2)
    world = World()
    facts = [say(world, text, source=f"agent:{text}") for text in "abcd"]
    at = surveyed(world)
    of = [conversations(at, TALK, np.array([fact], dtype=np.int32)) for fact in facts]
    again = [conversations(at, TALK, np.array([fact], dtype=np.int32)) for fact in reversed(facts)]
    kept = [one is other for one, other in zip(reversed(of), again, strict=True)]
    assert kept == [True, True, False, False]
    assert [each.members.tolist() for each in reversed(again)] == [[fact] for fact in facts]


def test_neighbours_are_the_facts_of_the_same_source_in_order() -> None:
    world = World()
    first = say(world, "a")
    say(world, "b", source="agent:other")
    second, third = say(world, "c"), say(world, "d")
    assert neighbours(world, first) == (-1, second)
    assert neighbours(world, second) == (first, third)
    assert neighbours(world, third) == (second, -1)


def test_a_hidden_fact_is_not_between_two_facts() -> None:
    world = World()
    first = say(world, "a")
    hidden = say(world, "b", scope="team")
    second = say(world, "c")
    assert neighbours(world, first) == (-1, second)
    assert neighbours(world, first, "company", "team") == (-1, hidden)


def test_a_retracted_fact_is_not_between_two_facts_but_was_at_its_time() -> None:
    world = World()
    first, gone, second = say(world, "a"), say(world, "b"), say(world, "c")
    before = world.moment()
    world.retract(gone)
    assert neighbours(world, first) == (-1, second)
    assert neighbours(world, first, moment=before) == (-1, gone)


def test_a_later_fact_is_no_neighbour() -> None:
    world = World()
    first = say(world, "a")
    early = world.moment()
    say(world, "b")
    assert neighbours(world, first, moment=early) == (-1, -1)


def test_a_fact_under_the_gate_lends_nothing() -> None:
    world = World()
    first = say(world, "a")
    say(world, "b", confidence=0.1)
    second = say(world, "c")
    assert neighbours(world, first, effective_min=0.2) == (-1, second)


def test_a_long_silence_ends_a_conversation() -> None:
    world = World()
    first = say(world, "a", age_days=2.0)
    second = say(world, "b", age_days=1.0)
    third = say(world, "c", age_days=0.6)
    assert neighbours(world, second) == (
        -1,
        third,
    )  # 24 hours after the first, 9.6 before the third
    day = msgspec.structs.replace(TALK, gap_hours=24)
    assert neighbours(world, second, context=day) == (first, third)


def test_a_source_with_too_many_facts_without_sentences_is_a_feed() -> None:
    world = World()
    say(world, "x1")
    second = say(world, "x2")
    say(world, "x3", scope="team")  # not counted: the caller does not see it
    small = msgspec.structs.replace(TALK, facts_max=2)
    assert neighbours(world, second, context=small) == (0, -1)
    say(world, "x4")
    assert neighbours(world, second, context=small) == (-1, -1)


def test_reports_about_many_things_are_a_feed() -> None:
    world = World()
    slots = [world.fact(user(f"n{n}"), "event", f"this is report {n}") for n in range(20)]
    small = msgspec.structs.replace(TALK, facts_max=10)
    assert neighbours(world, slots[5], context=small) == (-1, -1)
    assert neighbours(world, slots[5]) == (slots[4], slots[6])


def test_unreadable_facts_do_not_tell_whether_a_source_is_a_feed() -> None:
    """Its first facts tell: here the rows of a table, before it says much."""
    feed = msgspec.structs.replace(TALK, facts_max=20)
    for unreadable in (0, 100):
        world = World()
        for n in range(unreadable):
            world.fact(user("ann"), "said", f"it was {n} of them", scope="team")
        for n in range(80):
            world.fact(user(f"row{n}"), "said", f"row {n}")
        said = [world.fact(user("ann"), "said", f"this is {n} of them") for n in range(400)]
        assert neighbours(world, said[-1], context=feed) == (-1, -1)


STATED = st.tuples(
    st.sampled_from(["s:a", "s:b"]), st.sampled_from(["company", "team"]), st.booleans()
)


@given(st.lists(STATED, min_size=3, max_size=50))
def test_facts_of_a_long_source_have_the_same_neighbours(
    stated: list[tuple[str, str, bool]],
) -> None:
    world, days = World(), 100.0
    for n, (source, scope, pause) in enumerate(stated):
        days -= pause
        text = f"this is {n} of them"
        world.fact(user("ann"), f"said:{n}", text, source=source, scope=scope, age_days=days)
    long = msgspec.structs.replace(TALK, facts_max=1)
    for slot, (_, scope, _) in enumerate(stated):
        if scope == "company":
            assert neighbours(world, slot, context=long) == neighbours(world, slot)


def test_surroundings_cover_exactly_the_shares() -> None:
    world = World()
    for text in "abcde":
        say(world, text)
    at, slots = surveyed(world), np.array([2], dtype=np.int32)
    talk = conversations(at, TALK, slots)
    # A fact shares with the one two after it, and with the one two before it.
    assert surroundings(talk, TALK, slots).tolist() == [0, 1, 2, 3, 4]


def test_bm25_counts_shares_of_the_neighbours_words() -> None:
    """Three facts of 4 terms each (user, ann, the relation, the word); k1 1, b 0.5."""
    world = World()
    for word in ("ledger", "atlas", "moves"):
        world.fact(user("ann"), word[0], word)
    context = ConversationContext(before=(0.5,))
    found = lexical.run(
        surveyed(world, "ledger", context=context), lexical.Parameters(k1=1.0, b=0.5), {}
    )
    idf = math.log1p((3 - 1 + 0.5) / (1 + 0.5))
    # The fact that holds the word has 4 terms, the one after it 4 + 0.5 × 4 = 6, on average 5:
    # idf × 1 × 2 / (1 + 0.5 + 0.5 × 4/5) and idf × 0.5 × 2 / (0.5 + 0.5 + 0.5 × 6/5).
    assert found.slots.tolist() == [0, 1]
    assert found.scores.tolist() == pytest.approx([idf * 2 / 1.9, idf / 1.6])
    assert found.why(np.array([0], dtype=np.int32)) == [["lexical: holds ledger"]]
    assert found.why(np.array([1], dtype=np.int32)) == [["lexical: near facts that match"]]


def test_a_long_fact_gets_and_gives_less() -> None:
    """As above, with 2 terms as the bound: facts of 4 terms get a half and give a half."""
    world = World()
    for word in ("ledger", "atlas", "moves"):
        world.fact(user("ann"), word[0], word)
    context = ConversationContext(before=(0.5,), terms=2)
    found = lexical.run(
        surveyed(world, "ledger", context=context), lexical.Parameters(k1=1.0, b=0.5), {}
    )
    idf = math.log1p((3 - 1 + 0.5) / (1 + 0.5))
    # The share is 0.5 × 0.5 × 0.5 = 0.125; lengths are 4 and 4.5, on average 4.25.
    assert found.scores.tolist() == pytest.approx(
        [
            idf * 2 / (1 + 0.5 + 0.5 * 4 / 4.25),
            idf * 0.125 * 2 / (0.125 + 0.5 + 0.5 * 4.5 / 4.25),
        ]
    )


def test_the_session_gets_a_share_of_its_best() -> None:
    world = World()
    say(world, "a")
    say(world, "b")
    say(world, "c", source="agent:other")
    slots = np.arange(3, dtype=np.int32)
    fused = Fused(slots, {}, {}, np.zeros(3, np.int32), np.array([0.2, 0.8, 0.5]))
    found = spread(surveyed(world), TALK, fused)
    # (0.2 + 0.5 × 0.8) / 1.5, (0.8 + 0.5 × 0.8) / 1.5, and (0.5 + 0.5 × 0.5) / 1.5
    assert found.score.tolist() == pytest.approx([0.4, 0.8, 0.5])
    assert found.session is not None
    assert found.session.tolist() == [0.8, 0.8, 0.5]


def ask(world: World, query: str, *scopes: str, moment: Moment | None = None) -> list[Any]:
    profile = load_profile("default")
    answer = recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, explain=True),
        profile,
        reader(*scopes),
        moment or world.moment(),
        stopwatch=lambda: 0.0,
    )
    return [(each.row.id, each.score, each.explain) for each in answer.results]


def test_an_answer_is_found_by_its_questions_words() -> None:
    world = World()
    for n in range(8):
        say(world, f"something else {n}", source=f"agent:{n}")
    say(world, "Which instrument do you play?")
    say(world, "The violin, since I was six.")
    found = ask(world, "instrument")
    assert [each[0] for each in found] == ["fact-9", "fact-8"]
    assert found[0][2]["session"] > 0
    assert found[1][2]["factors"]["statement"] == 0.5


WORDS = ("ledger", "atlas", "billing", "moves?")
said = st.tuples(
    st.sampled_from(WORDS),
    st.sampled_from((SOURCE, "agent:other")),
    st.sampled_from(("company", "team")),
    st.booleans(),
)


@given(st.lists(said, min_size=1, max_size=10))
def test_unreadable_facts_change_nothing(history: list[tuple[str, str, str, bool]]) -> None:
    """A store with facts of others gives the same scores as one without them."""
    whole, own = World(), World()
    for n, (text, source, scope, retracted) in enumerate(history):
        worlds = (whole, own) if scope == "company" else (whole,)
        for world in worlds:
            slot = world.fact(user("ann"), "said", text, source=source, scope=scope, name=f"n{n}")
            if retracted:
                world.retract(slot)
    assert ask(whole, "ledger atlas moves") == ask(own, "ledger atlas moves")


@given(st.lists(said, min_size=1, max_size=10), st.integers(0, 9))
def test_as_of_answers_equal_earlier_live_answers(
    history: list[tuple[str, str, str, bool]], cut: int
) -> None:
    world, then, at = World(), None, None
    for n, (text, source, _, retracted) in enumerate(history):
        slot = world.fact(user("ann"), "said", text, source=source, name=f"n{n}")
        if retracted:
            world.retract(slot)
        if n <= cut:
            at, then = world.moment(), ask(world, "ledger atlas moves")
    assert at is not None
    assert ask(world, "ledger atlas moves", moment=at) == then


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"before": [1.5]}, "$.context.before[0]"),
        ({"after": [0.1] * 6}, "$.context.after"),
        ({"session": -0.1}, "$.context.session"),
        ({"gap_hours": 0}, "$.context.gap_hours"),
        ({"terms": 0}, "$.context.terms"),
        ({"depth": 1}, "$.context"),
    ],
)
def test_a_wrong_context_is_refused_by_its_field(context: dict[str, Any], path: str) -> None:
    stages = [{"name": "lexical", "weight": 1.0}]
    document = {"name": "tried", "description": "", "stages": stages, "context": context}
    with pytest.raises(ProfileError) as caught:
        parse_profile(document)
    assert caught.value.path == path


def test_the_seeds_profile_has_no_context() -> None:
    profile = load_profile("stigmem")
    assert profile.context is None
    assert not {"statement", "substance"} & {each.name for each in profile.factors}
