"""Embeddings in one space: provider, cache, table, vectors and worker."""

from collections.abc import Container, Iterable
from pathlib import Path

from engramlog.eventlog.engines.sqlite.schema import is_full, no_space
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.log import EventLog
from engramlog.projections.embedding.cache import EmbeddingCache
from engramlog.projections.embedding.choosing import Choice
from engramlog.projections.embedding.embedder import Embedder
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.blocks import VectorBlocks, blocks_folder
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.embedding.vectors.vec_facts import VecFacts
from engramlog.projections.embedding.vectors.vector_file import KeptVectorFile, search_file
from engramlog.projections.embedding.worker import EmbeddingWorker
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.storage_faults import MACHINE_FAULTS

CACHE_FILE = "embeddings.db"
PURGE_WAIT_SECONDS = 5.0
"""Longest wait for the worker, twice in a purge: a stop waits for the purge, and a service manager
at most half a minute for the stop."""
CLOSING_SECONDS = 3.0
"""How long the worker may finish its request at the end. A provider that hangs would hold the data
directory for minutes: each of several attempts waits for an answer."""


class Embeddings:
    """The embeddings of one model over a data directory: the table and files of vectors, the worker
    that fills them, and the search over them. ``close`` when done."""

    def __init__(
        self,
        folder: Path,
        log: EventLog,
        reader: Reader,
        choice: Choice,
        *,
        min_confidence: float,
        file: str,
        memory_bytes: int | None = None,
    ) -> None:
        """Open the files in ``folder`` and start the worker. ``choice``: has a space. ``file``: of
        the table of vectors; a replacement of another has its own. ``memory_bytes``: see
        ``BoundedVectors``. Raises DimensionMismatch, ModelMismatch: ``vec_facts`` holds vectors of
        another space."""
        space = choice.space
        assert space is not None
        self.space = space
        self._reader = reader
        self._provider = choice.provider
        self._table = VecFacts(folder / file, space)
        self.cache = EmbeddingCache(folder / CACHE_FILE)
        searched = KeptVectorFile(
            search_file(folder / file), space.stored_dimensions, memory_bytes, log
        )
        self._vectors = BoundedVectors(searched, lambda: reader.pin().from_position, memory_bytes)
        self.embedder = Embedder(choice.provider, space, choice.card, self.cache)
        self._blocks = VectorBlocks(blocks_folder(folder / file), space, log)
        self.worker = EmbeddingWorker(
            log,
            reader,
            self.embedder,
            self._table,
            self._vectors,
            self._blocks,
            min_confidence=min_confidence,
        )
        self.worker.start()
        cards = CardVectors(self.embedder, self._table)
        self.semantics = Semantics(
            self.embedder, self._vectors, min_confidence, cards, self.worker.wait_until_usable
        )
        self._closed = False

    def write_blocks(self) -> None:
        """Write full blocks of vectors without a file, while others read. Raises OSError."""
        if self.worker.loaded:
            self._blocks.write(self._vectors, self._reader.pin().from_position)

    def purge(self, position: int, gone: Container[str], keys: Iterable[bytes]) -> None:
        """Remove from disk all vectors of erased facts and of texts that no fact has. Idempotent.

        Args:
            position: erasures up to here are processed first.
            gone: ids of erased facts.
            keys: of the texts (``cache.text_key``) that stay.

        Raises:
            StorageFailed, StorageFull: the worker is behind, or a file cannot be cleaned now.
        """
        if not self.worker.followed(position, PURGE_WAIT_SECONDS):
            raise StorageFailed("the embedding worker has not followed the log yet")
        if self.semantics.cards is not None:
            self.semantics.cards.forget_all()
        self.semantics.contents.forget_all()
        try:
            with self.worker.paused(PURGE_WAIT_SECONDS):
                self._blocks.discard_forgotten(self._vectors)
                self._vectors.scrub()
                self._table.rewrite(gone)
                self.cache.keep_only(keys)
        except MACHINE_FAULTS as fault:
            if is_full(fault):
                raise no_space("the vectors", fault) from fault
            raise StorageFailed(f"the vectors: {fault}") from fault

    def close(self) -> None:
        """Stop the worker and close the files. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if not self.worker.close(CLOSING_SECONDS):
            self._provider.close()  # it does not answer; its texts wait for the next start
            self.worker.close()
        self._provider.close()
        self._table.close()
        self._vectors.close()
        self.cache.close()
