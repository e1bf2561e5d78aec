"""What recall knows of meaning: the query's vector, and the vectors of facts."""

from __future__ import annotations

import threading
from collections import OrderedDict

from projections.arrays import F32, F64, I32, Bool
from projections.embedding.embedder import Embedder
from projections.embedding.vectors import Vectors

QUERIES_KEPT_MAX = 256


class Semantics:
    """Read by recall from any thread.

    ``min_confidence`` is the confidence above which a live fact is to have a vector.
    """

    def __init__(self, embedder: Embedder, vectors: Vectors, min_confidence: float) -> None:
        self.min_confidence = min_confidence
        self._embedder = embedder
        self._vectors = vectors
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, F32] = OrderedDict()

    def query(self, text: str) -> F32:
        """The unit vector of a question; the last ones are remembered. Raises
        EmbeddingError where the provider does not answer soon."""
        with self._lock:
            known = self._queries.get(text)
            if known is not None:
                self._queries.move_to_end(text)
                return known
        vector = self._embedder.query(text)
        with self._lock:
            self._queries[text] = vector
            if len(self._queries) > QUERIES_KEPT_MAX:
                self._queries.popitem(last=False)
        return vector

    def cosines(self, query: F32, slots: I32) -> tuple[F64, Bool]:
        """See ``Vectors.cosines``."""
        return self._vectors.cosines(query, slots)

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        """See ``Vectors.rows``."""
        return self._vectors.rows(slots)
