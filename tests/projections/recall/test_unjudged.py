"""The other stages judge a fact that has no vector yet."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.ranking.fusion import (
    by_maximum,
    reciprocal_ranks,
    weighted_sum,
)
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages.candidates import Candidates
from tests.worlds.provider_double import WordsProvider
from tests.worlds.recall_vectors import embedded
from tests.worlds.recall_world import World, reader, user

NONE = np.empty(0, dtype=np.int32)
PROFILES = ("default", "stigmem", "stargraph", "abmind", "abmind-head")
WORDS = ("tea", "green", "black", "cup", "kettle", "porcelain", "harbour", "lantern")


def hits(scores: dict[int, float], unjudged: tuple[int, ...] = ()) -> Candidates:
    return Candidates(
        np.array(sorted(scores), dtype=np.int32),
        np.array([scores[slot] for slot in sorted(scores)]),
        np.zeros(len(scores), dtype=np.int32),
        lambda _: [],
        unjudged=np.array(unjudged, dtype=np.int32),
    )


def leaning(scores: dict[int, float]) -> Candidates:
    return msgspec.structs.replace(hits(scores), builds_on=True)


WEIGHTS = {"lexical": 0.3, "semantic": 0.5, "graph": 0.2}


def test_an_unjudging_stages_weight_goes_to_the_judging_ones() -> None:
    stages = {
        "lexical": hits({1: 4.0, 2: 2.0}),
        "semantic": hits({2: 0.8, 3: 0.4}, unjudged=(1,)),
        "graph": leaning({1: 0.5}),
    }
    fused = weighted_sum(stages, WEIGHTS, by_maximum, NONE)
    # 0.3 · 1 + 0.5 · 1 (as lexical) + 0.2 · 1; 0.3 · 0.5 + 0.5 · 1; 0.5 · 0.5
    assert fused.score == pytest.approx([1.0, 0.65, 0.25])
    assert fused.raw["semantic"].tolist() == [0.0, 0.8, 0.4]
    assert fused.normalised["semantic"].tolist() == [1.0, 1.0, 0.5]
    assert fused.unjudged["semantic"].tolist() == [True, False, False]


def test_ranks_of_other_stages_replace_missing_ones() -> None:
    stages = {
        "lexical": hits({1: 4.0, 2: 2.0}),
        "semantic": hits({2: 0.8}, unjudged=(1, 3)),
        "graph": leaning({3: 1.0}),
    }
    fused = reciprocal_ranks(stages, WEIGHTS, by_maximum, NONE)
    # first by words, and so for the meaning; 0.3 · 61/62 + 0.5; the graph's first by it alone
    assert fused.score == pytest.approx([0.8, 0.795161290322581, 0.2])


def test_a_hit_by_other_means_counts_as_judged() -> None:
    stages = {"lexical": hits({1: 4.0}), "semantic": hits({1: 0.2, 2: 0.8}, unjudged=(1,))}
    fused = weighted_sum(stages, {"lexical": 0.5, "semantic": 0.5}, by_maximum, NONE)
    assert fused.score == pytest.approx([0.625, 0.5])
    assert not fused.unjudged["semantic"].any()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: Any) -> Any:
    made = EmbeddingCache(Path(tmp_path_factory.mktemp("vectors")) / "embeddings.db")
    yield made
    made.close()


def ask(
    world: World, cache: Any, query: str, profile: str, without: tuple[int, ...]
) -> RecallAnswer:
    return recall(
        world.view(),
        world.rows,
        RecallRequest(query=query, explain=True, min_confidence=0.0),
        load_profile(profile),
        reader(),
        world.moment(),
        semantics=embedded(world, WordsProvider(), cache, without=without),
    )


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=5, unique=True),
    st.sampled_from(PROFILES),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_new_fact_ranks_by_words_as_its_vector_would(
    cache: Any, others: list[list[str]], words: list[str], profile: str
) -> None:
    world, query = World(), " ".join(words)
    for number, other in enumerate(others):  # in no conversation, whose words count as well
        world.fact(user(f"n{number}"), "memory:note", " ".join(other), source=f"agent:n{number}")
    new = world.fact(user("new"), "memory:note", query)
    told = ask(world, cache, query, profile, ())
    before = ask(world, cache, query, profile, (new,))
    assert new in [each.slot for each in before.results]
    # abmind scores by one stage alone, and halves a score that no other stage confirmed.
    alone = not any(set(words) <= set(other) for other in others)
    if profile != "abmind" and alone and told.results[0].slot == new:
        assert before.results[0].slot == new
    again = ask(world, cache, query, profile, (new,))
    assert [each.slot for each in again.results] == [each.slot for each in before.results]
    (mine,) = (each for each in before.results if each.slot == new)
    said = (mine.explain or {})["stages"].get("semantic")
    assert said is None or said["unjudged"]
