"""abmind's profiles over facts with vectors: confirming, refuting, and waiting for vectors."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.errors import ProviderUnavailable
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.provider_double import WordsProvider
from tests.worlds.recall_vectors import embedded
from tests.worlds.recall_world import World, reader, user

QUERY = "kitten plays"
LONG = "kitten beside eleven other words that all say something else about weather and taxes"


@pytest.fixture
def provider() -> WordsProvider:
    return WordsProvider()


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    made = EmbeddingCache(tmp_path / "embeddings.db")
    yield made
    made.close()


@pytest.fixture
def world() -> World:
    made = World()
    for n, text in enumerate(("kitten plays", LONG, "nothing alike")):
        made.fact(user(f"u{n}"), "said", text)
    return made


def asked(world: World, semantics: Semantics, profile: str, limit: int = 10) -> RecallAnswer:
    request = RecallRequest(query=QUERY, limit=limit, explain=True)
    return recall(
        world.view(), world.rows, request, load_profile(profile), reader(), world.moment(),
        semantics=semantics,
    )  # fmt: skip


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def about(
    world: World,
    semantics: Semantics,
    *keywords: str,
    executor: Executor | None = None,
    **more: Any,
) -> RecallAnswer:
    request = RecallRequest(query=" ".join(keywords), keywords=keywords, **more)
    return recall(
        world.view(), world.rows, request, load_profile("abmind-head"), reader(), world.moment(),
        semantics=semantics, executor=executor,
    )  # fmt: skip


def outcomes(answer: RecallAnswer) -> dict[str, tuple[str, int]]:
    return {stage.label: (stage.status, stage.hits) for stage in answer.stages}


def factor(answer: RecallAnswer, name: str) -> dict[str, float]:
    return {
        each.row.value_v: each.explain["factors"][name]
        for each in answer.results
        if each.explain is not None
    }


def test_hits_unconfirmed_by_meaning_are_halved(world: World, provider: Any, cache: Any) -> None:
    answer = asked(world, embedded(world, provider, cache), "abmind")
    # Se finds the first by more than 0.5 although Sf had it already: it is confirmed.
    assert factor(answer, "confirm_penalty") == {"kitten plays": 1.0, LONG: 0.5}
    hits = {stage.label: stage.hits for stage in answer.stages}
    assert (hits["Sf"], hits["Se"]) == (2, 1)
    # Sf comes first: the raw score of Se does not count.
    first = answer.results[0]
    assert first.explain is not None
    assert first.score == pytest.approx(first.explain["stages"]["fuzzy"]["raw"])


def test_a_filled_limit_leaves_the_provider_alone(world: World, provider: Any, cache: Any) -> None:
    semantics = embedded(world, provider, cache)
    answer = asked(world, semantics, "abmind", limit=2)
    assert {stage.label: stage.status for stage in answer.stages}["Se"] == "skipped"
    assert semantics.known(QUERY) is None
    assert factor(answer, "confirm_penalty") == {"kitten plays": 1.0, LONG: 1.0}


@pytest.mark.parametrize("profile", ["abmind", "abmind-head"])
def test_a_provider_that_fails_does_not_fail_the_recall(
    world: World, provider: Any, cache: Any, profile: str
) -> None:
    semantics = embedded(world, provider, cache)
    provider.fault = ProviderUnavailable("away")
    answer = asked(world, semantics, profile)
    assert {stage.label: stage.status for stage in answer.stages}["Se"] == "failed"
    assert {each.row.value_v for each in answer.results} >= {"kitten plays", LONG}


def test_a_weak_hit_is_refuted_by_its_vector_alone(world: World, provider: Any, cache: Any) -> None:
    answer = asked(world, embedded(world, provider, cache), "abmind-head")
    # The cosine of one word in some sixteen with two is about 1 / √32 = 0.18.
    assert factor(answer, "refute_weak") == {"kitten plays": 1.0, LONG: 0.5}
    unembedded = asked(world, embedded(world, provider, cache, without=(1,)), "abmind-head")
    assert factor(unembedded, "refute_weak")[LONG] == 1.0


def test_a_near_meaning_is_evidence(world: World, provider: Any, cache: Any) -> None:
    assert asked(world, embedded(world, provider, cache), "abmind-head").evidence == "strong"


def test_a_model_that_has_to_start_is_waited_for(
    world: World, provider: Any, cache: Any, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    semantics = embedded(world, provider, cache)
    provider.gate.clear()
    monkeypatch.setattr(provider, "start", provider.gate.set)
    answer = recall(
        world.view(), world.rows, RecallRequest(query=QUERY), load_profile("default"), reader(),
        world.moment(), semantics=semantics, executor=threads,
    )  # fmt: skip
    assert {stage.name: stage.status for stage in answer.stages}["semantic"] == "completed"


def test_a_meaning_that_takes_too_long_is_not_waited_for(
    world: World, provider: Any, cache: Any, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    semantics = embedded(world, provider, cache)
    provider.gate.clear()  # the model does not answer
    monkeypatch.setattr(provider, "start", provider.gate.set)
    try:
        answer = about(world, semantics, *QUERY.split(), executor=threads)
    finally:
        provider.gate.set()
    assert outcomes(answer)["Se"] == ("deadline", 0)
    detail = next(stage.detail for stage in answer.stages if stage.label == "Se")
    assert detail == "not done after 250 ms"
    assert answer.results[0].row.value_v == "kitten plays"


def behind_fillers(target: str, *newest: str) -> World:
    """A memory of 700 days ago, 520 newer ones about other things, and the newest."""
    world = World()
    world.fact(user("old"), "said", target, age_days=700)
    for n in range(520):
        world.fact(user(f"f{n}"), "said", f"filler number {n} about weather {n % 7}")
    for n, text in enumerate(newest):
        world.fact(user(f"n{n}"), "said", text)
    return world


def test_all_history_is_searched_for_a_meaning(provider: Any, cache: Any) -> None:
    world = behind_fillers("midnight tester paradox")
    semantics = embedded(world, provider, cache)
    answer = about(
        world, semantics, "midnight", "tester", "paradox", stages=frozenset({"Se"}), limit=3
    )
    assert [each.slot for each in answer.results] == [0]
    assert outcomes(answer)["Se"] == ("completed", 1)


@pytest.mark.parametrize(
    "keywords",
    [
        ("midnight perfectionist resolved the tester paradox",),  # its own words
        ("paradox", "perfectionist", "midnight", "architect"),  # in other words, one of them new
        ("midnight", "tester", "paradox"),  # the keywords of a translated question
    ],
)
def test_an_old_memory_comes_before_a_new_one_that_shares_a_word(
    provider: Any, cache: Any, keywords: tuple[str, ...]
) -> None:
    target, distractor = "midnight perfectionist resolved tester paradox", "midnight train to Rome"
    world = behind_fillers(target, distractor)
    answer = about(
        world, embedded(world, provider, cache), *keywords,
        original="az éjféli tesztelő paradoxona", limit=5,
    )  # fmt: skip
    order = [each.row.value_v for each in answer.results]
    assert order.index(target) < order.index(distractor)


def test_a_vector_without_its_fact_hides_none_and_a_missing_one_is_reported(
    provider: Any, cache: Any
) -> None:
    world = World()
    for n, text in enumerate(("long gone words", "not embedded yet", "midnight tester paradox")):
        world.fact(user(f"u{n}"), "said", text)
    semantics = embedded(world, provider, cache, without=(1,))
    world.retract(0)  # as many vectors as facts, but one fact lacks its vector
    answer = about(
        world, semantics, "midnight", "tester", "paradox", stages=frozenset({"Se"}), limit=1
    )
    assert [each.slot for each in answer.results] == [2]
    detail = next(stage.detail for stage in answer.stages if stage.label == "Se")
    assert "partial" in detail


def test_confidential_facts_of_others_take_no_place_among_the_nearest(
    provider: Any, cache: Any
) -> None:
    world = World()
    confidential = FactAttributes(classification=2)
    mine = world.fact(
        user("me"), "said", "midnight tester paradox and a few words more", age_days=300,
        source="agent:reader", attributes=confidential,
    )  # fmt: skip
    for n in range(30):
        world.fact(
            user(f"u{n}"), "said", "midnight tester paradox", source="agent:other",
            attributes=confidential,
        )  # fmt: skip
    answer = about(
        world, embedded(world, provider, cache), "midnight tester paradox", limit=3,
        stages=frozenset({"Se"}),
    )  # fmt: skip
    assert [each.slot for each in answer.results] == [mine]
    assert outcomes(answer)["Se"] == ("completed", 1)


def test_keywords_mean_what_is_left_of_them_and_a_message_what_it_says(
    provider: Any, cache: Any
) -> None:
    world = World()
    for n in range(11):
        world.fact(user(f"u{n}"), "said", f"thanks {n}")
    world.fact(user("x"), "said", "midnight tester paradox")
    semantics = embedded(world, provider, cache)
    listed = about(world, semantics, "thanks", "midnight tester", "paradox", intent="ambient")
    assert listed.dropped_terms == ("thanks",)
    assert outcomes(listed)["Se"] == ("completed", 1)
    assert semantics.known("midnight tester paradox") is not None
    assert semantics.known("thanks midnight tester paradox") is None
    message = about(world, semantics, "thanks midnight tester paradox", intent="ambient")
    assert message.dropped_terms == ("thanks",)
    assert semantics.known("thanks midnight tester paradox") is not None
    assert outcomes(message)["Sf"] == ("completed", 1)  # the others are not searched


def test_a_search_that_is_skipped_leaves_the_provider_alone(
    provider: Any, cache: Any, threads: Executor
) -> None:
    world = World()
    for n in range(12):
        world.fact(user(f"u{n}"), "said", f"thanks {n}")
    semantics = embedded(world, provider, cache)
    answer = about(world, semantics, "thanks", intent="ambient", executor=threads)
    threads.shutdown(wait=True)
    assert answer.skipped == "no-informative-terms"
    assert semantics.known("thanks") is None
