"""The vectors for recall: the query's, those of facts and of bare texts."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

import numpy as np

from engramlog.projections.arrays import F32, F64, I32, I64, Bool
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.embedding.cache import text_key
from engramlog.projections.embedding.embedder import UncachedEmbedder
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.embedding.vectors.in_memory import Vectors

KEPT_MAX = 2048
"""Vectors kept, 3 MB of 384 dimensions."""
UNKNOWN = -1.0
DIGITS = 6
"""Cosines are rounded as in recall."""


class ContentVectors:
    """Vectors of bare texts, which show whether two memories mean the same (abmind A12). Safe from
    several threads.

    They are made before a write is queued and kept in memory alone: the writer compares existing
    ones and never calls a model. Each memory's vector is made first, so of two memories stored at
    once the second finds the first one's.
    """

    def __init__(self, embedder: UncachedEmbedder) -> None:
        self._embedder = embedder
        self._rows = Remembered(KEPT_MAX)

    def make(self, texts: Sequence[str]) -> None:
        """Make the vectors of texts that the model can read; keeps the most recently used. Raises
        EmbeddingError if the provider does not answer."""
        keys = {text_key(text): text for text in texts if self._embedder.reads(text)}
        missing = {key: text for key, text in keys.items() if self._rows.get(key) is None}
        if missing:
            rows = self._embedder.uncached(list(missing.values()))
            for key, row in zip(missing, rows, strict=True):
                self._rows.put(key, row)

    def vector(self, text: str) -> F32 | None:
        return self._rows.get(text_key(text))

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        """See ``memory_rules.Likeness``."""
        mine = self.vector(text)
        if mine is None:
            return [UNKNOWN] * len(others)
        rows = [self.vector(other) for other in others]
        return [UNKNOWN if row is None else _cosine(mine, row) for row in rows]

    def forget_all(self) -> None:
        """Drop all after an erasure; needed ones are made again."""
        self._rows.clear()


def _cosine(one: F32, other: F32) -> float:
    dot = np.dot(one.astype(np.float64), other.astype(np.float64))
    return round(float(dot), DIGITS)


QUERIES_KEPT_MAX = 256


class Semantics:
    """Recall reads it from any thread. ``vectors``: those of facts. ``min_confidence``: live facts
    above it get one. ``cards``: the vectors of memory cards. ``loaded``: waits at most some seconds
    for the stored vectors."""

    def __init__(
        self,
        embedder: UncachedEmbedder,
        vectors: Vectors,
        min_confidence: float,
        cards: CardVectors | None = None,
        loaded: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.cards = cards
        self.contents = ContentVectors(embedder)
        """Vectors of memories' values, without entity and relation."""
        self.min_confidence = min_confidence
        self._embedder = embedder
        self.vectors = vectors
        self._loaded = loaded
        self._lock = threading.Lock()
        self._queries: OrderedDict[str, Future[F32]] = OrderedDict()

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of a text."""
        return self._embedder.reads(text)

    def start(self, seconds: float) -> None:
        """Return once the model answers and the stored vectors are loaded, or cannot be: a question
        then tells why. Waits at most ``seconds`` for the vectors."""
        with suppress(EmbeddingError):
            self._embedder.start()
        self._loaded(seconds)

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

    def supposing(self, theirs: I32, slots: I32, texts: Sequence[str]) -> "Semantics":
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


class SupposedVectors(Vectors):
    """Vectors of a scratch copy of the facts: the node's own, read by the node's slots, and those
    of supposed facts, dropped with the question. ``theirs``: the node's slot for each slot of the
    copy, ascending, -1 without one. Slots beyond it are supposed facts, added by ``put``."""

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
