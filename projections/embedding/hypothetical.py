"""Vectors of a scratch copy of the facts: the node's own, and those of supposed facts.

It copies nothing: it reads the node's vectors by the node's slots, and drops a supposed fact's
vector with the question.
"""

import numpy as np

from engramlog.projections.arrays import F32, F64, I32, I64, Bool
from engramlog.projections.embedding.vectors.in_memory import Vectors


class SupposedVectors(Vectors):
    """``theirs``: the node's slot for each slot of the copy, ascending, -1 without one. Slots
    beyond it are supposed facts, added by ``put``."""

    def __init__(self, node: Vectors, theirs: I32) -> None:
        super().__init__(node.dimensions)
        self._node = node
        self._theirs = theirs

    def _split_slots(self, slots: I32) -> tuple[I64, I32, I64]:
        """Indices of the node's own facts among ``slots``, their slots in the node, and the other
        indices."""
        inside = slots < len(self._theirs)
        theirs = np.full(len(slots), -1, dtype=np.int32)
        theirs[inside] = self._theirs[slots[inside]]
        own = np.flatnonzero(theirs >= 0)
        return own, theirs[own], np.flatnonzero(theirs < 0)

    def present(self, slots: I32) -> Bool:
        own, theirs, other = self._split_slots(slots)
        found = np.zeros(len(slots), dtype=np.bool_)
        found[own] = self._node.present(theirs)
        found[other] = super().present(slots[other])
        return found

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        own, theirs, other = self._split_slots(slots)
        rows = np.zeros((len(slots), self.dimensions), dtype=np.float32)
        present = np.zeros(len(slots), dtype=np.bool_)
        rows[own], present[own] = self._node.rows(theirs)
        rows[other], present[other] = super().rows(slots[other])
        return rows, present

    @property
    def changes(self) -> int:
        return self._node.changes + self._changes

    def _products(self, query: F32, slots: I32, present: Bool) -> F64:
        own, theirs, other = self._split_slots(slots)
        products = np.zeros(len(slots), dtype=np.float64)
        products[own] = self._node.products(query, theirs)
        products[other] = super()._products(query, slots[other], present[other])
        return products

    def likely(self, query: F32, slots: I32, count: int) -> I64:
        """Same as ``Vectors.likely``; every supposed fact counts as likely."""
        own, theirs, other = self._split_slots(slots)
        return np.sort(np.concatenate([own[self._node.likely(query, theirs, count)], other]))
