"""The numbers of a score in every answer: the protocol's six, and their factors.

``relevance * confidence_factor * trust_factor * other_factors = weighted_total``, and
``weighted_total * scale = score``.
"""

from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import F64
from engramlog.projections.recall.profile import FactorChoice
from engramlog.projections.recall.ranking.scoring import SCORE_DECIMALS, Scored
from engramlog.projections.recall.request import STAGE_KEYS

BREAKDOWN_KEYS = (
    *STAGE_KEYS,
    "source_trust",
    "recency",
    "weighted_total",
    "relevance",
    "confidence_factor",
    "trust_factor",
    "other_factors",
    "scale",
)


SCALED_MAX, CERTAIN_BELOW = 2.0**40, 0.499
"""A double below 2^40 that was multiplied once is wrong by less than 0.001."""


class Breakdowns:
    """The breakdowns of one answer's facts. ``choices``: the profile's factors. ``indices``: of
    each fact among the scored; None for one that no stage found."""

    def __init__(
        self, scored: Scored, choices: Sequence[FactorChoice], indices: Sequence[int | None]
    ) -> None:
        self._scale = round(scored.scale, SCORE_DECIMALS)
        self._columns: dict[str, list[float]] = {}
        if any(index is not None for index in indices):
            at = [index or 0 for index in indices]
            shown = _shown_numbers(scored, choices)
            columns = rounded(np.stack([numbers[at] for numbers in shown.values()]))
            self._columns = dict(zip(shown, columns, strict=True))
        self._indices = indices

    def of(self, number: int, trust: float) -> dict[str, float]:
        """The numbers of a fact; for one that no stage found, 0 and factors of 1. ``trust``: in the
        fact's source, at the Moment."""
        parts = _UNFOUND.copy()
        parts["source_trust"] = trust
        if self._indices[number] is None:
            return parts
        for name, column in self._columns.items():
            parts[name] = column[number]
        known = parts["relevance"] * parts["confidence_factor"] * parts["trust_factor"]
        # Without relevance only a floor made the score: no factors can be shown.
        if known:
            parts["other_factors"] = round(parts["weighted_total"] / known, SCORE_DECIMALS)
        parts["scale"] = self._scale
        return parts


def rounded(numbers: F64) -> list[list[float]]:
    """Each number as ``round`` gives it, to ``SCORE_DECIMALS``; a call for each costs more."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = numbers * 10.0**SCORE_DECIMALS
        whole = np.rint(scaled)
        # The nearest integer is certain, unless the product is huge or close to a half.
        certain = (np.abs(scaled - whole) < CERTAIN_BELOW) & (np.abs(scaled) < SCALED_MAX)
    found: list[list[float]] = (whole / 10.0**SCORE_DECIMALS).tolist()
    for row, column in np.argwhere(~certain).tolist():
        found[row][column] = round(float(numbers[row, column]), SCORE_DECIMALS)
    return found


def _shown_numbers(scored: Scored, choices: Sequence[FactorChoice]) -> dict[str, F64]:
    """The shown numbers of every candidate, by key."""
    normalised = scored.fused.normalised
    shown = {name: normalised[name] for name in BREAKDOWN_KEYS if name in normalised}
    if "recency" in scored.factors:
        shown["recency"] = scored.factors["recency"]
    shown |= {"relevance": scored.weighted, "weighted_total": scored.total}
    multiplying = {choice.name for choice in choices if choice.mode == "mul"}
    if "confidence" in multiplying:
        shown["confidence_factor"] = scored.factors["confidence"]
    if "source_trust" in multiplying:
        shown["trust_factor"] = scored.factors["source_trust"]
    return shown


_FACTORS = ("confidence_factor", "trust_factor", "other_factors", "scale")
_UNFOUND = {name: 1.0 if name in _FACTORS else 0.0 for name in BREAKDOWN_KEYS}
