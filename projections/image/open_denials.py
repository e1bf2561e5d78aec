"""Which denials a caller sees open at a moment.

A denial ends once its record has ended or was set aside, and once the record's voice has restated
the value of the denied fact. So whether a record still denies a fact depends on the fact's value
alone, and each value is judged once, however many facts have it.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.ascending import split
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment


class _Records(Struct, frozen=True):
    """Records of confidence 0, and which of them stand at the moment."""

    voices: I64
    hlc: I64
    standing: Bool


class _Restated(Struct, frozen=True):
    """When each voice last stated each value of a key, in the order of value and voice."""

    values: I32
    voices: I64
    hlc: I64

    def by(self, voices: I64) -> "_Restated":
        """What these voices stated."""
        own = np.isin(self.voices, voices)
        return _Restated(self.values[own], self.voices[own], self.hlc[own])

    def still_deny(self, records: _Records, value: int) -> Bool:
        """The standing records whose voice has not restated the value since."""
        first, last = self.values.searchsorted((value, value + 1)).tolist()
        if first == last:
            return records.standing
        voices = self.voices[first:last]
        nearest = np.minimum(voices.searchsorted(records.voices), len(voices) - 1)
        since = self.hlc[first:last][nearest] > records.hlc
        return records.standing & ~((voices[nearest] == records.voices) & since)


class _Named(Struct, frozen=True):
    """Facts that a series' records deny. Parallel: a fact, a run of records that name it, and which
    of ``judged`` says whether each record of the series still denies the fact's value."""

    facts: I64
    starts: I64
    ends: I64
    judgement: I64
    judged: list[Bool]

    def denied(self) -> I64:
        """The facts that any record still denies; some more than once."""
        found: list[I64] = []
        for judged, own in zip(self.judged, _groups(self.judgement), strict=True):
            upto = np.append(0, np.cumsum(judged))
            found.append(self.facts[own[upto[self.ends[own]] > upto[self.starts[own]]]])
        return np.concatenate(found)

    def by_any(self) -> Bool:
        """Which records of the series still deny any of the facts."""
        found = np.zeros_like(self.judged[0])
        for judged, own in zip(self.judged, _groups(self.judgement), strict=True):
            change = np.bincount(self.starts[own], minlength=len(judged) + 1)
            change -= np.bincount(self.ends[own], minlength=len(judged) + 1)
            found |= judged & (np.cumsum(change)[:-1] > 0)
        return found

    def by(self, place: int) -> I64:
        """The facts that one record of the series still denies."""
        named = np.flatnonzero((self.starts <= place) & (place < self.ends))
        still = np.array([judged[place] for judged in self.judged], dtype=np.bool_)
        return self.facts[named[still[self.judgement[named]]]]


def _groups(numbers: I64) -> list[I64]:
    """The indexes of equal numbers, by number."""
    order = np.argsort(numbers, kind="stable")
    return split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


class OpenDenials:
    """The denials that ``authorization`` sees open at ``moment``."""

    def __init__(self, view: View, moment: Moment, authorization: Authorization) -> None:
        self._view, self._moment, self._authorization = view, moment, authorization
        self._denied = view.denials.denied
        self._records: dict[int, _Records] = {}
        self._restated: dict[int, _Restated] = {}

    def name(self, slots: I32) -> Bool:
        """Which of the facts an open denial names: a record still denies them."""
        denied: Bool = np.zeros(len(slots), dtype=np.bool_)
        runs = self._runs(slots)
        if len(runs):
            values = self._view.value[slots[runs[:, 0]]]
            for own in _groups(runs[:, 3]):
                named = self._named(int(runs[own[0], 3]), runs[own], values[own])
                denied[named.denied()] = True
        return denied

    def holds(self, record: int, slot: int) -> bool:
        """Whether a record that denied a fact still denies it."""
        view = self._view
        if view.key[record] != view.key[slot]:
            return False
        records = self._judge(np.array([record], dtype=np.int32), self._moment.position)
        restated = self._restatements(int(view.key[slot]))
        return bool(restated.still_deny(records, int(view.value[slot]))[0])

    def newest_first(self, position: int) -> Iterator[tuple[int, I32]]:
        """The denials up to a position of which any is open: its position, and the claims that its
        record still denies."""
        series: dict[int, tuple[I32, _Named, Bool] | None] = {}
        for at, number, place in self._denied.newest_first(min(position, self._moment.position)):
            if number not in series:
                series[number] = self._claims(number)
            found = series[number]
            if found is not None:
                claims, named, still = found
                if place < len(still) and still[place]:
                    yield at, claims[named.by(place)]

    def _claims(self, number: int) -> tuple[I32, _Named, Bool] | None:
        """The readable claims that a series denies, by which records, and which of these deny any;
        None without."""
        view = self._view
        claims = self._denied.series[number].facts_denied()
        claims = claims[claims < view.count]
        claims = claims[self._authorization.mask(view, claims)]
        claims = claims[view.claimed(claims, self._moment)]
        runs = self._runs(claims)
        runs = runs[runs[:, 3] == number]
        if not len(runs):
            return None
        named = self._named(number, runs, view.value[claims[runs[:, 0]]])
        return claims, named, named.by_any()

    def _runs(self, slots: I32) -> I64:
        """Rows of runs of records that name the facts and have their keys: the fact's index, start,
        end and series."""
        keys: list[int] = self._view.key[slots].tolist()
        found = [
            (index, start, end, number)
            for index, (slot, key) in enumerate(zip(slots.tolist(), keys, strict=True))
            for number, runs in self._denied.runs(slot)
            if self._denied.series[number].key == key
            for start, end in zip(runs[::2], runs[1::2], strict=True)
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 4)

    def _named(self, number: int, runs: I64, values: I32) -> _Named:
        """What a series' records still deny of runs' facts, which have these values."""
        series = self._denied.series[number]
        records = self._records.get(number)
        if records is None:
            positions, markers = series.records()
            records = self._records[number] = self._judge(markers, positions)
        restated = self._restatements(series.key).by(records.voices)
        known, of = np.unique(values, return_inverse=True)
        judged: list[Bool] = [records.standing]
        judgement: I64 = np.zeros(len(known), dtype=np.int64)
        for index in np.flatnonzero(np.isin(known, restated.values)).tolist():
            judgement[index] = len(judged)
            judged.append(restated.still_deny(records, int(known[index])))
        present, judgement = np.unique(judgement[of], return_inverse=True)
        judged = [judged[number] for number in present.tolist()]
        ends = np.minimum(runs[:, 1:3], len(records.standing))  # the writer may have added some
        return _Named(runs[:, 0], ends[:, 0], ends[:, 1], judgement, judged)

    def _judge(self, markers: I32, positions: I64 | int) -> _Records:
        """The records that stand: asserted, not retracted, not set aside, and readable."""
        view, at = self._view, self._moment.position
        standing: Bool = (markers < view.count) & (positions <= at)
        known = np.flatnonzero(standing)
        some = markers[known]
        standing[known] = (
            self._authorization.mask(view, some)
            & (view.from_position[some] <= at)
            & (view.to_position[some] > at)
            & (view.set_aside[some] > at)
            & (view.base[some] == 0.0)
        )
        voices: I64 = np.zeros(len(markers), dtype=np.int64)
        hlc = voices.copy()
        voices[known], hlc[known] = view.voices(some), view.hlc[some]
        return _Records(voices, hlc, standing)

    def _restatements(self, key: int) -> _Restated:
        found = self._restated.get(key)
        if found is not None:
            return found
        view = self._view
        again = view.key_slots(key)
        again = again[view.base[again] > 0.0]
        again = again[view.from_position[again] <= self._moment.position]
        again = again[self._authorization.mask(view, again)]
        values, voices, hlc = view.value[again], view.voices(again), view.hlc[again]
        order = np.lexsort((hlc, voices, values))
        values, voices, hlc = values[order], voices[order], hlc[order]
        later = (values[1:] == values[:-1]) & (voices[1:] == voices[:-1])
        last = np.append(~later, np.ones(min(len(order), 1), dtype=np.bool_))
        found = self._restated[key] = _Restated(values[last], voices[last], hlc[last])
        return found
