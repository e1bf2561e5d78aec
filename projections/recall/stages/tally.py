"""Adds up scores by slot when few of very many facts get any."""

import threading

import numpy as np

from engramlog.projections.arrays import F64, I32, I64, Bool


class Tally:
    """Sums by slot. Its arrays belong to the thread and are reused: a fresh array of a million
    numbers costs more than the additions."""

    def __init__(self, count: int) -> None:
        self._sums, self._touched = _take_arrays(count)

    def add(self, slots: I32, scores: F64) -> None:
        """Add to distinct slots."""
        self._sums[slots] += scores
        self._touched[slots] = True

    def result(self) -> tuple[I32, F64]:
        """Slots with additions, ascending, and their sums; empties the tally."""
        slots: I64 = np.flatnonzero(self._touched)
        sums = self._sums[slots]
        self._sums[slots] = 0.0
        self._touched[slots] = False
        _give_back(self._sums, self._touched)
        return slots.astype(np.int32), sums


class _Own(threading.local):
    sums: F64 | None = None
    touched: Bool | None = None


_own = _Own()


def _take_arrays(count: int) -> tuple[F64, Bool]:
    """Arrays of zeros. A tally that is never finished keeps them, and the next one makes others."""
    sums, touched = _own.sums, _own.touched
    _own.sums = _own.touched = None
    if sums is None or touched is None or len(sums) < count:
        room = count + count // 4
        sums, touched = np.zeros(room), np.zeros(room, dtype=np.bool_)
    return sums, touched


def _give_back(sums: F64, touched: Bool) -> None:
    _own.sums, _own.touched = sums, touched
