"""Counts by slot, as of any position."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engramlog.projections.arrays import I32, I64, Item, grown
from engramlog.projections.ascending import distinct, places

Counted = tuple[bytes, bytes, bytes, bytes]
"""The events' positions and the ends of their rows; slots (int32) and counts of all rows. All but
the slots are int64."""

SUMMED_ROWS = 512
"""Sums over all slots are made every so many rows; the rows since are added for the slots asked."""


class SlotCounts:
    """How often each slot was counted up to a position: rows in the order of the log. One thread
    adds, any may read."""

    def __init__(self) -> None:
        self._events = 0
        self._positions: I64 = np.zeros(16, dtype=np.int64)
        self._ends: I64 = np.zeros(16, dtype=np.int64)
        self._slots: I32 = np.zeros(16, dtype=np.int32)
        self._counts: I64 = np.zeros(16, dtype=np.int64)
        self._summed: tuple[int, I64] = (0, np.zeros(0, dtype=np.int64))

    def add(self, position: int, uses: Sequence[tuple[int, int]]) -> None:
        """Uses are (slot, count)."""
        if not uses:
            return
        event, start = self._events, self._rows(self._events)
        end = start + len(uses)
        # readers keep the old columns
        self._positions = _with_room(self._positions, event + 1)
        self._ends = _with_room(self._ends, event + 1)
        self._slots, self._counts = _with_room(self._slots, end), _with_room(self._counts, end)
        self._slots[start:end] = [slot for slot, _ in uses]
        self._counts[start:end] = [count for _, count in uses]
        self._positions[event], self._ends[event] = position, end
        self._events = event + 1  # last: readers look at events below it

    def _rows(self, events: int) -> int:
        """How many rows the first events have."""
        return int(self._ends[events - 1]) if events else 0

    def state(self) -> Counted:
        """Everything, for ``restore``."""
        events = self._events
        rows = self._rows(events)
        return (
            self._positions[:events].tobytes(),
            self._ends[:events].tobytes(),
            self._slots[:rows].tobytes(),
            self._counts[:rows].tobytes(),
        )

    def restore(self, kept: Counted) -> None:
        """The opposite of ``state``."""
        positions, ends, slots, counts = kept
        self._positions = np.frombuffer(positions, dtype=np.int64)
        self._ends = np.frombuffer(ends, dtype=np.int64)
        self._slots = np.frombuffer(slots, dtype=np.int32)
        self._counts = np.frombuffer(counts, dtype=np.int64)
        self._events = len(self._positions)

    def at(self, slots: I32, position: int) -> I64:
        """Counts of slots at a position."""
        events = self._events
        known = self._rows(int(self._positions[:events].searchsorted(position, side="right")))
        summed = known - known % SUMMED_ROWS
        totals = self._totals(summed, self._rows(events))
        counts: I64 = np.zeros(len(slots), dtype=np.int64)
        inside = slots < len(totals)
        counts[inside] = totals[slots[inside]]
        if summed < known:
            recent = self._slots[summed:known]
            present = distinct(recent)
            sums: I64 = np.zeros(len(present), dtype=np.int64)
            np.add.at(sums, present.searchsorted(recent), self._counts[summed:known])
            at, found = places(present, slots)
            counts[found] += sums[at[found]]
        return counts

    def _totals(self, rows: int, count: int) -> I64:
        """By slot: the sum of the first ``rows``; kept if these are the newest."""
        before, totals = self._summed
        if before == rows:
            return totals
        if before > rows:
            before, totals = 0, totals[:0]
        slots, counts = self._slots[before:rows], self._counts[before:rows]
        size = max(len(totals), int(slots.max(initial=-1)) + 1)
        totals = grown(totals, size)
        np.add.at(totals, slots, counts)
        if rows > count - SUMMED_ROWS:
            self._summed = (rows, totals)
        return totals


def _with_room(column: NDArray[Item], size: int) -> NDArray[Item]:
    """The column, or a longer copy, which has room for ``size`` items."""
    return column if size <= len(column) else grown(column, max(size, len(column) * 3 // 2))
