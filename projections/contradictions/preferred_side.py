"""Which side of a contradiction a default list shows (wire 5.1).

It shows uncontradicted facts and the winner of a settled contradiction. Of an open one it shows the
value with strictly the highest effective confidence: confidence times trust in the source and in
the peer that it came through. In a tie it shows every side. A source that states two of the values
does not count; if no other is left, all sides are hidden. ``Prefer`` has other ways. Facts that are
never valid at the same time do not contradict each other; with ``valid_at``, only those valid then
do. Without it, a fact that has not begun hides none that has.
"""

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.contradictions.claims import Claims, Prefer
from engramlog.projections.image.rival_values import Validity, have_rivals, highest_beside
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import NO_END, NO_START, Moment

FEW_KEYS = 64
"""Up to this many keys are looked up one by one; more, by one scan of everything."""


def preferred(
    view: View,
    slots: I32,
    moment: Moment,
    authorization: Authorization,
    *,
    prefer: Prefer | None = None,
) -> Bool:
    """Which of ``slots`` a default list shows."""
    claiming = _are_claims(view, slots, moment)
    shown = ~(claiming & (view.set_aside[slots] <= moment.position))
    contested = _contested_claims(view, slots, moment, authorization)
    if not len(contested.slots):
        return shown
    timed = np.zeros(_key_count(view), dtype=np.bool_)
    bounded = (view.valid_from[contested.slots] != NO_START) | (
        view.valid_until[contested.slots] != NO_END
    )
    timed[contested.keys[bounded]] = True
    untimed = contested.only(~timed[contested.keys])
    shown &= ~claiming | _hold_leading_value(view, slots, untimed, prefer)
    asked = np.flatnonzero(claiming & shown & timed[view.key[slots]])
    timed_claims = contested.only(timed[contested.keys])
    begun = view.valid_from[slots[asked]] <= moment.valid_us
    claims_begun = view.valid_from[timed_claims.slots] <= moment.valid_us
    for some, claims in (
        (asked[begun], timed_claims.only(claims_begun)),
        (asked[~begun], timed_claims),
    ):
        if len(some):
            shown[some] = _hold_leading_in_time(view, slots[some], claims, prefer)
    return shown


def _key_count(view: View) -> int:
    return int(view.key.max(initial=-1)) + 1


def _are_claims(view: View, slots: I32, moment: Moment) -> Bool:
    """Which facts are still claims: an ended fact contradicts nothing."""
    return (
        (view.to_position[slots] > moment.position)
        & (view.base[slots] > 0.0)
        & (view.valid_until[slots] > moment.valid_us)
    )


def _contested_claims(
    view: View, slots: I32, moment: Moment, authorization: Authorization
) -> Claims:
    """The readable claims of those keys of ``slots`` with several readable values."""
    asked = np.zeros(_key_count(view), dtype=np.bool_)
    asked[view.key[slots[view.crowded(slots)]]] = True
    keys = np.flatnonzero(asked).astype(np.int32)
    if len(keys) <= FEW_KEYS:
        standing, _ = view.key_lists(keys)
    else:
        standing = everything(view)
        standing = standing[view.crowded(standing)]
    standing = standing[view.competing_claims(standing, moment)]
    standing = standing[authorization.mask(view, standing)]
    standing = standing[_in_contested_keys(view, standing)]
    standing = standing[~_are_set_valued(view, standing, moment)]
    return Claims(
        standing,
        view.key[standing],
        view.value[standing],
        view.voices(standing),
        view.confidence(standing, moment) * view.trust(standing, moment),
        view.hlc[standing],
    )


def _in_contested_keys(view: View, standing: I32) -> Bool:
    """Which facts belong to a key with several values among ``standing``."""
    keys, values = view.key[standing], view.value[standing]
    first = np.full(_key_count(view), -1, dtype=np.int32)
    first[keys[::-1]] = values[::-1]
    mixed = np.zeros(len(first), dtype=np.bool_)
    mixed[keys[values != first[keys]]] = True
    found: Bool = mixed[keys]
    return found


def _are_set_valued(view: View, standing: I32, moment: Moment) -> Bool:
    """Which facts have a set-valued relation."""
    relations = view.relation[standing]
    present = np.bincount(relations)
    covered = np.zeros(len(present), dtype=np.bool_)
    for number in np.flatnonzero(present).tolist():
        covered[number] = view.is_set_valued(number, moment)
    found: Bool = covered[relations]
    return found


def _hold_leading_value(view: View, slots: I32, claims: Claims, prefer: Prefer | None) -> Bool:
    """Which of ``slots`` have their key's leading value, or are uncontested."""
    contested = np.zeros(_key_count(view), dtype=np.bool_)
    contested[claims.keys] = True
    hold: Bool = ~contested[view.key[slots]]
    asked = np.flatnonzero(~hold)
    slots = slots[asked]
    leading = _leading_claims(claims, prefer)
    width = int(view.value.max(initial=0)) + 1
    pairs = np.sort(leading.keys.astype(np.int64) * width + leading.values)
    own = view.key[slots].astype(np.int64) * width + view.value[slots]
    hold[asked] = np.append(pairs, -1)[pairs.searchsorted(own)] == own
    return hold


def _leading_claims(claims: Claims, prefer: Prefer | None) -> Claims:
    """The claims of highest weight of each key, without those of voices for several values."""
    if not len(claims.keys):
        return claims
    time: I64 = claims.hlc if prefer == "hlc" else np.zeros(len(claims.keys), dtype=np.int64)
    order = np.lexsort((time, claims.weight, claims.keys))
    claims, time = claims.only(order), time[order]
    starts = np.flatnonzero(np.append(True, claims.keys[1:] != claims.keys[:-1]))
    key_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(claims.keys))))
    last = np.append(starts[1:], len(claims.keys)) - 1
    highest = claims.only(
        (claims.weight == claims.weight[last][key_of]) & (time == time[last][key_of])
    )
    return _newest_of_voices(highest) if prefer == "source" else _without_divided_voices(highest)


def _newest_of_voices(claims: Claims) -> Claims:
    """The newest claim of each key and voice."""
    claims = claims.only(np.lexsort((claims.hlc, claims.voices, claims.keys)))
    later = (claims.keys[1:] == claims.keys[:-1]) & (claims.voices[1:] == claims.voices[:-1])
    return claims.only(np.append(~later, True))


def _without_divided_voices(claims: Claims) -> Claims:
    """The claims without voices that state several values of a key."""
    order = np.lexsort((claims.values, claims.voices, claims.keys))
    claims = claims.only(order)
    same = (claims.keys[1:] == claims.keys[:-1]) & (claims.voices[1:] == claims.voices[:-1])
    starts = np.append(True, ~same)
    group_of = np.cumsum(starts) - 1
    divided = np.zeros(len(starts), dtype=np.bool_)
    divided[group_of[1:][same & (claims.values[1:] != claims.values[:-1])]] = True
    return claims.only(~divided[group_of])


class _Grouped(Struct, frozen=True):
    """Indexes by a number, from 0."""

    order: I64
    starts: I64

    @classmethod
    def of(cls, numbers: I64 | I32, count: int) -> "_Grouped":
        order = np.argsort(numbers, kind="stable")
        return cls(order, numbers[order].searchsorted(np.arange(count + 1)))

    def under(self, numbers: tuple[int, ...]) -> I64:
        parts = [self.order[self.starts[n] : self.starts[n + 1]] for n in numbers]
        return np.concatenate(parts)


def _hold_leading_in_time(view: View, slots: I32, claims: Claims, prefer: Prefer | None) -> Bool:
    """Which of ``slots``, all among the claims, have the leading value of those that are valid at
    some time together with them. Each fact may so have other rivals; comparing each with each would
    take minutes for a key of many facts."""
    keys = np.unique(view.key[slots])
    asked = _Grouped.of(keys.searchsorted(view.key[slots]), len(keys))
    claims = claims.only(np.isin(claims.keys, keys))
    competing = _Grouped.of(keys.searchsorted(claims.keys), len(keys))
    leads: Bool = np.zeros(len(slots), dtype=np.bool_)
    for number in range(len(keys)):
        of_key = asked.under((number,))
        leads[of_key] = _lead(view, slots[of_key], claims.only(competing.under((number,))), prefer)
    return leads


def _lead(view: View, slots: I32, claims: Claims, prefer: Prefer | None) -> Bool:
    """``_hold_leading_in_time`` of slots and claims of one key."""
    ranks = _ranks(claims, prefer)
    known, value = np.unique(claims.values, return_inverse=True)
    best: I64 = np.zeros(len(known), dtype=np.int64)
    np.maximum.at(best, value, ranks)
    siblings = _validity(view, claims.slots, value)
    stated = known.searchsorted(view.value[slots])
    asked = _validity(view, slots, stated)
    leads: Bool = best[stated] >= highest_beside(asked, siblings, best[value])
    heard = _values_of_voices(claims, value, np.flatnonzero(ranks == best[value]), best, prefer)
    whole = {values[0] for values in heard if len(values) == 1}
    settled = np.isin(stated, list(whole))
    open_ones = np.flatnonzero(leads & ~settled)
    leads &= settled
    by_value, open_by_value = (
        _Grouped.of(value, len(known)),
        _Grouped.of(stated[open_ones], len(known)),
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
                beaten = later > place[stated[some]]
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
