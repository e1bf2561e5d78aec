"""Counts by slot, as of any position."""

from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import I32, I64
from engramlog.projections.ascending import distinct, places

Counted = tuple[bytes, bytes, bytes]
"""Positions (int64), slots (int32) and counts (int64) of all rows."""

SUMMED_ROWS = 512
"""Sums over all slots are made every so many rows; the rows since are added for the slots asked."""


class SlotCounts:
    """How often each slot was counted up to a position: rows in the order of the log. One thread
    adds, any may read."""

    def __init__(self) -> None:
        self._count = 0
        self._positions: I64 = np.zeros(16, dtype=np.int64)
        self._slots: I32 = np.zeros(16, dtype=np.int32)
        self._counts: I64 = np.zeros(16, dtype=np.int64)
        self._summed: tuple[int, I64] = (0, np.zeros(0, dtype=np.int64))

    def add(self, position: int, uses: Sequence[tuple[int, int]]) -> None:
        """Uses are (slot, count)."""
        if not uses:
            return
        start, end = self._count, self._count + len(uses)
        if end > len(self._positions):  # readers keep the old arrays
            capacity = max(end, 2 * start)
            self._positions = np.resize(self._positions, capacity)
            self._slots = np.resize(self._slots, capacity)
            self._counts = np.resize(self._counts, capacity)
        self._positions[start:end] = position
        self._slots[start:end] = [slot for slot, _ in uses]
        self._counts[start:end] = [count for _, count in uses]
        self._count = end  # last: readers look at rows below it

    def state(self) -> Counted:
        """Everything, for ``restore``."""
        count = self._count
        columns = (self._positions, self._slots, self._counts)
        positions, slots, counts = (column[:count].tobytes() for column in columns)
        return positions, slots, counts

    def restore(self, kept: Counted) -> None:
        """The opposite of ``state``."""
        positions, slots, counts = kept
        self._positions = np.frombuffer(positions, dtype=np.int64)
        self._slots = np.frombuffer(slots, dtype=np.int32)
        self._counts = np.frombuffer(counts, dtype=np.int64)
        self._count = len(self._positions)

    def at(self, slots: I32, position: int) -> I64:
        """Counts of slots at a position."""
        count = self._count
        known = int(self._positions[:count].searchsorted(position, side="right"))
        summed = known - known % SUMMED_ROWS
        totals = self._totals(summed, count)
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
        grown: I64 = np.zeros(size, dtype=np.int64)
        grown[: len(totals)] = totals
        np.add.at(grown, slots, counts)
        if rows > count - SUMMED_ROWS:
            self._summed = (rows, grown)
        return grown
