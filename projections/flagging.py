"""The mirror's column of verdict flags: eight bits a fact, zero for nearly all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projections.arrays import I32
from projections.verdicts import standing_flags

Flags = NDArray[np.uint8]


class FlagColumn:
    """Flags by slot. An array that readers may hold is never changed where they look: a
    review makes a new one, and slots beyond its end have no flags."""

    def __init__(self) -> None:
        self.array: Flags = np.zeros(0, dtype=np.uint8)
        self._judged: dict[int, int] = {}

    def judge(self, slot: int, flags: int, decision: str | None = None) -> None:
        """Flag a fact that no reader can see yet."""
        self._judged[slot] = flags
        if slot >= len(self.array):
            grown: Flags = np.zeros(max(1024, 2 * slot), dtype=np.uint8)
            grown[: len(self.array)] = self.array
            self.array = grown
        self.array[slot] = standing_flags(flags, decision)

    def review(self, slot: int, decision: str) -> None:
        """Let a decision stand on a fact; without a verdict there is nothing to decide."""
        flags = self._judged.get(slot)
        if flags is not None:
            changed = self.array.copy()
            changed[slot] = standing_flags(flags, decision)
            self.array = changed


def flags_at(array: Flags, slots: I32) -> Flags:
    """Flags of slots."""
    if not len(array):
        return np.zeros(len(slots), dtype=np.uint8)
    last = len(array) - 1
    flags: Flags = array[np.minimum(slots, last)]
    flags[slots > last] = 0
    return flags
