"""Adds up and looks up numbers by slot when few of very many facts have any."""

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
        slots: I64 = self._touched.nonzero()[0]
        sums = self._sums[slots]
        self._sums[slots] = 0.0
        self._touched[slots] = False
        _own.sums, _own.touched = self._sums, self._touched
        return slots.astype(np.int32), sums


def looked_up(count: int, slots: I32, numbers: F64, wanted: I32) -> F64:
    """The number of each wanted slot, 0 for one without any; ``slots`` are distinct and below
    ``count``. Sooner than a search if few slots have numbers and many are wanted."""
    held = _own.numbers
    _own.numbers = None
    if held is None or len(held) < count:
        held = np.zeros(count + count // 4)
    held[slots] = numbers
    found = held.take(wanted)
    held[slots] = 0.0
    _own.numbers = held
    return found


class _Own(threading.local):
    sums: F64 | None = None
    touched: Bool | None = None
    numbers: F64 | None = None


_own = _Own()


def _take_arrays(count: int) -> tuple[F64, Bool]:
    """Arrays of zeros. A tally that is never finished keeps them, and the next one makes others."""
    sums, touched = _own.sums, _own.touched
    _own.sums = _own.touched = None
    if sums is None or touched is None or len(sums) < count:
        room = count + count // 4
        sums, touched = np.zeros(room), np.zeros(room, dtype=np.bool_)
    return sums, touched
