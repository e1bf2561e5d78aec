"""Embeddings in one space, put together: provider, cache, table, vectors and worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eventlog.log import EventLog
from projections.cards.vectors import CardVectors
from projections.embedding.cache import EmbeddingCache
from projections.embedding.choosing import Choice
from projections.embedding.embedder import Embedder
from projections.embedding.provider import Provider
from projections.embedding.recipe import Space, composed
from projections.embedding.semantics import Semantics
from projections.embedding.vec_facts import VecFacts
from projections.embedding.vectors import Vectors
from projections.embedding.worker import EmbeddingWorker, WorkerStatus
from projections.facts import FactRow
from projections.reader import Reader

CACHE_FILE = "embeddings.db"
VECTORS_FILE = "vectors.db"


class Embeddings:
    """See the module. Opened for a choice that has a space; ``close`` when done."""

    def __init__(
        self,
        space: Space,
        provider: Provider,
        cache: EmbeddingCache,
        table: VecFacts,
        vectors: Vectors,
        worker: EmbeddingWorker,
        semantics: Semantics,
        embedder: Embedder,
        reader: Reader,
    ) -> None:
        self.space = space
        self.cache = cache
        self._embedder = embedder
        self.semantics = semantics
        self._provider = provider
        self._table = table
        self._vectors = vectors
        self._worker = worker
        self._reader = reader
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        log: EventLog,
        reader: Reader,
        choice: Choice,
        *,
        min_confidence: float,
        file: str = VECTORS_FILE,
        reindex: bool = False,
    ) -> Embeddings:
        """Open the files in ``folder`` and start the worker.

        Args:
            file: of the table of vectors; one that is to replace another has its own.

        Raises:
            DimensionMismatch, ModelMismatch: ``vec_facts`` holds vectors of another space,
                and not ``reindex``.
        """
        assert choice.space is not None
        table = VecFacts(folder / file, choice.space, reindex=reindex)
        cache = EmbeddingCache(folder / CACHE_FILE)
        vectors = Vectors(choice.space.stored_dimensions)
        embedder = Embedder(choice.provider, choice.space, choice.card, cache)
        worker = EmbeddingWorker(
            log, reader, embedder, table, vectors, min_confidence=min_confidence
        )
        worker.start()
        semantics = Semantics(embedder, vectors, min_confidence, CardVectors(embedder, table))
        return cls(
            choice.space,
            choice.provider,
            cache,
            table,
            vectors,
            worker,
            semantics,
            embedder,
            reader,
        )

    def status(self) -> WorkerStatus:
        """Where the worker stands."""
        return self._worker.status()

    def probe(self) -> None:
        """Embed one harmless text. Raises EmbeddingError where the provider does not answer."""
        self._embedder.probe()

    def wait(self, position: int, timeout_seconds: float) -> bool:
        """Whether everything up to ``position`` is embedded, waiting at most that long."""
        return self._worker.wait(position, timeout_seconds)

    def erase(self, facts: Sequence[FactRow], kept_texts: frozenset[str] = frozenset()) -> None:
        """Forget erased facts everywhere, on disk as well. Idempotent.

        Args:
            kept_texts: composed texts that other facts still have, whose cache entries stay.
        """
        slots = [slot for f in facts if (slot := self._reader.slot_of(f.id)) is not None]
        self._vectors.forget(np.array(slots, dtype=np.int32))
        self._table.write(ended=[fact.id for fact in facts])
        if self.semantics.cards is not None:
            self.semantics.cards.forget_entities(frozenset(fact.entity for fact in facts))
        self._table.scrub()
        texts = {composed(fact.entity, fact.relation, fact.value_v) for fact in facts}
        self.cache.delete(sorted(texts - kept_texts))

    def close(self) -> None:
        """Stop the worker and close the files. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._worker.close()
        self._provider.close()
        self._table.close()
        self.cache.close()
