"""Fusion by reciprocal ranks: the seed's numbers, and invariants."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.recall.ranking.fusion import (
    by_maximum,
    by_range,
    reciprocal_ranks,
    weighted_sum,
)
from engramlog.projections.recall.stages.candidates import Candidates

NONE = np.empty(0, dtype=np.int32)


def hits(**scores: float) -> Candidates:
    """``s3=0.5`` is the fact of slot 3 with that score."""
    named = sorted((int(name[1:]), score) for name, score in scores.items())
    return Candidates(
        np.array([slot for slot, _ in named], dtype=np.int32),
        np.array([score for _, score in named]),
        np.zeros(len(named), dtype=np.int32),
        lambda _: [],
    )


def test_ranks_count_and_scores_do_not() -> None:
    stages = {"a": hits(s1=9.0, s2=8.9), "b": hits(s2=0.01, s3=0.001)}
    fused = reciprocal_ranks(stages, {"a": 0.5, "b": 0.5}, by_maximum, NONE)
    assert fused.slots.tolist() == [1, 2, 3]
    # 61/2 · 1/61; 61/2 · (1/62 + 1/61); 61/2 · 1/62
    assert fused.score == pytest.approx([0.5, 0.991935483870968, 0.491935483870968])


def test_equal_scores_rank_by_age_and_weightless_stages_by_nothing() -> None:
    stages = {"a": hits(s5=1.0, s4=1.0), "b": hits(s9=1.0)}
    fused = reciprocal_ranks(stages, {"a": 1.0, "b": 0.0}, by_maximum, NONE)
    assert fused.slots.tolist() == [4, 5]
    assert fused.score == pytest.approx([1.0, 61 / 62])


def test_facts_that_no_stage_proposed_score_nothing() -> None:
    always = np.array([7], dtype=np.int32)
    fused = reciprocal_ranks({"a": hits(s1=1.0)}, {"a": 1.0}, by_maximum, always)
    assert dict(zip(fused.slots.tolist(), fused.score.tolist(), strict=True)) == {1: 1.0, 7: 0.0}


def test_a_best_score_below_the_whole_one_counts_in_proportion() -> None:
    weak = msgspec.structs.replace(hits(s1=0.25, s2=0.5), whole=2.0)
    fused = weighted_sum({"a": weak}, {"a": 1.0}, by_maximum, NONE)
    assert fused.score.tolist() == [0.125, 0.25]
    strong = msgspec.structs.replace(hits(s1=1.0, s2=4.0), whole=2.0)
    fused = weighted_sum({"a": strong}, {"a": 1.0}, by_maximum, NONE)
    assert fused.score.tolist() == [0.25, 1.0]


@given(
    st.lists(
        st.dictionaries(st.integers(0, 9), st.floats(0.01, 1.0), min_size=1, max_size=8),
        min_size=2,
        max_size=4,
    ),
    st.randoms(),
)
def test_the_order_of_stages_does_not_matter(lists: list[dict[int, float]], random: object) -> None:
    stages = {
        f"stage{n}": hits(**{f"s{slot}": score for slot, score in each.items()})
        for n, each in enumerate(lists)
    }
    names = list(stages)
    random.shuffle(names)  # type: ignore[attr-defined]
    weights = dict.fromkeys(stages, 1 / len(stages))
    one = reciprocal_ranks(stages, weights, by_maximum, NONE)
    other = reciprocal_ranks({n: stages[n] for n in names}, weights, by_maximum, NONE)
    assert one.slots.tolist() == other.slots.tolist()
    assert one.score == pytest.approx(other.score)


@pytest.mark.parametrize(
    ("scores", "stretched"),
    [([2.0, 4.0, 3.0], [0.0, 1.0, 0.5]), ([0.7, 0.7], [1.0, 1.0]), ([], [])],
)
def test_scores_are_stretched_over_their_range(scores: list[float], stretched: list[float]) -> None:
    assert by_range(np.array(scores, dtype=np.float64)).tolist() == stretched
