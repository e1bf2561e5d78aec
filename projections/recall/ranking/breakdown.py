"""The numbers of a score in every answer: the protocol's six, and their factors.

``relevance * confidence_factor * trust_factor * other_factors = weighted_total``, and
``weighted_total * scale = score``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64
from engramlog.projections.recall.profile import FactorChoice
from engramlog.projections.recall.ranking.scoring import SCORE_DECIMALS, Scored


class ScoreBreakdown(Struct, frozen=True, gc=False):
    """The protocol's six numbers, and their parts: ``relevance`` times the three factors is
    ``weighted_total``, and that times ``scale`` is the score."""

    lexical: float
    semantic: float
    graph: float
    source_trust: float
    recency: float
    weighted_total: float
    relevance: float
    confidence_factor: float
    trust_factor: float
    other_factors: float
    scale: float


BREAKDOWN_KEYS = ScoreBreakdown.__struct_fields__
SCALED_MAX, CERTAIN_BELOW = 2.0**40, 0.499
"""A double below 2^40 that was multiplied once is wrong by less than 0.001."""


def breakdowns(
    scored: Scored,
    choices: Sequence[FactorChoice],
    indices: Sequence[int | None],
    trust: Sequence[float],
) -> list[ScoreBreakdown]:
    """The breakdown of each of an answer's facts; 0 and factors of 1 for one that no stage found.

    Args:
        choices: the profile's factors.
        indices: of each fact among the scored; None for one that no stage found.
        trust: in each fact's source, at the Moment.
    """
    if all(index is None for index in indices):
        return [_unfound(each) for each in trust]
    at = np.array([index or 0 for index in indices])
    shown = _shown_numbers(scored, choices)
    rows = rounded(np.stack([numbers[at] for numbers in shown.values()]))
    known = dict(zip(shown, rows, strict=True))
    known["other_factors"] = _other_factors(known)
    columns = {name: [number] * len(at) for name, number in _UNFOUND.items()}
    columns |= {name: numbers.tolist() for name, numbers in known.items()}
    columns["scale"] = [round(scored.scale, SCORE_DECIMALS)] * len(at)
    columns["source_trust"] = list(trust)
    made = list(map(ScoreBreakdown, *columns.values()))  # by position: far sooner than by name
    for number, index in enumerate(indices):
        if index is None:
            made[number] = _unfound(trust[number])
    return made


def _other_factors(known: Mapping[str, F64]) -> F64:
    """The product of the factors that are not shown, given the shown numbers."""
    product = known["relevance"]
    for name in ("confidence_factor", "trust_factor"):
        product = product * known.get(name, 1.0)
    # Without relevance only a floor made the score: no factors can be shown.
    ones = np.ones(len(product))
    return rounded(np.divide(known["weighted_total"], product, out=ones, where=product != 0))


def _unfound(trust: float) -> ScoreBreakdown:
    return ScoreBreakdown(**(_UNFOUND | {"source_trust": trust}))


def rounded(numbers: F64) -> F64:
    """Each number as ``round`` gives it, to ``SCORE_DECIMALS``; a call for each costs more."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = numbers * 10.0**SCORE_DECIMALS
        whole = np.rint(scaled)
        # The nearest integer is certain, unless the product is huge or close to a half.
        certain = (np.abs(scaled - whole) < CERTAIN_BELOW) & (np.abs(scaled) < SCALED_MAX)
    found: F64 = whole / 10.0**SCORE_DECIMALS
    for place in zip(*(~certain).nonzero(), strict=True):
        found[place] = round(float(numbers[place]), SCORE_DECIMALS)
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
