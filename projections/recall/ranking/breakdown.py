"""The numbers of a score, as every answer carries them: the protocol's six, and those with which
they multiply out.

``relevance * confidence_factor * trust_factor * other_factors = weighted_total``, and
``weighted_total * scale = score``.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def breakdown(
    scored: Scored, choices: Sequence[FactorChoice], index: int | None, trust: float
) -> dict[str, float]:
    """The numbers of one candidate; of a fact that no stage found, 0 and factors of 1.

    Args:
        choices: the profile's factors.
        trust: in the fact's source, at the Moment.
    """
    parts = dict.fromkeys(BREAKDOWN_KEYS, 0.0) | {"source_trust": trust}
    parts |= dict.fromkeys(("confidence_factor", "trust_factor", "other_factors", "scale"), 1.0)
    if index is None:
        return parts
    for name in parts.keys() & scored.fused.normalised.keys():
        parts[name] = _rounded(scored.fused.normalised[name], index)
    if "recency" in scored.factors:
        parts["recency"] = _rounded(scored.factors["recency"], index)
    parts["relevance"] = _rounded(scored.weighted, index)
    parts["weighted_total"] = _rounded(scored.total, index)
    multiplying = {choice.name for choice in choices if choice.mode == "mul"}
    if "confidence" in multiplying:
        parts["confidence_factor"] = _rounded(scored.factors["confidence"], index)
    if "source_trust" in multiplying:
        parts["trust_factor"] = _rounded(scored.factors["source_trust"], index)
    known = parts["relevance"] * parts["confidence_factor"] * parts["trust_factor"]
    # Where nothing is known a floor alone made the score, and there is nothing to multiply.
    if known:
        parts["other_factors"] = round(parts["weighted_total"] / known, SCORE_DECIMALS)
    parts["scale"] = round(scored.scale, SCORE_DECIMALS)
    return parts


def _rounded(numbers: F64, index: int) -> float:
    return round(float(numbers[index]), SCORE_DECIMALS)
