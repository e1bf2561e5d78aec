"""Which side of a contradiction a default list shows (wire 5.1).

Uncontradicted facts show; so does the winner of a settled contradiction. Of an open one
shows the value of strictly highest confidence; a tie hides all sides unless newness breaks
it. Facts that are never valid at the same time do not contradict each other.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from projections.arrays import F64, I32, I64, Bool
from projections.authorization import Authorization
from projections.moment import NO_END, NO_START, Moment
from projections.view import View, everything

FEW_KEYS = 64
"""Up to this many keys are looked up one by one; more, by one scan of everything."""


class Claims(Struct, frozen=True):
    """Standing facts of keys that hold several values: slot, key, value and rank of each."""

    slots: I32
    keys: I32
    values: I32
    confidence: F64
    hlc: I64

    def only(self, kept: Bool) -> Claims:
        return Claims(
            self.slots[kept],
            self.keys[kept],
            self.values[kept],
            self.confidence[kept],
            self.hlc[kept],
        )


def preferred(
    view: View,
    slots: I32,
    moment: Moment,
    authorization: Authorization,
    *,
    prefer_newest: bool = False,
) -> Bool:
    """Which of ``slots`` a default list shows; ``prefer_newest`` breaks ties by HLC."""
    claiming = _alive(view, slots, moment)
    shown = ~(claiming & (view.set_aside[slots] <= moment.position))
    contested = _contested(view, slots, moment, authorization, prefer_newest=prefer_newest)
    if not len(contested.slots):
        return shown
    timed = np.zeros(_key_count(view), dtype=np.bool_)
    bounded = (view.valid_from[contested.slots] != NO_START) | (
        view.valid_until[contested.slots] != NO_END
    )
    timed[contested.keys[bounded]] = True
    shown &= ~claiming | _lead(view, slots, contested.only(~timed[contested.keys]))
    for index in np.flatnonzero(claiming & shown & timed[view.key[slots]]).tolist():
        slot = int(slots[index])
        shown[index] = _leads(view, slot, contested.only(contested.keys == view.key[slot]))
    return shown


def _key_count(view: View) -> int:
    return int(view.key.max(initial=-1)) + 1


def _alive(view: View, slots: I32, moment: Moment) -> Bool:
    """Which facts still claim something: an ended one contradicts nobody."""
    return (
        (view.to_position[slots] > moment.position)
        & (view.base[slots] > 0.0)
        & (view.valid_until[slots] > moment.valid_us)
    )


def _contested(
    view: View,
    slots: I32,
    moment: Moment,
    authorization: Authorization,
    *,
    prefer_newest: bool,
) -> Claims:
    """The claims of those keys of ``slots`` that hold several values the caller can read."""
    keys = np.unique(view.key[slots])
    if len(keys) <= FEW_KEYS:
        parts = [view.key_slots(int(key)) for key in keys]
        standing = np.concatenate(parts) if parts else everything(view)[:0]
    else:
        standing = everything(view)
    standing = standing[view.standing(standing, moment)]
    standing = standing[authorization.mask(view, standing)]
    standing = standing[_mixed(view, standing)]
    standing = standing[~_several(view, standing, moment)]
    hlc: I64 = view.hlc[standing] if prefer_newest else np.zeros(len(standing), dtype=np.int64)
    return Claims(
        standing,
        view.key[standing],
        view.value[standing],
        view.confidence(standing, moment),
        hlc,
    )


def _mixed(view: View, standing: I32) -> Bool:
    """Which facts belong to a key with more than one value among ``standing``."""
    keys, values = view.key[standing], view.value[standing]
    first = np.full(_key_count(view), -1, dtype=np.int32)
    first[keys[::-1]] = values[::-1]
    mixed = np.zeros(len(first), dtype=np.bool_)
    mixed[keys[values != first[keys]]] = True
    found: Bool = mixed[keys]
    return found


def _several(view: View, standing: I32, moment: Moment) -> Bool:
    """Which facts have a relation that may hold several values at once."""
    numbers, inverse = np.unique(view.relation[standing], return_inverse=True)
    covered = [view.is_set_valued(int(number), moment) for number in numbers]
    found: Bool = np.array(covered, dtype=np.bool_)[inverse]
    return found


def _lead(view: View, slots: I32, claims: Claims) -> Bool:
    """Which of ``slots`` hold the value that leads their key, or are not contested at all."""
    order = np.lexsort((claims.hlc, claims.confidence, claims.keys))
    keys, values = claims.keys[order], claims.values[order]
    confidence, hlc = claims.confidence[order], claims.hlc[order]
    last = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)) if len(keys) else order
    count = _key_count(view)
    leading = np.full(count, -1, dtype=np.int32)
    leading[keys[last]] = values[last]
    top_confidence, top_hlc = np.zeros(count), np.zeros(count, dtype=np.int64)
    top_confidence[keys[last]], top_hlc[keys[last]] = confidence[last], hlc[last]
    level = (confidence == top_confidence[keys]) & (hlc == top_hlc[keys])
    leading[keys[level & (values != leading[keys])]] = -2
    own: I32 = leading[view.key[slots]]
    return (own == -1) | (own == view.value[slots])


def _leads(view: View, slot: int, claims: Claims) -> bool:
    """Whether a fact's value beats every value that overlaps it in validity."""
    overlapping = (view.valid_from[claims.slots] < view.valid_until[slot]) & (
        view.valid_from[slot] < view.valid_until[claims.slots]
    )
    own: Bool = claims.values == view.value[slot]
    mine = _best(claims.only(own))
    rivals: set[int] = set(claims.values[overlapping & ~own].tolist())
    return all(mine > _best(claims.only(claims.values == rival)) for rival in rivals)


def _best(claims: Claims) -> tuple[float, int]:
    ranks: list[tuple[float, int]] = list(
        zip(claims.confidence.tolist(), claims.hlc.tolist(), strict=True)
    )
    return max(ranks, default=(0.0, 0))
