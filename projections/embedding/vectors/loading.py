"""Loads stored vectors: the search file if they exceed memory, or blocks from files, then the rest
from the table."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.embedding.vectors.blocks import VectorBlocks
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.vec_facts import KeptVecFacts
from engramlog.projections.image.view import View


def load_vectors(
    vectors: BoundedVectors,
    blocks: VectorBlocks,
    table: KeptVecFacts,
    view: View,
    slot_of: Callable[[str], int | None],
) -> Iterator[tuple[list[str], I32]]:
    """Fill empty vectors; yields the ids in the table, page by page, with the slot of each, -1 for
    those unknown to the view."""
    if not vectors.restored() and not blocks.restore(vectors, view.from_position):
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
            found, rows = table.rows_of([ids[n] for n in wanted])
            vectors.put(_slots(found, view.count, slot_of), rows)
        yield ids, slots


def _slots(ids: Sequence[str], count: int, slot_of: Callable[[str], int | None]) -> I32:
    slots = (slot_of(fact) for fact in ids)
    known = [-1 if slot is None or slot >= count else slot for slot in slots]
    return np.array(known, dtype=np.int32)
