"""Which records deny which facts, in little space though many records deny the same many facts.

The records of one key that say the same make a series, in the order of arrival. They mostly name
the same facts: those that were live. So a denied fact keeps runs of records in a row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Set

import numpy as np
from msgspec import Struct, field

from engramlog.projections.arrays import I32, I64, Bool, Slots, grown

DeniedState = tuple[list[tuple[int, int, bytes, bytes]], dict[int, dict[int, list[int]]]]
"""Key, value, records and positions of each series; and ``DeniedFacts._runs``."""


class Series(Struct):
    """The denials by records of one key and value. ``positions``: of the denials; ``markers``: the
    records' slots, never fewer; ``facts``: the slots of the denied facts."""

    key: int
    value: int
    markers: array[int] = field(default_factory=lambda: array("i"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    facts: array[int] = field(default_factory=lambda: array("i"))

    def records(self) -> tuple[I64, I32]:
        """Position and record of each denial; the writer may append meanwhile."""
        positions = np.frombuffer(self.positions.tobytes(), dtype=np.int64)
        markers = np.frombuffer(self.markers.tobytes(), dtype=np.int32)
        return positions, markers[: len(positions)]

    def facts_denied(self) -> I32:
        """Slots of the facts that the records name."""
        return np.frombuffer(self.facts.tobytes(), dtype=np.int32)


class DeniedFacts:
    """One thread adds, any may read. Nothing is removed: that makes a new object (``without``)."""

    def __init__(self) -> None:
        self.series: list[Series] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._runs: dict[int, dict[int, list[int]]] = {}
        """By denied fact and series: the start and the end of each run, in turns."""
        self._order = array("q"), array("i"), array("i")
        """Position, series and place in it of each denial, in the order of arrival."""
        self._denied: Bool = np.zeros(1024, dtype=np.bool_)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, fact: int, marker: int, says: tuple[int, int], position: int) -> None:
        """A record, which ``says`` a key and a value, denied a fact at a position."""
        number = self._numbers.get(says)
        if number is None:
            number = self._numbers[says] = len(self.series)
            self.series.append(Series(*says))
        series = self.series[number]
        last = len(series.positions) - 1
        if last < 0 or (series.markers[last], series.positions[last]) != (marker, position):
            series.markers.append(marker)
            series.positions.append(position)
            last += 1
            self._list(position, number, last)
        self._name(fact, number, last)

    def _name(self, fact: int, number: int, record: int) -> None:
        of_fact = self._runs.setdefault(fact, {})
        runs = of_fact.get(number)
        if runs is None:
            self.series[number].facts.append(fact)
            of_fact[number] = [record, record + 1]
            self._mark(fact)
        elif runs[-1] < record:
            runs.extend((record, record + 1))
        else:
            runs[-1] = record + 1

    def _mark(self, fact: int) -> None:
        if fact >= len(self._denied):
            self._denied = grown(self._denied, 2 * fact)
        self._denied[fact] = True

    def _list(self, position: int, number: int, place: int) -> None:
        positions, numbers, places = self._order
        numbers.append(number)
        places.append(place)
        positions.append(position)  # the last: readers begin with it

    def _list_all(self, number: int) -> None:
        for place, position in enumerate(self.series[number].positions):
            self._list(position, number, place)

    def newest_first(self, position: int) -> Iterator[tuple[int, int, int]]:
        """Position, series and place in it of the denials up to a position."""
        positions = np.frombuffer(self._order[0].tobytes(), dtype=np.int64)
        numbers, places = (
            np.frombuffer(column.tobytes(), dtype=np.int32)[: len(positions)]
            for column in self._order[1:]
        )
        some = np.flatnonzero(positions <= position)
        for at in some[np.argsort(-positions[some], kind="stable")].tolist():
            yield int(positions[at]), int(numbers[at]), int(places[at])

    def ever(self, slots: Slots) -> Bool:
        """Which facts were ever denied."""
        denied = self._denied
        last = len(denied) - 1
        found: Bool = denied[np.minimum(slots, last)] & (slots <= last)
        return found

    def facts(self) -> list[int]:
        """Slots of all facts that were ever denied."""
        return list(self._runs)

    def runs(self, fact: int) -> Iterator[tuple[int, list[int]]]:
        """By series, the runs of records that name a fact: start and end in turns."""
        for number, runs in self._runs.get(fact, {}).copy().items():
            yield number, list(runs)

    def names(self, slots: Set[int]) -> bool:
        """Whether any of the slots is a denied fact or a record."""
        markers = (marker for each in self.series for marker in each.markers)
        return not (self._runs.keys().isdisjoint(slots) and slots.isdisjoint(markers))

    def without(self, gone: Set[int]) -> DeniedFacts:
        """A copy without these facts and records."""
        kept = DeniedFacts()
        places: list[list[int]] = []
        for number, series in enumerate(self.series):
            stay = [marker not in gone for marker in series.markers]
            places.append([0, *np.cumsum(stay).tolist()])
            kept._numbers[series.key, series.value] = number
            markers = array("i", (m for m, on in zip(series.markers, stay, strict=True) if on))
            positions = array("q", (p for p, on in zip(series.positions, stay, strict=True) if on))
            kept.series.append(Series(series.key, series.value, markers, positions))
            kept._list_all(number)
        for fact, of_fact in self._runs.items():
            for number, runs in of_fact.items():
                if fact not in gone:
                    kept._set(fact, number, [places[number][at] for at in runs])
        return kept

    def _set(self, fact: int, number: int, runs: list[int]) -> None:
        """Give a fact its runs in a series; runs that meet are one."""
        joined: list[int] = []
        for start, end in zip(runs[::2], runs[1::2], strict=True):
            if joined and joined[-1] == start:
                joined[-1] = end
            elif start < end:
                joined += (start, end)
        if joined:
            self._runs.setdefault(fact, {})[number] = joined
            self.series[number].facts.append(fact)
            self._mark(fact)

    def state(self) -> DeniedState:
        """All data, for an image file."""
        kept = [
            (each.key, each.value, each.markers.tobytes(), each.positions.tobytes())
            for each in self.series
        ]
        return kept, self._runs

    @classmethod
    def of(cls, state: DeniedState) -> DeniedFacts:
        """The object with this state."""
        made = cls()
        for number, (key, value, markers, positions) in enumerate(state[0]):
            made._numbers[key, value] = number
            made.series.append(Series(key, value, array("i", markers), array("q", positions)))
            made._list_all(number)
        for fact, of_fact in state[1].items():
            for number, runs in of_fact.items():
                made._set(fact, number, runs)
        return made
