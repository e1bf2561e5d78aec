"""Vectors of cached cards, each with its own key, for search by entity.

A vector lives exactly as long as its card, so nothing of an old card remains. Its row in
``vec_facts`` goes at the next start, like the card itself.
"""

import threading

import numpy as np

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.embedder import Embedder
from engramlog.projections.embedding.vectors.in_memory import COSINE_DECIMALS
from engramlog.projections.embedding.vectors.vec_facts import VecFacts
from engramlog.projections.tables.facts.cards import CardKey


class CardVectors:
    """Safe from any thread."""

    def __init__(self, embedder: Embedder, table: VecFacts) -> None:
        self._embedder = embedder
        self._table = table
        self._lock = threading.Lock()
        self._rows: dict[CardKey, F32] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def embed(self, key: CardKey, text: str) -> None:
        """Store the vector of a card's text. Raises as ``Provider.embed``."""
        row: F32 = self._embedder.uncached([text])[0]
        with self._lock:
            self._table.write(added=[(key.vector_key, row)])
            self._rows[key] = row

    def forget(self, key: CardKey) -> None:
        with self._lock:
            if self._rows.pop(key, None) is not None:
                self._table.write(ended=[key.vector_key])

    def forget_all(self) -> None:
        for key in list(self._rows):
            self.forget(key)

    def nearest(self, query: F32, floor: float) -> list[tuple[CardKey, float]]:
        """All readers' cards with a cosine above ``floor`` with a question, best first."""
        with self._lock:
            held = list(self._rows.items())
        found = [
            (key, round(float(np.dot(row.astype(np.float64), query)), COSINE_DECIMALS))
            for key, row in held
        ]
        near = [each for each in found if each[1] > floor]
        near.sort(key=lambda each: (-each[1], each[0].vector_key))
        return near
