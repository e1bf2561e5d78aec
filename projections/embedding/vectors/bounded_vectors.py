"""Vectors within a memory budget: in memory up to it, in a file beyond it. Answers are equal.

For many facts in the file, sqlite-vec finds the same candidates as the sketch: all facts that
differ from the question in at most so many signs, until enough wanted facts are found. Facts that
the caller may not read, or of another moment, are skipped; they neither count nor limit the result.
The cosines come from the vectors themselves.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from engramlog.projections.arrays import F32, F64, I32, I64, U16, Bool
from engramlog.projections.embedding.vectors.in_memory import BLOCK_SLOTS, VectorBlock, Vectors
from engramlog.projections.embedding.vectors.sketch import (
    WORD_BITS,
    differing,
    nearest,
    signs,
    words_of,
)
from engramlog.projections.embedding.vectors.vector_file import (
    NEAREST_MAX,
    PART_POSITIONS,
    Reading,
    VectorFile,
)

SAMPLED = 1024
"""Vectors in the sample that estimates how near the facts to compare will be."""
SAMPLE_DEVIATIONS = 2.0
STEP_SHARE = 128
"""If too few were found, allow this share of the signs to differ more."""
SCANNED, NAMED = 0.06, 0.6
"""The cost of scanning a sketch, and of fetching one by name, relative to finding one."""
_UNFOUND = np.iinfo(np.uint16).max

Starts = Callable[[], I64]
"""The positions of the facts, by slot, in the present memory image."""


class VectorsInFile(Vectors):
    """Which slots have a vector, a byte each in memory; all else is in the file."""

    def __init__(self, file: VectorFile, starts: Starts) -> None:
        super().__init__(file.dimensions)
        self._file = file
        self._starts = starts

    def mark(self, slots: I32) -> None:
        """Record that the file has vectors of these."""
        if len(slots):
            self._grow(int(slots.max()) + 1)
            self._present[slots] = True
            self._changes += 1

    def put(self, slots: I32, rows: F32) -> None:
        if len(slots):
            self._file.add(self._starts()[slots], rows)
            self.mark(slots)

    def forget(self, slots: I32) -> None:
        slots = slots[self.present(slots)]
        if len(slots):
            self._file.remove(self._starts()[slots])
            self._present[slots] = False
            self._changes += 1

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        present = self.present(slots)
        rows = np.zeros((len(slots), self.dimensions), dtype=np.float32)
        for at, found in self._chunks_with_vectors(slots, present):
            rows[at] = found
        return rows, present

    def _products(self, query: F32, slots: I32, present: Bool) -> F64:
        products = np.zeros(len(slots), dtype=np.float64)
        for at, found in self._chunks_with_vectors(slots, present):
            products[at] = np.vecdot(found, query)
        return products

    def _chunks_with_vectors(self, slots: I32, present: Bool) -> Iterator[tuple[I64, F32]]:
        """Indices of slots with a vector, ascending, and the vectors: a few at a time. ``present``
        loses those whose vector is damaged."""
        held = np.flatnonzero(present)
        order = np.argsort(slots[held], kind="stable")
        held, positions = held[order], self._starts()[slots[held[order]]]
        with self._file.reading() as reading:
            for start in range(0, len(held), self._file.rows_at_once):
                part = slice(start, start + self._file.rows_at_once)
                found, rows = reading.rows(np.unique(positions[part]))
                at = _indices_in(found, positions[part])
                present[held[part][at < 0]] = False
                yield held[part][at >= 0], rows[at[at >= 0]]

    def likely(self, query: F32, slots: I32, count: int) -> I64:
        if len(slots) <= count:
            return np.arange(len(slots), dtype=np.int64)
        starts = self._starts()
        search = _Search(query, starts, starts[slots], count)
        above = -1
        with self._file.reading() as reading:
            limit = search.guess(reading, self._file.rows_at_once)
            while above < words_of(self.dimensions) * WORD_BITS:
                search.find(reading, above, limit)
                if np.count_nonzero(search.differences <= limit) >= count:
                    break
                above, limit = limit, limit + -(-self.dimensions // STEP_SHARE)
        chosen = nearest(search.differences, count)
        return chosen[search.differences[chosen] != _UNFOUND]


class _Search:
    """Finds the ``count`` of some positions (ascending) whose vectors have signs nearest to a
    query's. ``differences``: of each position, the number of differing signs, if found."""

    def __init__(self, query: F32, starts: I64, positions: I64, count: int) -> None:
        self._wanted = signs(query[np.newaxis, :])
        self._positions = positions
        self._share = count / len(positions)
        self.differences: U16 = np.full(len(positions), _UNFOUND, dtype=np.uint16)
        numbers, firsts = np.unique(positions // PART_POSITIONS, return_index=True)
        ends = np.append(firsts[1:], len(positions))
        bounds = [starts.searchsorted((numbers + n) * PART_POSITIONS) for n in (0, 1)]
        # This many of all facts must be found to reach the wanted ones.
        expected = (bounds[1] - bounds[0]) * self._share
        scan = (bounds[1] - bounds[0]) * SCANNED
        asked = ends - firsts
        by_name = (asked // NEAREST_MAX + 1) * scan + asked * NAMED < (
            expected // NEAREST_MAX + 1
        ) * scan + expected
        self._parts = list(
            zip(numbers.tolist(), firsts.tolist(), ends.tolist(), by_name.tolist(), strict=True)
        )

    def guess(self, reading: Reading, at_once: int) -> int:
        """The number of signs in which the nearest may differ, estimated from a sample. Rather too
        high, because every search reads all sketches."""
        step = max(1, len(self._positions) // SAMPLED)
        sample = np.ascontiguousarray(self._positions[::step])
        pieces = (reading.rows(sample[n : n + at_once])[1] for n in range(0, len(sample), at_once))
        found = np.sort(np.concatenate([differing(signs(rows), self._wanted) for rows in pieces]))
        if not len(found):
            return 0
        expected = self._share * len(found)
        at = math.ceil(expected + SAMPLE_DEVIATIONS * math.sqrt(expected))
        return int(found[min(at, len(found) - 1)])

    def find(self, reading: Reading, above: int, limit: int) -> None:
        """Record the differences above ``above``, up to ``limit``."""
        for part, start, end, by_name in self._parts:
            among = self._positions[start:end]
            found, differ = reading.near(self._wanted, part, among, above, limit, by_name=by_name)
            at = _indices_in(among, found)
            self.differences[start + at[at >= 0]] = differ[at >= 0]


class BoundedVectors(Vectors):
    """Vectors in memory or in a file; ``close`` when done.

    Args:
        file: for vectors beyond the budget.
        starts: see ``Starts``.
        budget_bytes: memory for vectors; None without a bound.
    """

    def __init__(self, file: VectorFile, starts: Starts, budget_bytes: int | None) -> None:
        super().__init__(file.dimensions)
        self._file = file
        self._starts = starts
        self._budget_bytes = budget_bytes
        self._inside = Vectors(file.dimensions)

    @property
    def in_file(self) -> bool:
        return isinstance(self._inside, VectorsInFile)

    @property
    def held_bytes(self) -> int:
        """Bytes of vectors and sketches in memory. With a file: the most between questions."""
        return self._file.held_bytes if self.in_file else len(self._inside) * self._vector_bytes

    def restored(self) -> bool:
        """Whether an earlier run or another process left these vectors in the file. The file is not
        used if they fit into memory."""
        if self._budget_bytes is None or not self._file.open():
            self._file.discard()
            return False
        positions = self._file.positions()
        if self._fits(len(positions)):
            self._file.discard()
            return False
        self._move(positions)
        return True

    def leave_file(self) -> None:
        """Forget vectors that are in the file, which is damaged, and remove it."""
        if self.in_file:
            self._changes += self._inside.changes + 1
            self._inside = Vectors(self.dimensions)
        self._file.discard()

    def scrub(self) -> None:
        """Remove all traces of forgotten vectors from the file. Raises StorageFailed if a reader
        does not finish."""
        self._file.scrub()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def put(self, slots: I32, rows: F32) -> None:
        self._make_room(slots)
        self._inside.put(slots, rows)
        self.on_put(slots, rows)

    def take(self, number: int, block: VectorBlock) -> None:
        slots = (np.flatnonzero(block.present) + number * BLOCK_SLOTS).astype(np.int32)
        self._make_room(slots)
        if self.in_file:
            self._inside.put(slots, block.rows[block.present])
        else:
            self._inside.take(number, block)

    def forget(self, slots: I32) -> None:
        slots = slots[self.present(slots)]
        self._inside.forget(slots)
        self._count_forgotten(slots)
        self.on_forget(slots)

    def __len__(self) -> int:
        return len(self._inside)

    def block(self, number: int) -> VectorBlock | None:
        return self._inside.block(number)

    def make_private(self, number: int) -> None:
        self._inside.make_private(number)

    def present(self, slots: I32) -> Bool:
        return self._inside.present(slots)

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        return self._inside.rows(slots)

    @property
    def changes(self) -> int:
        return self._changes + self._inside.changes

    def cosines(self, query: F32, slots: I32) -> tuple[F64, Bool]:
        return self._inside.cosines(query, slots)

    def products(self, query: F32, slots: I32) -> F64:
        return self._inside.products(query, slots)

    def likely(self, query: F32, slots: I32, count: int) -> I64:
        return self._inside.likely(query, slots, count)

    @property
    def _vector_bytes(self) -> int:
        return 4 * self.dimensions + words_of(self.dimensions) * WORD_BITS // 8

    def _fits(self, count: int) -> bool:
        budget = self._budget_bytes
        return budget is None or count * self._vector_bytes <= budget

    def _make_room(self, slots: I32) -> None:
        """Move everything into the file if more vectors would not fit in memory. A reading process
        waits for the writing one to do so."""
        if self.in_file or self._budget_bytes is None:
            return
        if self._fits(len(self) + int(np.count_nonzero(~self.present(slots)))):
            return
        if self._file.begin():
            self._move_out()
        elif not self._file.open():
            return
        self._move(self._file.positions())

    def _move_out(self) -> None:
        starts = self._starts()
        for number in range(-(-len(starts) // BLOCK_SLOTS)):
            block = self._inside.block(number)
            if block is not None:
                here = np.flatnonzero(block.present)
                self._file.add(starts[here + number * BLOCK_SLOTS], block.rows[here])
        self._file.complete()

    def _move(self, positions: I64) -> None:
        """Switch to the file's vectors, at these positions."""
        slots = _indices_in(self._starts(), positions)
        self._file.remove(positions[slots < 0])  # of no fact
        inside = VectorsInFile(self._file, self._starts)
        inside.mark(slots[slots >= 0].astype(np.int32))
        self._changes += self._inside.changes + 1  # never a number that the others had
        self._inside = inside


def _indices_in(among: I64, positions: I64) -> I64:
    """The index of each position among others, which ascend; -1 for absent ones."""
    if not len(among):
        return np.full(len(positions), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(among, positions), len(among) - 1)
    return np.where(among[at] == positions, at, -1)
