"""The profiles of abmind through the whole pipeline: its black-box cases."""

from typing import Any

import numpy as np
import pytest

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer, Recalled
from engramlog.projections.recall.enrichment import WARNING, EnrichedFact, enrich
from engramlog.projections.recall.filters import Filters
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.ranking.diversity import (
    SIMILARITIES,
    ByMarginalRelevance,
    Material,
)
from engramlog.projections.recall.request import RecallRequest, Situation
from engramlog.projections.recall.stages import STAGES
from engramlog.projections.tables.facts.attributes import PLAIN
from tests.worlds.recall_world import DAY_US, NOW_US, World, reader, user

PROFILES = ("abmind", "abmind-head")


def add_memory(world: World, text: str, *, age_days: float = 0.0, **own: Any) -> int:
    attributes = FactAttributes(**own) if own else None
    entity = user(f"u{world.position}")
    return world.fact(entity, "memory:said", text, age_days=age_days, attributes=attributes)


def asked(world: World, *keywords: str, profile: str = "abmind", **more: Any) -> RecallAnswer:
    request = RecallRequest(query=" ".join(keywords), keywords=keywords, **more)
    return recall(
        world.view(), world.rows, request, load_profile(profile), reader(), world.moment()
    )


def texts(answer: RecallAnswer) -> list[str]:
    return [each.row.value_v for each in answer.results]


def beside(answer: RecallAnswer) -> list[tuple[Recalled, dict[str, Any]]]:
    add_memory = [
        EnrichedFact(
            each.row.value_v, each.attributes or PLAIN, each.confidence, each.row.recorded_at
        )
        for each in answer.results
    ]
    return list(zip(answer.results, enrich(answer.enrichment, add_memory), strict=True))


def statuses(answer: RecallAnswer) -> dict[str, str]:
    return {stage.label: stage.status for stage in answer.stages}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_puppy_is_found(profile: str) -> None:
    world = World()
    add_memory(world, "The puppy was running in the garden")
    answer = asked(world, "puppy", profile=profile)
    assert texts(answer) == ["The puppy was running in the garden"]
    assert answer.results[0].found_by == "Sf:porter"


def test_a_filled_limit_skips_the_other_stages() -> None:
    world = World()
    for n in range(15):
        add_memory(world, f"kitten number {n}")
    answer = asked(world, "kitten", limit=10)
    assert statuses(answer) == {
        "Sf": "completed", "Se": "skipped", "Ss": "skipped", "S6": "completed", "S8": "completed",
    }  # fmt: skip
    detail = {stage.label: stage.detail for stage in answer.stages}
    assert detail["Ss"] == "Sf filled the limit"
    assert answer.short_circuit_after == "fuzzy"
    assert len(answer.results) == 10


def test_one_memory_skips_nothing() -> None:
    world = World()
    add_memory(world, "one kitten")
    answer = asked(world, "kitten", limit=10)
    assert answer.short_circuit_after is None
    assert statuses(answer)["Ss"] == "completed"


def test_the_newer_profile_never_skips() -> None:
    world = World()
    for n in range(15):
        add_memory(world, f"kitten number {n}")
    answer = asked(world, "kitten", limit=10, profile="abmind-head")
    assert answer.short_circuit_after is None
    assert statuses(answer)["Ss"] == "completed"


def test_only_the_stages_asked_for_run() -> None:
    world = World()
    add_memory(world, "one kitten")
    answer = asked(world, "kitten", stages=frozenset({"Sf"}))
    assert statuses(answer) == {
        "Sf": "completed", "Se": "not-requested", "Ss": "not-requested", "S6": "not-requested",
        "S8": "completed",  # the graph always runs
    }  # fmt: skip
    assert len(answer.results) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_without_embeddings_the_recall_succeeds(profile: str) -> None:
    world = World()
    add_memory(world, "one kitten")
    answer = asked(world, "kitten", profile=profile)
    assert statuses(answer)["Se"] == "disabled"
    assert len(answer.results) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_operators_are_no_error(profile: str) -> None:
    world = World()
    add_memory(world, "Puppy cat")
    add_memory(world, "Puppy dog")
    assert len(asked(world, "puppy OR dog", profile=profile).results) == 2


def test_ten_facts_unless_the_request_says_otherwise_and_fifty_at_most() -> None:
    world = World()
    for n in range(60):
        add_memory(world, f"kitten number {n} " + "word " * 400)
    assert len(asked(world, "kitten").results) == 10
    answer = asked(world, "kitten", limit=500)
    assert len(answer.results) == 50
    assert answer.tokens_used > 4000  # the token budget does not count here


def test_filters_by_topic_tier_emotion_and_time() -> None:
    world = World()
    add_memory(world, "kitten at work", topic="work", emotion_tags=("joy",), tier="core")
    add_memory(world, "kitten at home", topic="home", emotion_tags=("fear", "anger"))
    add_memory(world, "old kitten", age_days=10)

    def found(**filters: Any) -> list[str]:
        return texts(asked(world, "kitten", filters=Filters(**filters)))

    assert found(topic="work") == ["kitten at work"]
    assert found(topic="general") == ["old kitten"]
    assert found(tier="core") == ["kitten at work"]
    assert found(emotions=("ange",)) == ["kitten at home"]
    assert set(found(since_us=NOW_US)) == {"kitten at work", "kitten at home"}
    assert found(until_us=NOW_US - 10 * DAY_US) == ["old kitten"]


def test_similar_facts_do_not_follow_each_other() -> None:
    said = [
        "the user likes pizza with extra cheese",
        "the user likes pizza with extra cheese and mushrooms",
        "the user works with TypeScript in WSL",
    ]
    scores = np.array([0.9, 0.85, 0.8])
    similarity = SIMILARITIES["jaccard_words"](
        Material((), words=[t.lower().split() for t in said])
    )
    assert similarity.to(0)[1:] == pytest.approx([0.7778, 0.2727], abs=5e-5)
    chooser = ByMarginalRelevance(scores, similarity, 0.7)
    order: list[int] = []
    while (index := chooser.propose()) is not None:
        order.append(index)
        chooser.take(index)
    assert order == [0, 2, 1]
    assert scores.tolist() == [0.9, 0.85, 0.8]


@pytest.mark.parametrize(
    ("said", "scores", "lambda_mmr", "expected"),
    [
        (["a b c"] * 3, [0.9, 0.5, 0.5], 0.7, [0, 1, 2]),
        (["a b c", "a b c d", "x y z"], [0.9, 0.85, 0.1], 1.0, [0, 1, 2]),
        (["a b c", "a b c d", "x y z"], [0.9, 0.85, 0.1], 0.0, [0, 2, 1]),
    ],
)
def test_diversity_uses_the_given_weight(
    said: list[str], scores: list[float], lambda_mmr: float, expected: list[int]
) -> None:
    words = [text.split() for text in said]
    similarity = SIMILARITIES["jaccard_words"](Material((), words=words))
    chooser = ByMarginalRelevance(np.array(scores), similarity, lambda_mmr)
    order: list[int] = []
    while (index := chooser.propose()) is not None:
        order.append(index)
        chooser.take(index)
    assert order == expected


def test_the_context_breaks_a_tie_and_no_more() -> None:
    world = World()
    add_memory(world, "kitten plays alone")
    add_memory(world, "kitten plays again", topic="work")
    assert texts(asked(world, "kitten"))[0] == "kitten plays alone"  # the older of equals
    at_work = asked(world, "kitten", situation=Situation(topic="work"))
    assert texts(at_work)[0] == "kitten plays again"
    assert at_work.results[0].score - at_work.results[1].score == pytest.approx(0.03)


def test_boost_factors_add_their_value() -> None:
    world = World()
    add_memory(world, "kitten", emotion_score=5)
    answer = asked(world, "kitten", explain=True)
    explained = answer.results[0].explain
    assert explained is not None
    assert explained["factors"]["emotion_additive"] == 0.1
    raw = explained["stages"]["fuzzy"]["raw"]
    assert answer.results[0].score == pytest.approx(raw + 0.1)


def test_ranks_are_fused_from_zero_and_strong_hits_have_a_floor() -> None:
    world = World()
    add_memory(world, "zebra and kitten")
    add_memory(world, "kitten alone in a long sentence of other words")
    answer = asked(world, "kitten", "zebra", profile="abmind-head", explain=True)
    by_text = {each.row.value_v: each for each in answer.results}
    # Sf alone finds the second: 60 / (60 + 1). The first holds both keywords.
    second = by_text["kitten alone in a long sentence of other words"]
    assert second.score == pytest.approx(60 / 61, abs=1e-9)
    assert by_text["zebra and kitten"].score >= 1.2
    assert answer.evidence == "strong"


def test_evidence_is_weak_without_a_fact_with_every_keyword() -> None:
    world = World()
    add_memory(world, "kitten alone in a long sentence of many other words that say little")
    assert asked(world, "kitten", "zebra", profile="abmind-head").evidence == "weak"
    assert asked(world, "unicorn", "zebra", profile="abmind-head").evidence == "none"
    assert asked(world, "kitten").evidence is None


def test_evidence_is_weak_unless_one_fact_holds_every_keyword_from_a_words_beginning() -> None:
    world = World()
    add_memory(world, "the watchdog guards the Go service of the project, whose deadline is near")

    def weak(*keywords: str, **more: Any) -> bool | None:
        answer = asked(world, *keywords, profile="abmind-head", stages=frozenset({"Sf"}), **more)
        return answer.weak_evidence

    assert weak("guards", "service") is False
    assert weak("guard", "serv") is False  # a longer word matches
    assert weak("guards", "dog") is True  # but not with other letters before
    assert weak("guards", "zebra") is True
    # Short keywords count, and those after the eighth; so do all words of a phrase, together.
    assert weak("guards", "Go") is False
    assert weak("guards", "ox") is True
    words = ("the", "watchdog", "guards", "go", "service", "of", "project", "whose")
    assert weak(*words, "deadline") is False
    assert weak(*words, "zebra") is True
    assert weak("Go service", "guards") is False
    assert weak("service Go", "guards") is True


def test_a_signature_hit_is_evidence() -> None:
    world = World()
    add_memory(world, "We decided to use Clerk for authentication")
    text = "use clerk for decided authentication to we"

    def evidence(*keywords: str) -> tuple[str | None, bool | None]:
        stages = frozenset({"Ss"})
        answer = asked(world, *keywords, profile="abmind-head", stages=stages)
        return answer.evidence, answer.weak_evidence

    assert evidence(text) == ("strong", False)
    assert evidence("unrelated") == ("none", True)
    assert asked(world, text).weak_evidence is None  # its Sf cannot tell


def test_unreadable_facts_are_no_evidence() -> None:
    world = World()
    add_memory(world, "kitten alone")
    world.fact(user("x"), "memory:said", "kitten and zebra", scope="team")
    then = world.moment()

    def weak(moment: Moment) -> bool | None:
        stages = frozenset({"Sf"})
        request = RecallRequest(query="q", keywords=("kitten", "zebra"), stages=stages)
        head = load_profile("abmind-head")
        return recall(world.view(), world.rows, request, head, reader(), moment).weak_evidence

    assert weak(then) is True
    add_memory(world, "kitten with a zebra")
    assert (weak(world.moment()), weak(then)) == (False, True)


def test_conflicting_facts_of_a_topic_warn_of_each_other() -> None:
    world = World()
    add_memory(world, "The project uses Postgres for storage", topic="db")
    add_memory(world, "The project uses SQLite for storage", topic="db")
    add_memory(world, "The project uses Redis for storage", topic="other")
    answer = asked(world, "project storage")
    warned = {each.row.value_v: said.get("interference_warning") for each, said in beside(answer)}
    assert warned == {
        "The project uses Postgres for storage": WARNING,
        "The project uses SQLite for storage": WARNING,
        "The project uses Redis for storage": None,
    }


def test_facts_of_one_topic_and_entity_form_a_timeline() -> None:
    world = World()
    # NOW_US is 15 January 2027; 60 days before is in November.
    add_memory(world, "@ann moved to Berlin", topic="life", age_days=60, emotion_score=2)
    add_memory(world, "@ann moved to Rome", topic="life", emotion_score=-1)
    add_memory(world, "@bo moved to Oslo", topic="life")
    answer = asked(world, "moved")
    lines = {each.row.value_v: said.get("timeline_context") for each, said in beside(answer)}
    expected = (
        "[TL|life|ann] @ann moved to Berlin(Nov)→@ann moved to Rome(Jan)\n"
        "arc: +2→-1 | current: @ann moved to Rome"
    )
    assert lines == {
        "@ann moved to Berlin": expected,
        "@ann moved to Rome": expected,
        "@bo moved to Oslo": None,
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_every_fact_has_its_metadata(profile: str) -> None:
    world = World()
    add_memory(world, "kitten", topic="pets", emotion_score=-2, importance_flags=("decision",))
    said = beside(asked(world, "kitten", profile=profile))[0][1]["metadata"]
    assert (said["topic"], said["emotion_score"]) == ("pets", -2)
    assert said["importance_flags"] == ["decision"]


@pytest.mark.parametrize("profile", PROFILES)
def test_edges_of_an_entity_are_found_at_their_fixed_score(profile: str) -> None:
    world = World()
    # "acme" is only the edge's far end: no word of the question is in the fact's own text.
    world.ref(user("alice"), "rel:works_at", user("acme"))
    world.ref(user("bob"), "rel:knows", user("carol"))
    answer = asked(world, "where alice works", profile=profile, explain=True)
    edge = next(each for each in answer.results if each.row.entity == user("alice"))
    assert edge.explain is not None
    assert edge.explain["stages"]["entity_edges"]["raw"] == 0.6
    assert user("bob") not in {each.row.entity for each in answer.results}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_fact_that_only_the_graph_finds_has_its_fixed_score(profile: str) -> None:
    world = World()
    world.ref(user("acme"), "rel:led_by", user("alice"))
    answer = asked(world, "alice", profile=profile, stages=frozenset({"S6"}))
    found = [(each.found_by, each.score) for each in answer.results]
    assert found == [("S8:entity-graph", 0.6)]


def test_a_stage_that_is_waited_for_is_one_of_the_profiles() -> None:
    for name in PROFILES:
        for choice in load_profile(name).stages:
            assert choice.name in STAGES
            assert choice.label in {"Sf", "Se", "Ss", "S6", "S8"}
