"""Unit vectors in memory by the memory image's slots, and exact cosines over them.

Vectors lie in blocks of a fixed size; empty rows are zero. Every cosine is the product of one row
with the query, summed separately. So a fact's cosine has the same bits beside any other facts. Each
block has a sketch, for preselection among very many. A block may be a mapped file; writes into it
stay in this process.
"""

import threading
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32, F64, I32, I64, U16, U64, Bool, grown
from engramlog.projections.ascending import distinct
from engramlog.projections.embedding.vectors.sketch import differing, nearest, signs, words_of

BLOCK_SLOTS = 16_384
COSINE_DECIMALS = 6
WHOLE_SHARE = 0.5
"""Above this share of a stretch of slots, read it whole."""


class VectorBlock(Struct, frozen=True):
    """Rows by slot of the block, their sketch (one line per word), and which rows are vectors."""

    rows: F32
    sketch: U64
    present: Bool


class Vectors:
    """One writer, any number of readers: a slot's row is written before it is marked as present.
    ``on_put`` and ``on_forget`` are called with each change, in the writer's thread."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._changing = threading.Lock()
        self._blocks: dict[int, F32] = {}
        self._sketches: dict[int, U64] = {}
        self._present: Bool = np.zeros(BLOCK_SLOTS, dtype=np.bool_)
        self._forgotten: dict[int, int] = {}
        self._changes: int = 0
        self.on_put: Callable[[I32, F32], None] = lambda _slots, _rows: None
        self.on_forget: Callable[[I32], None] = lambda _slots: None

    def __len__(self) -> int:
        """Slots with a vector."""
        return int(np.count_nonzero(self._present))

    @property
    def changes(self) -> int:
        """How often vectors were added or removed."""
        return self._changes

    def put(self, slots: I32, rows: F32) -> None:
        """Store the unit vectors of ``slots``."""
        if not len(slots):
            return
        packed = signs(np.asarray(rows, dtype=np.float32))
        with self._changing:
            self._grow(int(slots.max()) + 1)
            for block in distinct(slots // BLOCK_SLOTS).tolist():
                inside = slots // BLOCK_SLOTS == block
                at = slots[inside] % BLOCK_SLOTS
                held = self._blocks.get(block)
                if held is None:
                    # Zeroed pages from the system: unwritten rows cost no memory.
                    held = np.zeros((BLOCK_SLOTS, self.dimensions), dtype=np.float32)
                    self._sketches[block] = np.zeros(
                        (words_of(self.dimensions), BLOCK_SLOTS), dtype=np.uint64
                    )
                held[at] = rows[inside]
                self._sketches[block][:, at] = packed[:, inside]
                self._blocks[block] = held
            self._present[slots] = True
            self._changes += 1
        self.on_put(slots, rows)

    def forget(self, slots: I32) -> None:
        """Overwrite the vectors of ``slots``. Only for erasure: ended facts keep theirs."""
        with self._changing:
            slots = slots[self.present(slots)]
            self._present[slots] = False
            for slot in slots.tolist():
                self._blocks[slot // BLOCK_SLOTS][slot % BLOCK_SLOTS] = 0.0
                self._sketches[slot // BLOCK_SLOTS][:, slot % BLOCK_SLOTS] = 0
            self._count_forgotten(slots)
            self._changes += 1
        self.on_forget(slots)

    def _count_forgotten(self, slots: I32) -> None:
        for number in distinct(slots // BLOCK_SLOTS).tolist():
            self._forgotten[number] = self.forgotten(number) + 1

    def forgotten(self, number: int) -> int:
        """How often the block lost vectors."""
        return self._forgotten.get(number, 0)

    def block(self, number: int) -> VectorBlock | None:
        """The current block; None if it never had a vector."""
        rows = self._blocks.get(number)
        if rows is None:
            return None
        slots = slice(number * BLOCK_SLOTS, (number + 1) * BLOCK_SLOTS)
        return VectorBlock(rows, self._sketches[number], self._present[slots])

    def take(self, number: int, block: VectorBlock) -> None:
        """Replace a block by this one; it must have no vectors yet, or equal ones."""
        first = number * BLOCK_SLOTS
        self._grow(first + BLOCK_SLOTS)
        self._sketches[number] = block.sketch
        self._blocks[number] = block.rows
        self._present[first : first + BLOCK_SLOTS] = block.present
        self._changes += 1

    def make_private(self, number: int) -> None:
        """Copy a block into this process's memory, if it has vectors, while none changes."""
        with self._changing:
            held = self.block(number)
            if held is not None:
                copied = VectorBlock(held.rows.copy(), held.sketch.copy(), held.present)
                self.take(number, copied)

    def present(self, slots: I32) -> Bool:
        present = self._present
        if not len(slots):
            return present[:0].copy()
        first, last = int(slots[0]), int(slots[-1])
        if last < len(present) and last - first == len(slots) - 1 and _is_ascending(slots):
            return present[first : last + 1].copy()
        found = np.zeros(len(slots), dtype=np.bool_)
        inside = slots < len(present)
        found[inside] = present[slots[inside]]
        return found

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        """The vectors of ``slots``, zero without one, and which slots have one."""
        present = self.present(slots)
        blocks = slots // BLOCK_SLOTS
        numbers = distinct(blocks[present]).tolist()
        if len(numbers) == 1 and present.all():
            return self._blocks[numbers[0]].take(slots % BLOCK_SLOTS, axis=0), present
        rows = np.zeros((len(slots), self.dimensions), dtype=np.float32)
        for block in numbers:
            chosen = np.flatnonzero(present & (blocks == block))
            rows[chosen] = self._blocks[block].take(slots[chosen] % BLOCK_SLOTS, axis=0)
        return rows, present

    def cosines(self, query: F32, slots: I32) -> tuple[F64, Bool]:
        """The cosine of each of ``slots`` (ascending) with a unit vector, rounded to 1e-6; 0
        without a vector. The second array says which have one."""
        present = self.present(slots)
        return np.round(self._products(query, slots, present), COSINE_DECIMALS), present

    def products(self, query: F32, slots: I32) -> F64:
        """The cosines, not rounded."""
        return self._products(query, slots, self.present(slots))

    def _products(self, query: F32, slots: I32, present: Bool) -> F64:
        products = np.zeros(len(slots), dtype=np.float64)
        for block, start, end in _runs(slots):
            held = self._blocks.get(block)
            if held is not None:
                at = slots[start:end] % BLOCK_SLOTS
                # Row by row: the last bits of a matrix product depend on a row's neighbours.
                if len(at) > WHOLE_SHARE * (at[-1] + 1 - at[0]):
                    stretch = np.vecdot(held[at[0] : at[-1] + 1], query)
                    products[start:end] = stretch[at - at[0]]
                else:
                    products[start:end] = np.vecdot(held.take(at, axis=0), query)
        if not present.all():
            products[~present] = 0.0
        return products

    def likely(self, query: F32, slots: I32, count: int) -> I64:
        """Indices into ``slots`` (ascending, all present) of the ``count`` that the sketch ranks
        nearest to the query, with all ties of the last; ascending."""
        if len(slots) <= count:
            return np.arange(len(slots), dtype=np.int64)
        wanted = signs(query[np.newaxis, :])
        runs = _runs(slots)
        if len(slots) > WHOLE_SHARE * len(runs) * BLOCK_SLOTS:
            parts = [self._differing(block, slots[start:end], wanted) for block, start, end in runs]
            return nearest(np.concatenate(parts), count)
        gathered: U64 = np.empty((len(wanted), len(slots)), dtype=np.uint64)
        for block, start, end in runs:
            gathered[:, start:end] = self._sketches[block].take(slots[start:end] % BLOCK_SLOTS, 1)
        parts = [
            differing(gathered[:, start : start + BLOCK_SLOTS], wanted)
            for start in range(0, len(slots), BLOCK_SLOTS)
        ]
        return nearest(np.concatenate(parts), count)

    def _differing(self, block: int, slots: I32, wanted: U64) -> U16:
        """The differing signs of some slots of a block; scans the whole block."""
        whole = differing(self._sketches[block], wanted)
        return whole if len(slots) == BLOCK_SLOTS else whole[slots % BLOCK_SLOTS]

    def _grow(self, count: int) -> None:
        if count > len(self._present):
            self._present = grown(self._present, max(count, 2 * len(self._present)))


def _is_ascending(slots: I32) -> bool:
    return bool((slots[1:] > slots[:-1]).all())


def _runs(slots: I32) -> list[tuple[int, int, int]]:
    """Block, start and end of each run of ascending ``slots`` in one block."""
    if not len(slots):
        return []
    blocks = np.arange(int(slots[0]) // BLOCK_SLOTS, int(slots[-1]) // BLOCK_SLOTS + 2)
    bounds = np.searchsorted(slots, (blocks * BLOCK_SLOTS).astype(slots.dtype)).tolist()
    return [
        (int(block), start, end)
        for block, start, end in zip(blocks[:-1].tolist(), bounds[:-1], bounds[1:], strict=True)
        if start < end
    ]
