"""Which facts a caller sees at a moment: the gate that every read goes through first."""

from collections.abc import Iterable, Sequence

import numpy as np

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import NO_END, NO_START, Moment


def known(
    view: View, authorization: Authorization, moment: Moment, slots: I32 | None = None
) -> I32:
    """Readable slots of facts asserted by the moment."""
    chosen = everything(view) if slots is None else slots
    if view.count and view.from_position[-1] > moment.position:  # the last fact is the newest
        chosen = chosen[view.from_position[chosen] <= moment.position]
    return chosen[authorization.mask(view, chosen)]


def is_known(view: View, authorization: Authorization, moment: Moment, slot: int) -> bool:
    """Whether ``known`` has the slot."""
    asserted = view.from_position[slot] <= moment.position
    return bool(asserted and authorization.mask(view, np.int32(slot)))


def saying(
    view: View,
    slots: I32,
    *,
    entity: str | None = None,
    relation: str | None = None,
    source: str | None = None,
) -> I32:
    """Those of ``slots`` with these names, in stored form; None for any."""
    for text, interner, column in (
        (entity, view.entities, view.entity),
        (relation, view.relations, view.relation),
        (source, view.sources, view.source),
    ):
        if text is not None:
            number = interner.number(text)
            slots = slots[:0] if number is None else slots[column[slots] == number]
    return slots


def readable_of(view: View, authorization: Authorization, names: Iterable[str]) -> dict[str, int]:
    """Slots of those of the facts (ids) that the caller may read."""
    slots = {name: slot for name in names if (slot := view.slot_of(name)) is not None}
    if not slots:
        return slots
    mask = authorization.mask(view, np.fromiter(slots.values(), np.int32, len(slots)))
    pairs = zip(slots.items(), mask.tolist(), strict=True)
    return {name: slot for (name, slot), allowed in pairs if allowed}


def kept_from(view: View, authorization: Authorization, names: Sequence[str]) -> list[str]:
    """Those of the facts (ids) that the caller may not read; unknown ids are not listed."""
    shown = readable_of(view, authorization, names)
    unseen = (name for name in dict.fromkeys(names) if name not in shown)
    return [name for name in unseen if view.slot_of(name) is not None]


def may_know_settlement(
    view: View, authorization: Authorization, winner: str, losers: Sequence[str]
) -> bool:
    """Whether the caller may know of a settlement or a denial: both sides must be readable."""
    kept = kept_from(view, authorization, (winner, *losers))
    return winner not in kept and not (losers and {*losers} <= {*kept})


def hidden_positions(view: View, authorization: Authorization) -> frozenset[int]:
    """Positions of facts that are classified too high for the caller, whatever else hides them: for
    readers of the log itself. Usually few or none."""
    if not view.confidential and authorization.ceiling >= OPEN_CLASS:
        return frozenset()
    hidden = ~authorization.cleared(view, None)
    return frozenset(view.from_position[hidden].tolist())


def live(
    view: View,
    authorization: Authorization,
    moment: Moment,
    slots: I32 | None = None,
    *,
    include_expired: bool = False,
    include_retracted: bool = False,
) -> I32:
    """Readable slots of live facts at the moment.

    A fact is live if it was asserted and not retracted by the moment's position, has a confidence
    above 0, and is valid at ``moment.valid_us`` (unless ``include_expired``). ``include_retracted``
    keeps retracted facts and the confidence-0 records that retracted them.
    """
    if slots is None:
        mask = live_mask(
            view,
            authorization,
            moment,
            include_expired=include_expired,
            include_retracted=include_retracted,
        )
        return np.flatnonzero(mask).astype(np.int32)
    chosen = known(view, authorization, moment, slots)
    keep = np.ones(len(chosen), dtype=bool)
    _clear_ended(keep, view, moment, chosen, include_expired, include_retracted)
    return chosen[keep]


def expiry_around(view: View, moment: Moment, slots: I32 | None = None) -> tuple[int, int]:
    """The instants of the Moment's valid time between which no fact (of ``slots``) expires."""
    ends = view.valid_until if slots is None else view.valid_until[slots]
    ends = ends[ends < NO_END]
    gone = ends <= moment.valid_us
    since = int(ends[gone].max(initial=NO_START))
    return since, int(ends[~gone].min(initial=NO_END))


def live_mask(
    view: View,
    authorization: Authorization,
    moment: Moment,
    *,
    include_expired: bool = False,
    include_retracted: bool = False,
) -> Bool:
    keep = authorization.mask(view)
    # Positions ascend with the slots, so the facts known then come first in the columns.
    keep[int(view.from_position.searchsorted(moment.position, side="right")) :] = False
    _clear_ended(keep, view, moment, slice(None), include_expired, include_retracted)
    return keep


def _clear_ended(
    keep: Bool,
    view: View,
    moment: Moment,
    at: I32 | slice,
    include_expired: bool,
    include_retracted: bool,
) -> None:
    if not include_retracted:
        keep &= view.to_position[at] > moment.position
        keep &= view.base[at] > 0.0
    if not include_expired:
        keep &= view.valid_until[at] > moment.valid_us
    if moment.valid_at_us is not None:
        keep &= view.valid_from[at] <= moment.valid_at_us
        keep &= view.valid_until[at] > moment.valid_at_us
