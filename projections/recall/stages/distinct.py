"""What a fact alone says: its cosine with the question without what the nearest facts share.

Facts of one memory resemble each other in manner and topic, and a question resembles what they
share. So their mean vector is taken off in part, and what is left decides a share of the score.

``(c - common * m) / |v - common * mean|`` for a fact ``v`` with the cosine ``c``, where ``mean`` is
that of the ``nearest`` facts and ``m`` its product with the question. A fact that is not among them
counts as if it resembled the mean as they do on average.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F32, F64, I32
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.in_memory import COSINE_DECIMALS
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import best_indices

LENGTH_MIN = 1e-3
"""The least length of a vector without the common part."""


class Own(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``share``: of the score that the distinct cosine decides. ``common``: how much of the mean is
    taken off. ``nearest``: how many facts the mean is of."""

    share: Annotated[float, Meta(ge=0, lt=1)]
    common: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    nearest: Annotated[int, Meta(ge=1, le=5000)] = 300

    def blended(self, scores: F64, distinct: F64, floor: float) -> F64:
        """``scores`` with the share of the distinct cosines. The floor shrinks as cosines do."""
        floor *= 1.0 - self.common
        alone = np.maximum((distinct - floor) / (1.0 - floor), 0.0)
        return (1.0 - self.share) * scores + self.share * alone


def distinct_cosines(
    survey: Survey, semantics: Semantics, query: F32, slots: I32, cosines: F64, own: Own
) -> F64:
    """The distinct cosine of each of ``slots``, given their cosines."""
    if not len(slots):
        return cosines
    best = best_indices(cosines, own.nearest, lambda at: survey.view.ages(slots[at]))
    rows = semantics.vectors.rows(slots[best])[0].astype(np.float64)
    mean: F64 = rows.mean(axis=0)
    squared = float(np.vecdot(mean, mean))
    likeness = np.full(len(slots), squared)
    # Each row by itself: the last bits of a matrix product depend on the other rows.
    likeness[best] = np.vecdot(rows, mean)
    length = np.sqrt(1.0 - 2.0 * own.common * likeness + own.common**2 * squared)
    left = cosines - own.common * float(np.vecdot(mean, query.astype(np.float64)))
    return np.round(left / np.maximum(length, LENGTH_MIN), COSINE_DECIMALS)
