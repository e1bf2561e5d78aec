"""How memorable an episode is: recency, relevance, importance in [0, 1].

Recency counts from the last access and decays exponentially. Source: Park et al. 2023, by way of
the Stargraph seed. The seed multiplies by frequency and rule matches, so every untouched episode
has salience 0. ``add`` (the default) lets these range from one half to one instead; ``mul`` is the
seed's formula.
"""

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

DAY_S = 86_400.0
ACCESSES_SCALE = 10.0
MATCHES_SCALE = 5.0
_EXPONENT_MAX = 700.0
"""Beyond this, the exponential overflows a float."""

Weight = Annotated[float, Meta(ge=0.0, le=1_000.0)]


class SalienceWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of each part; an absent weight is 0, except for recency."""

    recency: Weight = 1.0
    relevance: Weight = 0.0
    importance: Weight = 0.0


class SalienceContext(Struct, frozen=True, kw_only=True):
    """The inputs of salience besides the episode. ``now_us`` and ``last_access_us`` are
    microseconds UTC; ``tau_seconds``: the time in which recency falls to 1/e. ``relevance``: the
    cosine of question and episode. Raises ValueError unless ``tau_seconds`` is above 0."""

    now_us: int
    last_access_us: int
    access_count: int = 0
    rule_match_count: int = 0
    relevance: float = 0.0
    importance: float = 0.0
    weights: SalienceWeights = SalienceWeights()
    tau_seconds: float = DAY_S
    frequency: Literal["add", "mul"] = "add"

    def __post_init__(self) -> None:
        if not self.tau_seconds > 0.0:
            raise ValueError("tau_seconds must be above 0")


def salience(context: SalienceContext) -> float:
    """The formula, clamped to [0, 1], so an access in the future cannot raise it above 1."""
    age_s = (context.now_us - context.last_access_us) / 1e6
    weights = context.weights
    weighted = (
        weights.recency * math.exp(min(_EXPONENT_MAX, -age_s / context.tau_seconds))
        + weights.relevance * context.relevance
        + weights.importance * context.importance
    )
    frequency = math.tanh(context.access_count / ACCESSES_SCALE)
    matches = math.tanh(context.rule_match_count / MATCHES_SCALE)
    if context.frequency == "add":
        frequency, matches = 0.5 + 0.5 * frequency, 0.5 + 0.5 * matches
    return max(0.0, min(1.0, weighted * frequency * matches))
