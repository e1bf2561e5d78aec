"""The vectors for recall: the query's and those of facts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from engramlog.projections.arrays import F32, I32
from engramlog.projections.embedding.embedder import UncachedEmbedder
from engramlog.projections.embedding.hypothetical import SupposedVectors
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.embedding.vectors.content_vectors import ContentVectors
from engramlog.projections.embedding.vectors.in_memory import Vectors

QUERIES_KEPT_MAX = 256


class Semantics:
    """Recall reads it from any thread. ``vectors``: those of facts. ``min_confidence``: live facts
    above it get one. ``cards``: the vectors of memory cards."""

    def __init__(
        self,
        embedder: UncachedEmbedder,
        vectors: Vectors,
        min_confidence: float,
        cards: CardVectors | None = None,
    ) -> None:
        self.cards = cards
        self.contents = ContentVectors(embedder)
        """Vectors of memories' values, without entity and relation."""
        self.min_confidence = min_confidence
        self._embedder = embedder
        self.vectors = vectors
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Future[F32]] = OrderedDict()

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of a text."""
        return self._embedder.reads(text)

    def query(self, text: str) -> F32:
        """The unit vector of a question, from a cache of the last ones. Parallel requests for one
        question share one call. Raises EmbeddingError: the provider does not answer soon."""
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

    def known(self, text: str) -> F32 | None:
        """The cached vector of a question; never waits."""
        with self._lock:
            held = self._queries.get(text)
        done = held is not None and held.done() and held.exception() is None
        return held.result() if held is not None and done else None

    def supposing(self, theirs: I32, slots: I32, texts: Sequence[str]) -> Semantics:
        """The same model over a scratch copy of the facts, without cards.

        Args:
            theirs: see ``SupposedVectors``.
            slots: of the copy: supposed facts to embed.
            texts: the text of each.

        Raises:
            EmbeddingError: the provider does not answer.
        """
        vectors = SupposedVectors(self.vectors, theirs)
        if texts:
            vectors.put(slots, self._embedder.uncached(texts))
        return Semantics(self._embedder, vectors, self.min_confidence)

    def on_vectors(self, put: Callable[[I32, F32], None], forget: Callable[[I32], None]) -> None:
        """Report added and removed vectors, in the embedding worker's thread."""
        self.vectors.on_put, self.vectors.on_forget = put, forget
