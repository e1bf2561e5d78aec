"""Counts by slot, as of any position."""

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from engramlog.projections.arrays import I32, I64

Counted = list[tuple[int, bytes, bytes]]
"""Position, int32 slots and int64 counts of each addition."""


class SlotCounts:
    """How often each slot was counted up to a position. One thread adds, any may read."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._slots: list[I32] = []
        self._counts: list[I64] = []
        self._totals: I64 = np.zeros(0, dtype=np.int64)

    def add(self, position: int, uses: Iterable[tuple[int, int]]) -> None:
        """Uses are (slot, count)."""
        pairs = list(uses)
        if not pairs:
            return
        slots: I32 = np.array([slot for slot, _ in pairs], dtype=np.int32)
        counts: I64 = np.array([count for _, count in pairs], dtype=np.int64)
        totals = self._totals
        if int(slots.max()) >= len(totals):
            grown: I64 = np.zeros(max(2 * len(totals), int(slots.max()) + 1), dtype=np.int64)
            grown[: len(totals)] = totals
            totals = grown
        else:
            totals = totals.copy()
        np.add.at(totals, slots, counts)
        self._positions.append(position)
        self._slots.append(slots)
        self._counts.append(counts)
        self._totals = totals

    def state(self) -> Counted:
        """Everything, for ``restore``."""
        return [
            (position, slots.tobytes(), counts.tobytes())
            for position, slots, counts in zip(
                self._positions, self._slots, self._counts, strict=True
            )
        ]

    def restore(self, kept: Counted) -> None:
        """The opposite of ``state``."""
        self._positions = [position for position, _, _ in kept]
        self._slots = [np.frombuffer(slots, dtype=np.int32) for _, slots, _ in kept]
        self._counts = [np.frombuffer(counts, dtype=np.int64) for _, _, counts in kept]
        if kept:
            slots = np.concatenate(self._slots)
            totals: I64 = np.zeros(int(slots.max()) + 1, dtype=np.int64)
            np.add.at(totals, slots, np.concatenate(self._counts))
            self._totals = totals

    def at(self, slots: I32, position: int) -> I64:
        """Counts of slots at a position."""
        totals = self._totals  # before the positions: the writer may add to both meanwhile
        known = bisect_right(self._positions, position)
        if known < len(self._positions):
            totals = np.zeros(len(self._totals), dtype=np.int64)
            for index in range(known):
                np.add.at(totals, self._slots[index], self._counts[index])
        counts: I64 = np.zeros(len(slots), dtype=np.int64)
        inside = slots < len(totals)
        counts[inside] = totals[slots[inside]]
        return counts
