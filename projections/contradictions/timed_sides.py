"""Which side shows where the facts of a key are valid at different times.

Only values that are valid at some time together with a fact compete with its value. Each fact may
so have other rivals; comparing each with each would take minutes for a key of many facts.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.contradictions.claims import Claims, Prefer
from engramlog.projections.image.rival_values import Validity, have_rivals, highest_beside
from engramlog.projections.image.view import View


class _Grouped(Struct, frozen=True):
    """Indexes by a number, from 0."""

    order: I64
    starts: I64

    @classmethod
    def of(cls, numbers: I64 | I32, count: int) -> _Grouped:
        order = np.argsort(numbers, kind="stable")
        return cls(order, numbers[order].searchsorted(np.arange(count + 1)))

    def under(self, numbers: tuple[int, ...]) -> I64:
        parts = [self.order[self.starts[n] : self.starts[n + 1]] for n in numbers]
        return np.concatenate(parts)


def hold_leading_in_time(view: View, slots: I32, claims: Claims, prefer: Prefer | None) -> Bool:
    """Which of ``slots``, all among the claims, have the leading value of those that are valid at
    some time together with them."""
    keys = np.unique(view.key[slots])
    asked = _Grouped.of(keys.searchsorted(view.key[slots]), len(keys))
    claims = claims.only(np.isin(claims.keys, keys))
    competing = _Grouped.of(keys.searchsorted(claims.keys), len(keys))
    leads: Bool = np.zeros(len(slots), dtype=np.bool_)
    for number in range(len(keys)):
        own = asked.under((number,))
        leads[own] = _lead(view, slots[own], claims.only(competing.under((number,))), prefer)
    return leads


def _lead(view: View, slots: I32, claims: Claims, prefer: Prefer | None) -> Bool:
    """The same for one key."""
    ranks = _ranks(claims, prefer)
    known, value = np.unique(claims.values, return_inverse=True)
    best: I64 = np.zeros(len(known), dtype=np.int64)
    np.maximum.at(best, value, ranks)
    siblings = _validity(view, claims.slots, value)
    own = known.searchsorted(view.value[slots])
    asked = _validity(view, slots, own)
    leads: Bool = best[own] >= highest_beside(asked, siblings, best[value])
    heard = _values_of_voices(claims, value, np.flatnonzero(ranks == best[value]), best, prefer)
    whole = {values[0] for values in heard if len(values) == 1}
    settled = np.isin(own, list(whole))
    open_ones = np.flatnonzero(leads & ~settled)
    leads &= settled
    by_value, open_by_value = (
        _Grouped.of(value, len(known)),
        _Grouped.of(own[open_ones], len(known)),
    )
    place: I64 = np.zeros(len(known), dtype=np.int64)
    for values in heard:
        some = open_ones[open_by_value.under(values)]
        if len(values) > 1 and len(some):
            members = by_value.under(values)
            place[list(values)] = np.arange(len(values))
            if prefer == "source":
                later = highest_beside(
                    asked.only(some), siblings.only(members), place[value[members]]
                )
                beaten = later > place[own[some]]
            else:
                beaten = have_rivals(asked.only(some), siblings.only(members))
            leads[some[~beaten]] = True
    return leads


def _ranks(claims: Claims, prefer: Prefer | None) -> I64:
    """A number for each weight, or weight and time, the highest for the highest."""
    time: I64 = claims.hlc if prefer == "hlc" else np.zeros(len(claims.hlc), dtype=np.int64)
    order = np.lexsort((time, claims.weight))
    changes = (np.diff(claims.weight[order]) != 0) | (np.diff(time[order]) != 0)
    ranks: I64 = np.zeros(len(order), dtype=np.int64)
    ranks[order] = np.append(0, np.cumsum(changes))
    return ranks


def _values_of_voices(
    claims: Claims, value: I64, leading: I64, best: I64, prefer: Prefer | None
) -> set[tuple[int, ...]]:
    """Which values each voice states with one weight, among claims that lead within their value;
    with ``source``, in the order of when it stated each last."""
    leading = leading[np.argsort(claims.hlc[leading], kind="stable")]
    heard: dict[tuple[int, int], dict[int, None]] = {}
    columns = (claims.voices[leading], best[value[leading]], value[leading])
    for voice, rank, stated in zip(*(each.tolist() for each in columns), strict=True):
        said = heard.setdefault((voice, rank), {})
        said.pop(stated, None)
        said[stated] = None
    return {tuple(said if prefer == "source" else sorted(said)) for said in heard.values()}


def _validity(view: View, slots: I32, values: I64) -> Validity:
    return Validity(view.valid_from[slots], view.valid_until[slots], values)
