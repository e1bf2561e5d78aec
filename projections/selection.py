"""Which facts a caller sees at a moment: the gate that every read goes through first."""

from __future__ import annotations

import numpy as np

from projections.arrays import I32
from projections.authorization import Authorization
from projections.moment import Moment
from projections.view import View, everything


def known(
    view: View, authorization: Authorization, moment: Moment, slots: I32 | None = None
) -> I32:
    """Slots the caller may read that had been asserted by the moment."""
    chosen = everything(view) if slots is None else slots
    chosen = chosen[view.from_position[chosen] <= moment.position]
    return chosen[authorization.mask(view, chosen)]


def live(
    view: View,
    authorization: Authorization,
    moment: Moment,
    slots: I32 | None = None,
    *,
    include_expired: bool = False,
    include_retracted: bool = False,
) -> I32:
    """Slots the caller may read whose facts hold at the moment.

    A fact holds if it was asserted by the moment's position, was not retracted by it, has
    a confidence above 0 and, unless ``include_expired``, is valid in the world at
    ``moment.valid_us``. ``include_retracted`` keeps retracted facts and the confidence-0
    records that retracted them.
    """
    chosen = known(view, authorization, moment, slots)
    keep = np.ones(len(chosen), dtype=bool)
    if not include_retracted:
        keep &= (view.to_position[chosen] > moment.position) & (view.base[chosen] > 0.0)
    if not include_expired:
        keep &= view.valid_until[chosen] > moment.valid_us
    if moment.valid_at_us is not None:
        keep &= view.valid_from[chosen] <= moment.valid_at_us
        keep &= view.valid_until[chosen] > moment.valid_at_us
    return chosen[keep]
