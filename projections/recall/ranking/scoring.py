"""From the fused candidates to one score each: factors in the profile's order."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64
from engramlog.projections.recall.factors.factors import FACTORS
from engramlog.projections.recall.factors.features import Features
from engramlog.projections.recall.profile import FactorChoice
from engramlog.projections.recall.ranking.fusion import Fused

SCORE_DECIMALS = 9
"""Scores are rounded to this many places before comparison, so that the last bits of floating-point
arithmetic never decide an order."""


class Scored(Struct, frozen=True):
    """In the order of the fused slots. ``weighted``: the sum before factors multiply. ``total``:
    the score before ``scale`` turns it into a chance (see ``chance``)."""

    fused: Fused
    features: Features
    factors: dict[str, F64]
    weighted: F64
    score: F64
    scale: float = 1.0
    unscaled: F64 | None = None

    @property
    def total(self) -> F64:
        return self.score if self.unscaled is None else self.unscaled

    def only(self, index: int) -> dict[str, float]:
        """The factors of one candidate, rounded for people."""
        return {name: round(float(v[index]), SCORE_DECIMALS) for name, v in self.factors.items()}


def score(
    fused: Fused, features: Features, choices: Sequence[FactorChoice], weights: dict[str, float]
) -> Scored:
    """Apply the factors to the fused scores, one after the other (see ``factors``)."""
    weighted, total = fused.score, fused.score
    values: dict[str, F64] = {}
    for choice in choices:
        value = FACTORS[choice.name].compute(features, choice.parameters)
        values[choice.name] = value
        if choice.mode == "mul":
            total = total * value
        elif choice.mode == "floor":
            total = np.maximum(total, value)
        else:
            added = value * weights[choice.name] if choice.mode == "add" else value
            weighted, total = weighted + added, total + added
    return Scored(fused, features, values, weighted, np.round(total, SCORE_DECIMALS))
