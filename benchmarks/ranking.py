"""The quality of a ranking, question by question, and the comparison of two."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

RESAMPLES = 10_000


class Answered(Struct, frozen=True):
    """One question's answer: the share of the evidence that was ``found``, whether the ``first``
    fact is evidence, its ``score``, whether the answer calls its evidence ``weak``, and the chance
    that the memory knows an answer."""

    found: float
    first: float
    score: float
    weak: bool
    answerable: float
    category: str


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that one of the first scores higher than one of the second; equals count half."""
    one, other = np.array(positive)[:, None], np.array(negative)[None, :]
    wins, draws = np.count_nonzero(one > other), np.count_nonzero(one == other)
    return (wins + 0.5 * draws) / (one.size * other.size)


def found(ranked: Sequence[str], evidence: frozenset[str]) -> float:
    """Share of the evidence anywhere in ``ranked``."""
    return len(evidence & set(ranked)) / len(evidence)


class Difference(Struct, frozen=True):
    """Mean of paired differences and the interval that holds 95 % of the resampled means."""

    mean: float
    low: float
    high: float


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], seed: int = 7, resamples: int = RESAMPLES
) -> Difference:
    """How much better ``ours`` is, per question, over resampled questions."""
    differences = np.asarray(ours) - np.asarray(theirs)
    chance = np.random.default_rng(seed)
    count = len(differences)
    means = [
        float(differences[chance.integers(count, size=count)].mean()) for _ in range(resamples)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(float(differences.mean()), float(low), float(high))
