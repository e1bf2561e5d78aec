import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.recall.ranking.diversity import (
    ByMarginalRelevance,
    ByScore,
    Chooser,
    Cosine,
    Jaccard,
    Material,
)
from engramlog.projections.recall.ranking.packing import by_value_bytes, pack


def order(chooser: Chooser) -> list[int]:
    taken: list[int] = []
    while (index := chooser.propose()) is not None:
        chooser.take(index)
        taken.append(index)
    return taken


TEXTS = [["a", "b"], ["a", "b"], ["c"]]
SCORES = np.array([0.9, 0.8, 0.5])


def test_mmr_prefers_another_subject_to_a_repetition() -> None:
    # lambda 0.5. First: 0.45, 0.40, 0.25 -> 0.
    # Then 1: 0.40 - 0.5 * 1 = -0.10; 2: 0.25 - 0.5 * 0 = 0.25 -> 2. Then 1.
    assert order(ByMarginalRelevance(SCORES, Jaccard(Material(TEXTS)), 0.5)) == [0, 2, 1]


def test_mmr_keeps_a_repetition_that_is_worth_more() -> None:
    # lambda 0.9. Then 1: 0.72 - 0.1 * 1 = 0.62; 2: 0.45 -> 1 before 2.
    assert order(ByMarginalRelevance(SCORES, Jaccard(Material(TEXTS)), 0.9)) == [0, 1, 2]


def test_a_rejected_candidate_pushes_nothing_away() -> None:
    chooser = ByMarginalRelevance(SCORES, Jaccard(Material(TEXTS)), 0.5)
    chooser.reject(0)
    assert order(chooser) == [1, 2]


def test_jaccard_is_shared_over_all_tokens() -> None:
    # {a, b, c} and {b, c, d} share 2 of 4; repetition does not count; empty is unlike.
    similarity = Jaccard(Material([["a", "b", "c", "c"], ["b", "c", "d"], ["e"], []]))
    assert similarity.to(0) == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert list(similarity.to(3)) == [0.0, 0.0, 0.0, 0.0]


def test_cosine_compares_vectors_and_falls_back_to_words_per_pair() -> None:
    # The first three have vectors at 60 and 120 degrees from the first; the fourth has none.
    angles = np.radians([0.0, 60.0, 120.0])
    vectors = np.zeros((4, 2), dtype=np.float32)
    vectors[:3] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    terms = [["a", "b"], ["x"], ["y"], ["a", "c"]]
    similarity = Cosine(Material(terms, vectors, np.array([True, True, True, False])))
    # Opposite directions are unlike, not less than unlike; {a, b} and {a, c} share 1 of 3.
    assert similarity.to(0) == pytest.approx([1.0, 0.5, 0.0, 1 / 3], abs=1e-6)
    assert similarity.to(3) == pytest.approx([1 / 3, 0.0, 0.0, 1.0])


def test_cosine_without_any_vectors_is_jaccard() -> None:
    material = Material(TEXTS)
    for index in range(len(TEXTS)):
        expected = Jaccard(material).to(index)
        assert np.array_equal(Cosine(material).to(index), expected)


@pytest.mark.parametrize(
    ("text", "tokens"),
    # 40 + ceil(bytes / 4): 0 -> 40; 3 -> 41; 4 -> 41; 5 -> 42; two letters of 2 bytes -> 41
    [("", 40), ("CEO", 41), ("four", 41), ("fiver", 42), ("éé", 41), ("ééé", 42)],
)
def test_a_token_is_four_bytes_over_forty(text: str, tokens: int) -> None:
    assert by_value_bytes(text) == tokens


def test_the_seeds_loop_stops_at_the_first_fact_that_does_not_fit() -> None:
    # 50 fits 100; 60 does not fit the 50 left; 41 would.
    packed = pack(ByScore(3), [50, 60, 41], budget=100, limit=10, skips_max=0)
    assert packed == [0]


def test_skipping_tries_smaller_facts() -> None:
    packed = pack(ByScore(3), [50, 60, 41], budget=100, limit=10, skips_max=1)
    assert packed == [0, 2]


def test_skipping_is_bounded() -> None:
    packed = pack(ByScore(4), [50, 60, 60, 41], budget=100, limit=10, skips_max=1)
    assert packed == [0]


def test_the_limit_stops_packing() -> None:
    assert pack(ByScore(3), [41] * 3, budget=1000, limit=2, skips_max=0) == [0, 1]


def test_no_budget_packs_nothing() -> None:
    assert pack(ByScore(3), [41] * 3, budget=0, limit=2, skips_max=9) == []


@given(
    costs=st.lists(st.integers(40, 200), max_size=30),
    budget=st.integers(0, 2000),
    limit=st.integers(0, 30),
    skips_max=st.integers(0, 5),
)
def test_packing_never_exceeds_budget_or_limit(
    costs: list[int], budget: int, limit: int, skips_max: int
) -> None:
    packed = pack(ByScore(len(costs)), costs, budget=budget, limit=limit, skips_max=skips_max)
    assert sum(costs[n] for n in packed) <= budget
    assert len(packed) == len(set(packed)) <= limit
