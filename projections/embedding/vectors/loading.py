"""Loads stored vectors: the search file if they exceed memory, or blocks from files, then the rest
from the table. If few are left, they are loaded by name: going through the table takes far longer.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.embedding.vectors.blocks import VectorBlocks
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.in_memory import BLOCK_SLOTS
from engramlog.projections.embedding.vectors.vec_facts import KeptVecFacts
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import LIVE, Moment

FEW = 2 * BLOCK_SLOTS
"""Vectors that are loaded by name: more than the newest facts, of which no block is full yet."""


def living(view: View, slots: I32, min_confidence: float) -> Bool:
    """Which facts have a vector, or need one."""
    confidence = view.confidence(slots, Moment(view.position, 0))
    found: Bool = (confidence > min_confidence) & (view.to_position[slots] == LIVE)
    return found


def load_from_files(
    vectors: BoundedVectors,
    blocks: VectorBlocks,
    table: KeptVecFacts,
    reader: Reader,
    view: View,
    min_confidence: float,
) -> bool:
    """Fill empty vectors from the files, and from the table if few are left; returns whether all
    stored vectors of living facts are loaded."""
    if not vectors.restored() and not blocks.restore(vectors, view.from_position):
        return False
    slots = everything(view)
    lacking = slots[living(view, slots, min_confidence) & ~vectors.present(slots)]
    if len(lacking) > FEW:
        return False
    if len(lacking):
        positions: list[int] = view.from_position[lacking].tolist()
        _take([row.id for row in reader.said(positions)], vectors, table, view, reader.slot_of)
    return True


def load_vectors(
    vectors: BoundedVectors,
    table: KeptVecFacts,
    view: View,
    slot_of: Callable[[str], int | None],
) -> Iterator[tuple[list[str], I32]]:
    """Load what is not loaded yet; yields the ids in the table, page by page, with the slot of
    each, -1 for those unknown to the view."""
    if not len(vectors):
        for ids, rows in table.pages():
            slots = _slots(ids, view.count, slot_of)
            known = slots >= 0
            vectors.put(slots[known], rows[known])
            yield ids, slots
        return
    for ids in table.id_pages():
        slots = _slots(ids, view.count, slot_of)
        known = np.flatnonzero(slots >= 0)
        lacking = known[~vectors.present(slots[known])]
        if len(lacking):
            wanted: list[int] = lacking.tolist()
            _take([ids[n] for n in wanted], vectors, table, view, slot_of)
        yield ids, slots


def _take(
    ids: Sequence[str],
    vectors: BoundedVectors,
    table: KeptVecFacts,
    view: View,
    slot_of: Callable[[str], int | None],
) -> None:
    """Load those of some facts' vectors that the table has."""
    found, rows = table.rows_of(ids)
    vectors.put(_slots(found, view.count, slot_of), rows)


def _slots(ids: Sequence[str], count: int, slot_of: Callable[[str], int | None]) -> I32:
    slots = (slot_of(fact) for fact in ids)
    known = [-1 if slot is None or slot >= count else slot for slot in slots]
    return np.array(known, dtype=np.int32)
