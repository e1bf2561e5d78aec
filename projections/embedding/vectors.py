"""Unit vectors in memory by the mirror's slots, and exact cosines over them.

Vectors lie in blocks of a fixed size, unfilled rows being zero. A block is always multiplied
whole, so the cosine of a fact is the same bits whatever else a question scans.
"""

from __future__ import annotations

import numpy as np

from projections.arrays import F32, F64, I32, Bool

BLOCK_SLOTS = 1024
COSINE_DECIMALS = 6


class Vectors:
    """One writer, any readers: a slot's row is written before it is marked as present."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._blocks: dict[int, F32] = {}
        self._present: Bool = np.zeros(BLOCK_SLOTS, dtype=np.bool_)

    def __len__(self) -> int:
        """Slots that have a vector."""
        return int(np.count_nonzero(self._present))

    def put(self, slots: I32, rows: F32) -> None:
        """Keep the unit vectors of ``slots``."""
        if not len(slots):
            return
        self._grow(int(slots.max()) + 1)
        for block in np.unique(slots // BLOCK_SLOTS).tolist():
            inside = slots // BLOCK_SLOTS == block
            held = self._blocks.get(block)
            if held is None:
                held = np.zeros((BLOCK_SLOTS, self.dimensions), dtype=np.float32)
            held[slots[inside] % BLOCK_SLOTS] = rows[inside]
            self._blocks[block] = held
        self._present[slots] = True

    def forget(self, slots: I32) -> None:
        """Overwrite the vectors of ``slots``: for erasure, as ended facts keep theirs."""
        slots = slots[self.present(slots)]
        self._present[slots] = False
        for slot in slots.tolist():
            self._blocks[slot // BLOCK_SLOTS][slot % BLOCK_SLOTS] = 0.0

    def present(self, slots: I32) -> Bool:
        """Which of ``slots`` have a vector."""
        present = self._present
        found = np.zeros(len(slots), dtype=np.bool_)
        inside = slots < len(present)
        found[inside] = present[slots[inside]]
        return found

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        """The vectors of ``slots``, zero where there is none, and which have one."""
        present = self.present(slots)
        rows = np.zeros((len(slots), self.dimensions), dtype=np.float32)
        for index in np.flatnonzero(present).tolist():
            slot = int(slots[index])
            rows[index] = self._blocks[slot // BLOCK_SLOTS][slot % BLOCK_SLOTS]
        return rows, present

    def cosines(self, query: F32, slots: I32) -> tuple[F64, Bool]:
        """Cosine of each of ``slots`` (ascending) with a unit vector, rounded to 1e-6; 0 for
        those without a vector, which the second array tells apart."""
        present = self.present(slots)
        cosines = np.zeros(len(slots), dtype=np.float64)
        numbers, starts = np.unique(slots // BLOCK_SLOTS, return_index=True)
        ends = [*starts.tolist(), len(slots)][1:]
        for block, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            held = self._blocks.get(block)
            if held is not None:
                cosines[start:end] = (held @ query)[slots[start:end] % BLOCK_SLOTS]
        cosines[~present] = 0.0
        return np.round(cosines, COSINE_DECIMALS), present

    def _grow(self, count: int) -> None:
        if count > len(self._present):
            grown = np.zeros(max(count, 2 * len(self._present)), dtype=np.bool_)
            grown[: len(self._present)] = self._present
            self._present = grown
