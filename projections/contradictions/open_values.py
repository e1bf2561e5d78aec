"""Which values of a key a value that was claimed later contradicts, as a caller sees it.

A list of conflicts asks for value after value of one key, so each key is looked at once.
"""

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.rival_values import Validity, highest_beside
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment


class _Key(Struct, frozen=True):
    """The competing claims of a key. ``ages``: the higher, the later the claim's value was claimed
    last, also by claims that do not compete now. ``opposed``: by value that one of a later value
    overlaps, the place of its newest claim that it overlaps.

    Of two values, only the one whose last claim is older shows the conflict, so no pair shows
    twice.
    """

    slots: I32
    ages: I64
    opposed: dict[int, int]


class OpenValues:
    """The values in open conflicts that ``authorization`` sees at ``moment``."""

    def __init__(self, view: View, moment: Moment, authorization: Authorization) -> None:
        self._view, self._moment, self._authorization = view, moment, authorization
        self._keys: dict[int, _Key] = {}

    def sides(self, slot: int) -> tuple[int, int] | None:
        """The facts that now represent the later value and this fact's value, or None: no
        claim of a value competes, or the relation is now set-valued."""
        view = self._view
        if view.is_set_valued(int(view.relation[slot]), self._moment):
            return None
        key = int(view.key[slot])
        if key not in self._keys:
            self._keys[key] = self._claims(key)
        claims = self._keys[key]
        place = claims.opposed.get(int(view.value[slot]))
        if place is None:
            return None
        own = int(claims.slots[place])
        rivals = claims.slots[claims.ages > claims.ages[place]]
        rivals = rivals[
            (view.valid_from[rivals] < view.valid_until[own])
            & (view.valid_from[own] < view.valid_until[rivals])
        ]
        return int(rivals[np.argmax(view.hlc[rivals])]), own

    def _claims(self, key: int) -> _Key:
        view = self._view
        slots = view.key_slots(key)
        slots = slots[self._authorization.mask(view, slots)]
        slots = slots[view.claimed(slots, self._moment)]
        known, value = np.unique(view.value[slots], return_inverse=True)
        last: I64 = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(last, value, view.hlc[slots])
        _, age = np.unique(last, return_inverse=True)
        ages = age[value].astype(np.int64)
        competing = view.competing_claims(slots, self._moment)
        slots, ages = slots[competing], ages[competing]
        values = view.value[slots]
        validity = Validity(view.valid_from[slots], view.valid_until[slots], values)
        opposed = np.flatnonzero(highest_beside(validity, validity, ages) > ages)
        opposed = opposed[np.argsort(-view.hlc[slots[opposed]], kind="stable")]
        found, newest = np.unique(values[opposed], return_index=True)
        return _Key(slots, ages, dict(zip(found.tolist(), opposed[newest].tolist(), strict=True)))
