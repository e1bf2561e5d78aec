"""How good a ranking is, question by question, and whether one is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

RESAMPLES = 10_000


class Grade(Struct, frozen=True):
    """One question's ranking, all in [0, 1].

    Attributes:
        found10: share of the evidence among the first ten.
        any5, all5, any10, all10: whether any or all of it is among the first five or ten.
        ndcg10: normalised discounted cumulative gain of the first ten.
    """

    found10: float
    any5: float
    all5: float
    any10: float
    all10: float
    ndcg10: float


def grade(ranked: Sequence[str], evidence: frozenset[str]) -> Grade:
    """Compare a ranking with what should have been found; ``evidence`` is not empty."""
    hits = [each in evidence for each in ranked[:10]]
    gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(evidence), 10)))
    five, ten = sum(hits[:5]), sum(hits)
    return Grade(
        found10=ten / len(evidence),
        any5=float(five > 0),
        all5=float(five == len(evidence)),
        any10=float(ten > 0),
        all10=float(ten == len(evidence)),
        ndcg10=gain / ideal,
    )


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
    """How much better ``ours`` is, question by question, were other questions drawn."""
    differences = np.asarray(ours) - np.asarray(theirs)
    chance = np.random.default_rng(seed)
    count = len(differences)
    means = [
        float(differences[chance.integers(count, size=count)].mean()) for _ in range(resamples)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(float(differences.mean()), float(low), float(high))
