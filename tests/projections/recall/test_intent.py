"""Ambient and explicit questions: which words are dropped, when no search runs, and whose facts
decide."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.authorization import Authorization
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.keywords import Cutting, keywords_of
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import (
    Profile,
    ProfileError,
    built_in_document,
    load_profile,
    parse_profile,
)
from engramlog.projections.recall.question_intent import NO_INFORMATIVE_TERMS, Ambient
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import NOW_US, World, reader, user

HEAD = load_profile("abmind-head")
SEEN = "thanks"
"""Twelve of fourteen facts hold it; more than half."""


def courteous() -> World:
    """Twelve facts with a courtesy and two about something, as in abmind's tests."""
    world = World()
    add_memory(world, "The migration runs every night before the release")
    add_memory(world, "The migration owns the staging rollback procedure", original="a migráció")
    for n in range(12):
        add_memory(world, f"thanks note {n} of the daily routine", original=f"köszi szépen {n}")
    return world


def add_memory(world: World, text: str, *, scope: str = "company", **own: Any) -> int:
    attributes = FactAttributes(**own) if own else None
    entity = user(f"u{len(text)}")
    return world.fact(entity, "memory:said", text, scope=scope, attributes=attributes)


def asked(
    world: World,
    *keywords: str,
    intent: Any = "ambient",
    profile: Profile = HEAD,
    authorization: Authorization | None = None,
    moment: Moment | None = None,
    **more: Any,
) -> RecallAnswer:
    request = RecallRequest(query=" ".join(keywords), keywords=keywords, intent=intent, **more)
    rights = authorization or reader()
    at = moment or world.moment()
    return recall(world.view(), world.rows, request, profile, rights, at)


def texts(answer: RecallAnswer) -> list[str]:
    return [each.row.value_v for each in answer.results]


def with_ceiling(**ambient: Any) -> Profile:
    return msgspec.structs.replace(HEAD, ambient=Ambient(**ambient))


def test_words_in_most_facts_are_not_searched() -> None:
    answer = asked(courteous(), SEEN)
    assert (answer.skipped, answer.dropped_terms) == (NO_INFORMATIVE_TERMS, (SEEN,))
    assert (answer.results, answer.total_scored, answer.truncated) == ((), 0, False)
    assert {stage.status for stage in answer.stages} == {"not-requested"}  # S8, too
    assert [stage.label for stage in answer.stages] == ["Sf", "Se", "Ss", "S6", "S8"]
    assert (answer.evidence, answer.weak_evidence) == ("none", True)


def test_only_distinguishing_words_are_searched() -> None:
    world = courteous()
    answer = asked(world, SEEN, "rollback")
    assert (answer.skipped, answer.dropped_terms) == (None, (SEEN,))
    assert texts(answer) == ["The migration owns the staging rollback procedure"]
    assert answer.weak_evidence is False  # it holds every remaining keyword
    plain = asked(world, SEEN, "rollback", intent=None)
    assert len(plain.results) == 10
    assert plain.weak_evidence is True  # no fact holds both


def test_a_message_is_judged_word_by_word() -> None:
    answer = asked(courteous(), "Thanks, thanks for the rollback")
    assert answer.dropped_terms == ("Thanks", "thanks", "the")
    assert texts(answer)[0] == "The migration owns the staging rollback procedure"


def test_a_query_without_keywords_is_a_message_too() -> None:
    request = RecallRequest(query="thanks rollback", intent="ambient")
    world = courteous()
    answer = recall(world.view(), world.rows, request, HEAD, reader(), world.moment())
    assert answer.dropped_terms == ("thanks",)
    assert texts(answer) == ["The migration owns the staging rollback procedure"]


@pytest.mark.parametrize("word", ["unicorn", "rollback", "ok"])
def test_rare_and_unknown_words_are_searched_for(word: str) -> None:
    answer = asked(courteous(), word)
    assert (answer.skipped, answer.dropped_terms) == (None, ())


def test_words_unknown_to_the_index_are_counted_by_letters() -> None:
    # No value holds "köszi"; only the user's own words do, with and without its accent.
    assert asked(courteous(), "köszi").skipped == NO_INFORMATIVE_TERMS
    assert asked(courteous(), "koszi").skipped == NO_INFORMATIVE_TERMS
    assert asked(courteous(), "migráció").skipped is None


def test_of_a_long_message_only_so_many_words_are_looked_up() -> None:
    world = World()
    names = [f"alpha{n}beta" for n in range(20)]
    inside = " ".join(f"x{name}x" for name in names)  # known only by their letters
    for _ in range(10):
        add_memory(world, f"thanks {inside}")
    assert asked(world, " ".join(names)).dropped_terms == tuple(names[:16])
    words = [f"w{n}" for n in range(64)]
    assert asked(world, " ".join([*words[:63], SEEN])).dropped_terms == (SEEN,)
    assert asked(world, " ".join([*words, SEEN])).dropped_terms == ()


def test_the_askers_own_words_are_reason_enough_to_search() -> None:
    world = courteous()
    assert asked(world, SEEN, original="köszi szépen").skipped == NO_INFORMATIVE_TERMS
    answer = asked(world, SEEN, original="köszi migráció")
    # All keywords are common, but they stay: otherwise none would be left.
    assert (answer.skipped, answer.dropped_terms) == (None, ())


def test_a_phrase_is_common_only_if_facts_hold_all_its_words() -> None:
    world = courteous()
    for _ in range(12):
        add_memory(world, "routine")
    # "daily" is in 12 of 26, "routine" in 24, both in 12: not more than half.
    assert asked(world, "daily routine", "zebra").dropped_terms == ()
    assert asked(world, "routine", "zebra").dropped_terms == ("routine",)


def test_the_ceiling_itself_is_not_too_much() -> None:
    world = courteous()  # 14 facts, 12 with the word
    assert asked(world, SEEN, profile=with_ceiling(ceiling=12 / 14)).skipped is None
    assert asked(world, SEEN, profile=with_ceiling(ceiling=11 / 14)).skipped is not None


def test_among_few_facts_nothing_is_common() -> None:
    world = courteous()
    assert asked(world, SEEN, profile=with_ceiling(facts_min=15)).skipped is None
    assert asked(world, SEEN, profile=with_ceiling(facts_min=14)).skipped is not None
    assert asked(World(), SEEN).skipped is None


def test_only_facts_that_pass_the_filters_are_counted() -> None:
    world = courteous()
    for n in range(12):
        add_memory(world, f"a cat of the house {n}", topic="pets")
    assert asked(world, "cat").skipped is None  # 12 of 26
    only = Filters(topic="pets")
    assert asked(world, "cat", filters=only).skipped == NO_INFORMATIVE_TERMS
    assert asked(world, SEEN, filters=only).skipped is None


def test_explicit_words_are_neither_dropped_nor_rewritten() -> None:
    world = courteous()
    answer = asked(world, SEEN, intent="explicit")
    assert (answer.skipped, answer.dropped_terms, len(answer.results)) == (None, (), 10)
    asked_for = {
        intent: keywords_of(
            RecallRequest(
                query="q", keywords=("puppy OR dog",), original='"a" AND b', intent=intent
            ),
            Cutting(),
        )
        for intent in ("explicit", "ambient")
    }
    assert asked_for["ambient"].phrases == ("puppy", "dog")
    assert asked_for["explicit"].phrases == ("puppy OR dog",)
    assert asked_for["ambient"].original == "a   b"
    assert asked_for["explicit"].original == '"a" AND b'


def test_explicit_operators_are_found_as_text() -> None:
    world = World()
    add_memory(world, "cats and dogs")
    literal = add_memory(world, "a puppy OR dog")
    found = asked(world, "puppy OR dog", "zebra", intent="explicit", stages=frozenset({"Sf"}))
    assert [each.slot for each in found.results] == [literal]


def test_without_an_intent_nothing_is_dropped_and_operators_are_no_words() -> None:
    answer = asked(courteous(), f"{SEEN} OR daily", intent=None)
    assert (answer.skipped, answer.dropped_terms, len(answer.results)) == (None, (), 10)


@pytest.mark.parametrize(
    ("ambient", "path"),
    [
        ({"ceiling": 0}, "$.ambient.ceiling"),
        ({"ceiling": 1.5}, "$.ambient.ceiling"),
        ({"ceiling": "half"}, "$.ambient.ceiling"),
        ({"facts_min": 0}, "$.ambient.facts_min"),
        ({"floor": 1}, "$.ambient"),
    ],
)
def test_a_wrong_ceiling_is_refused_by_its_path(ambient: dict[str, Any], path: str) -> None:
    document = built_in_document("abmind-head") | {"ambient": ambient}
    with pytest.raises(ProfileError) as fault:
        parse_profile(document)
    assert fault.value.path == path


def test_unreadable_facts_decide_nothing() -> None:
    world = World()
    for n in range(14):
        add_memory(world, f"thanks and other words {n}", scope="team")
    for n in range(12):
        add_memory(world, f"a note about thing {n}")
    assert asked(world, SEEN).skipped is None  # no readable fact holds it
    both = reader("company", "team")
    assert asked(world, SEEN, authorization=both).skipped == NO_INFORMATIVE_TERMS
    # Hidden facts do not make a common word rare either.
    assert asked(world, "note").skipped == NO_INFORMATIVE_TERMS
    assert asked(world, "note", authorization=both).skipped is None


def test_common_words_are_judged_as_of_the_moment() -> None:
    world = courteous()
    then = world.moment()
    for n in range(20):
        add_memory(world, f"something else {n}")
    assert asked(world, SEEN, moment=then).skipped == NO_INFORMATIVE_TERMS
    assert asked(world, SEEN).skipped is None
    assert asked(world, "something").skipped == NO_INFORMATIVE_TERMS
    assert asked(world, "something", moment=then).skipped is None


def test_retracted_and_expired_facts_are_counted_no_longer() -> None:
    world = courteous()
    for slot in range(2, 9):
        world.retract(slot)
    before = Moment(14, NOW_US)
    assert asked(world, SEEN, profile=with_ceiling(facts_min=1)).skipped == NO_INFORMATIVE_TERMS
    for slot in range(9, 13):
        world.retract(slot)
    assert asked(world, SEEN, profile=with_ceiling(facts_min=1)).skipped is None  # 1 of 3
    assert asked(world, SEEN, moment=before).skipped == NO_INFORMATIVE_TERMS


_WORDS = st.sampled_from(("thanks", "note", "rollback", "köszi", "daily"))
_TEXTS = st.lists(st.lists(_WORDS, min_size=1, max_size=4).map(" ".join), max_size=16)
_ASKED = st.lists(st.sampled_from(("thanks", "note", "köszi", "daily note", "zebra")), min_size=1)


def seen(answer: RecallAnswer) -> Any:
    """All of an answer except slots, positions and milliseconds."""
    found = [(each.row.id, each.score, each.why, each.breakdown) for each in answer.results]
    stages = [(stage.name, stage.status, stage.hits, stage.detail) for stage in answer.stages]
    add_memory = (answer.skipped, answer.dropped_terms, answer.evidence, answer.weak_evidence)
    return found, stages, add_memory, answer.total_scored


@given(_TEXTS, _TEXTS, _ASKED, st.sampled_from(("", "thanks note", "zebra")))
def test_facts_the_caller_may_not_read_do_not_change_the_answer(
    readable: list[str], hidden: list[str], keywords: list[str], original: str
) -> None:
    alone, mixed = World(), World()
    profile = with_ceiling(ceiling=0.4, facts_min=3)
    for n, text in enumerate(readable):
        entity, name = user(f"u{n}"), f"r{n}"
        alone.fact(entity, "memory:said", text, name=name)
        for other in hidden[n::16]:
            mixed.fact(entity, "memory:said", other, scope="team")
        mixed.fact(entity, "memory:said", text, name=name)
    answers = [
        asked(world, *keywords, original=original, profile=profile) for world in (alone, mixed)
    ]
    assert seen(answers[0]) == seen(answers[1])


@given(_TEXTS, _TEXTS, _ASKED)
def test_a_past_answer_is_that_of_a_world_that_knew_no_more(
    before: list[str], after: list[str], keywords: list[str]
) -> None:
    then, now = World(), World()
    profile = with_ceiling(ceiling=0.4, facts_min=3)
    for n, text in enumerate(before):
        for world in (then, now):
            world.fact(user(f"u{n}"), "memory:said", text, name=f"b{n}")
    moment = then.moment()
    for n, text in enumerate(after):
        now.fact(user(f"u{n}"), "memory:said", text, name=f"a{n}")
    if before:
        now.retract(0)
    answers = [asked(world, *keywords, profile=profile, moment=moment) for world in (then, now)]
    assert seen(answers[0]) == seen(answers[1])


def test_countless_marks_are_words_in_linear_time() -> None:
    question = "\u0301\u0316" * 250_000  # by insertion, sorting these would be minutes
    assert keywords_of(RecallRequest(query=question), Cutting()).terms == ()
