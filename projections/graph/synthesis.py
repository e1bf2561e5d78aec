"""A scope in numbers at a moment, with its most confident facts (wire 2.2)."""

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment

CONFIDENCE_DECIMALS = 6


class SynthesisCounts(Struct, frozen=True):
    """Counted over all live facts; ``foremost`` are some of them. Times in microseconds, None
    without facts. ``contradictions``: facts in an unresolved contradiction. ``expired``: facts
    whose validity is over, included or not."""

    foremost: I32
    total: int
    contradictions: int
    mean_confidence: float
    freshest_us: int | None
    oldest_us: int | None
    expired: int


def synthesize(
    view: View,
    authorization: Authorization,
    moment: Moment,
    *,
    include_expired: bool,
    limit: int,
) -> SynthesisCounts:
    """The readable live facts at the moment: the most confident first, of equals the newest."""
    unended = live(view, authorization, moment, include_expired=True)
    over: Bool = view.valid_until[unended] <= moment.valid_us
    slots = unended if include_expired else unended[~over]
    contradicted = are_contradicted(view, slots, moment, authorization)
    unsettled = contradicted & (view.set_aside[slots] > moment.position)
    recorded = view.recorded_at[slots]
    confidence = view.confidence(slots, moment)
    mean = float(confidence.mean()) if len(slots) else 0.0
    order = np.lexsort((slots, view.hlc[slots], confidence))[::-1]
    return SynthesisCounts(
        foremost=slots[order[:limit]],
        total=len(slots),
        contradictions=int(np.count_nonzero(unsettled)),
        mean_confidence=round(mean, CONFIDENCE_DECIMALS),
        freshest_us=int(recorded.max()) if len(slots) else None,
        oldest_us=int(recorded.min()) if len(slots) else None,
        expired=int(np.count_nonzero(over)),
    )
