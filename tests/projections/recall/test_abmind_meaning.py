"""abmind's profiles where facts have vectors: confirming, refuting, and who is waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from projections.embedding.cache import EmbeddingCache
from projections.embedding.errors import ProviderUnavailable
from projections.embedding.semantics import Semantics
from projections.recall import load_profile, recall
from projections.recall.answer import RecallAnswer
from projections.recall.request import RecallRequest
from tests.projections.embedding.provider_double import WordsProvider
from tests.projections.recall.test_semantic import embedded
from tests.projections.recall.world import World, reader, user

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


def factor(answer: RecallAnswer, name: str) -> dict[str, float]:
    return {
        each.row.value_v: each.explain["factors"][name]
        for each in answer.results
        if each.explain is not None
    }


def test_what_meaning_does_not_confirm_is_halved(world: World, provider: Any, cache: Any) -> None:
    answer = asked(world, embedded(world, provider, cache), "abmind")
    # Se finds the first by more than 0.5 although Sf had it already: it is confirmed.
    assert factor(answer, "confirm_penalty") == {"kitten plays": 1.0, LONG: 0.5}
    hits = {stage.label: stage.hits for stage in answer.stages}
    assert (hits["Sf"], hits["Se"]) == (2, 1)
    # Sf comes first: the raw score of Se is not what counts.
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
