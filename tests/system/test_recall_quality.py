"""The measures of the benchmark, and what they say of one conversation where it is at hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import locomo, recall_quality
from benchmarks.ranking import found, grade, paired_bootstrap


def test_a_ranking_is_graded_by_what_it_finds() -> None:
    ranked = ["x", "a", "x", "x", "x", "b", *("x" * 4), "c"]
    of = grade(ranked, frozenset("abc"))
    assert of.found10 == pytest.approx(2 / 3)
    assert (of.any5, of.all5, of.any10, of.all10) == (1.0, 0.0, 1.0, 0.0)
    # "a" is second, "b" sixth; ideally three hits are first, second and third.
    gain = 1 / math.log2(3) + 1 / math.log2(7)
    assert of.ndcg10 == pytest.approx(gain / (1 + 1 / math.log2(3) + 1 / 2))
    assert found(ranked, frozenset("abcd")) == 0.75


def test_the_bootstrap_is_of_the_paired_differences() -> None:
    same = paired_bootstrap([0.2, 0.9, 0.4], [0.2, 0.9, 0.4], resamples=50)
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)
    chance = np.random.default_rng(1)
    theirs = chance.random(200)
    better = paired_bootstrap((theirs + 0.1).tolist(), theirs.tolist(), resamples=50)
    assert (better.low, better.high) == pytest.approx((0.1, 0.1))


def test_every_system_and_variant_is_a_valid_profile() -> None:
    assert {"default", recall_quality.BASELINE} < recall_quality.systems().keys()
    assert len(recall_quality.variants()) > 5


@pytest.mark.skipif(not locomo.DATA.exists(), reason="../shared/data/locomo is not here")
def test_default_finds_much_more_than_plain_bm25(tmp_path: Path) -> None:
    """Without a model: the words alone, read in their conversation."""
    systems = recall_quality.systems()
    conversation = min(locomo.conversations(), key=lambda each: len(each.turns))
    with locomo.stored(tmp_path, [conversation], None) as stores:
        shares = {
            name: np.mean([g.found10 for g in recall_quality.grades(stores, systems[name])])
            for name in ("default", recall_quality.BASELINE)
        }
    assert shares["default"] > shares[recall_quality.BASELINE] + 0.08
