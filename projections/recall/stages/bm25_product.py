"""abmind's score of a full-text hit (its seed, "Scoring formula for FTS hits").

``(bm25 + emotion * ln(1 + |e|)) * (1 + recall * recalls) * (1 + relevance if above 0) * (0.5 + 0.5
* trust / 3) * credibility * tier * recency``, and recency is ``max(decay_floor, 1 - age /
decay_days) * (1 + |e| * emotion_recency)``.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64
from engramlog.projections.recall.factors.memory_features import Memories

TRUST_MAX = 3
CREDIBLE = 2
"""The worst credibility (of 6) that still raises a score."""

Share = Annotated[float, Meta(ge=0, le=1)]
Lift = Annotated[float, Meta(ge=1, le=10)]


class Product(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The numbers of the formula; defaults from the seed."""

    emotion: Share = 0.5
    recall: Share = 0.1
    relevance: Share = 0.2
    trust_floor: Share = 0.5
    credibility: Lift = 1.25
    tier: Lift = 1.3
    decay_days: Annotated[float, Meta(gt=0)] = 365.0
    decay_floor: Share = 0.3
    emotion_recency: Share = 0.1


def bm25_product(bm25: F64, facts: Memories, numbers: Product) -> F64:
    """A score of each hit, above 0 for a bm25 above 0."""
    feeling: F64 = np.abs(facts.emotion).astype(np.float64)
    trust = facts.trust / TRUST_MAX
    recency = np.maximum(numbers.decay_floor, 1.0 - facts.age_days / numbers.decay_days)
    return (
        (bm25 + numbers.emotion * np.log1p(feeling))
        * (1.0 + numbers.recall * facts.recall_count)
        * np.where(facts.relevance > 0, 1.0 + numbers.relevance, 1.0)
        * (numbers.trust_floor + (1.0 - numbers.trust_floor) * trust)
        * np.where(facts.credibility <= CREDIBLE, numbers.credibility, 1.0)
        * np.where(facts.core, numbers.tier, 1.0)
        * recency
        * (1.0 + feeling * numbers.emotion_recency)
    )
