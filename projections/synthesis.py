"""What a scope knows at a moment, in numbers, with its newest facts (wire 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from projections.arrays import I32, Bool
from projections.selection import live

if TYPE_CHECKING:
    from projections.authorization import Authorization
    from projections.moment import Moment
    from projections.view import View

CONFIDENCE_DECIMALS = 6


class Synthesis(Struct, frozen=True):
    """Counted over all facts that hold, of which ``newest`` are some. Times in microseconds,
    None without facts. ``contradictions``: (entity, relation) keys that nobody settled;
    ``expired``: facts whose validity is over, whether included or not."""

    newest: I32
    total: int
    contradictions: int
    mean_confidence: float | None
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
) -> Synthesis:
    """The facts that the caller may read and that hold at the moment, newest first."""
    unended = live(view, authorization, moment, include_expired=True)
    over: Bool = view.valid_until[unended] <= moment.valid_us
    slots = unended if include_expired else unended[~over]
    contradicted = view.contradicted(slots, moment, authorization)
    unsettled = contradicted & (view.set_aside[slots] > moment.position)
    recorded = view.recorded_at[slots]
    mean = view.confidence(slots, moment).mean() if len(slots) else None
    order = np.lexsort((slots, view.hlc[slots]))[::-1]
    return Synthesis(
        newest=slots[order[:limit]],
        total=len(slots),
        contradictions=len(np.unique(view.key[slots[unsettled]])),
        mean_confidence=None if mean is None else round(float(mean), CONFIDENCE_DECIMALS),
        freshest_us=int(recorded.max()) if len(slots) else None,
        oldest_us=int(recorded.min()) if len(slots) else None,
        expired=int(np.count_nonzero(over)),
    )
