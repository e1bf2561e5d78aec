"""What recall knows of meaning: the query's vector, and the vectors of facts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future

from projections.arrays import F32, F64, I32, I64, Bool
from projections.cards.vectors import CardVectors
from projections.embedding.embedder import Embedder
from projections.embedding.vectors import Vectors

QUERIES_KEPT_MAX = 256


class Semantics:
    """Read by recall from any thread.

    ``min_confidence`` is the confidence above which a live fact is to have a vector;
    ``cards`` has the vectors of memory cards.
    """

    def __init__(
        self,
        embedder: Embedder,
        vectors: Vectors,
        min_confidence: float,
        cards: CardVectors | None = None,
    ) -> None:
        self.cards = cards
        self.min_confidence = min_confidence
        self._embedder = embedder
        self._vectors = vectors
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Future[F32]] = OrderedDict()

    def query(self, text: str) -> F32:
        """The unit vector of a question. The last ones are remembered, and a question that
        is being embedded is waited for, not asked twice.

        Raises:
            EmbeddingError: the provider does not answer soon.
        """
        with self._lock:
            known = self._queries.get(text)
            mine = known is None
            if known is None:
                known = self._queries[text] = Future()
                if len(self._queries) > QUERIES_KEPT_MAX:
                    self._queries.popitem(last=False)
            else:
                self._queries.move_to_end(text)
        if mine:
            try:
                known.set_result(self._embedder.query(text))
            except BaseException as fault:
                with self._lock:
                    if self._queries.get(text) is known:
                        del self._queries[text]
                known.set_exception(fault)
        return known.result()

    def cosines(self, query: F32, slots: I32) -> tuple[F64, Bool]:
        """See ``Vectors.cosines``."""
        return self._vectors.cosines(query, slots)

    def present(self, slots: I32) -> Bool:
        """See ``Vectors.present``."""
        return self._vectors.present(slots)

    def likely(self, query: F32, slots: I32, count: int) -> I64:
        """See ``Vectors.likely``."""
        return self._vectors.likely(query, slots, count)

    def rows(self, slots: I32) -> tuple[F32, Bool]:
        """See ``Vectors.rows``."""
        return self._vectors.rows(slots)
