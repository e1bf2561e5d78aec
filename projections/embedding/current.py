"""The node's embeddings for recall, and their change to another model while it serves.

Each space has its own file of vectors. Re-indexing fills the new space's file while the old one
serves. Once every live fact has its new vector, the log pins the new model and recall switches
over.
"""

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from engramlog.eventlog.log import EventLog
from engramlog.projections.embedding.choosing import Choice, choose
from engramlog.projections.embedding.errors import EmbeddingError, EmbeddingsOff
from engramlog.projections.embedding.recipe import Space, vectors_file
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.service import CACHE_FILE, Embeddings
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.embedding.vectors.blocks import remove_blocks
from engramlog.projections.embedding.vectors.card_vectors import CardVectors
from engramlog.projections.embedding.worker_status import WorkerStatus
from engramlog.projections.image.reader import Reader

Progress = Callable[[int, int], None]
"""Called with (facts embedded, all facts)."""
Pin = Callable[[Space], None]
"""Records in the log the space used from now on."""

POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


class ReindexStopped(EmbeddingError):
    """The node closed before all facts were indexed; the cache keeps the finished ones."""


class ReindexReport(Struct, frozen=True):
    """The outcome of a re-indexing. ``changed``: False if facts had this model's vectors."""

    space: str
    dimensions: int
    vectors: int
    skipped: int
    changed: bool


class CurrentEmbeddings:
    """The embeddings in use; ``close`` when done.

    Args:
        folder: the data directory.
        settings: the operator's.
        pin: called once a space is in use that the log does not name yet.
        environment: holds API keys.
    """

    def __init__(
        self,
        folder: Path,
        log: EventLog,
        reader: Reader,
        settings: EmbeddingSettings,
        pin: Pin,
        environment: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._log = log
        self._reader = reader
        self._settings = settings
        self._pin = pin
        self._environment = environment
        self._closing = threading.Event()
        self._reindexing = threading.Lock()
        self._current: Embeddings | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        log: EventLog,
        reader: Reader,
        settings: EmbeddingSettings,
        pinned: Space | None,
        *,
        pin: Pin,
        environment: Mapping[str, str],
    ) -> "CurrentEmbeddings":
        """Embed by the settings and the log; the first start pins the model. Raises
        DimensionMismatch, ModelMismatch: settings and log differ: the node must not start.
        UnknownModel: the settings name an unknown model, or an API key is missing. ModelFileError:
        the bundled model is configured and not installed."""
        choice = choose(settings, pinned, environment)
        found = cls(folder, log, reader, settings, pin, environment)
        if choice.space is not None:
            for stale in folder.glob("vectors-*.db*"):
                if not stale.name.startswith(vectors_file(choice.space)):
                    stale.unlink(missing_ok=True)
            remove_blocks(folder, folder / vectors_file(choice.space))
            found._current = found._opened(choice)
            if choice.pin:
                pin(choice.space)
        return found

    @property
    def space(self) -> Space | None:
        """The space of the facts' vectors; None if embeddings are off."""
        current = self._current
        return None if current is None else current.space

    @property
    def semantics(self) -> Semantics | None:
        """The interface for recall; None if embeddings are off."""
        current = self._current
        return None if current is None else current.semantics

    @property
    def cards(self) -> CardVectors | None:
        """The vectors of memory cards; None if embeddings are off."""
        semantics = self.semantics
        return None if semantics is None else semantics.cards

    @property
    def loaded(self) -> bool:
        """Whether all stored vectors are loaded."""
        current = self._current
        return current is None or current.worker.loaded

    def wait_until_loaded(self) -> None:
        """Wait for ``loaded``, or for what prevents it."""
        current = self._current
        if current is not None:
            current.worker.wait_until_loaded()

    def status(self) -> WorkerStatus | None:
        """The worker's state; None if embeddings are off."""
        current = self._current
        return None if current is None else current.worker.status()

    def reindex(self, settings: EmbeddingSettings, progress: Progress) -> ReindexReport:
        """Embed all live facts by ``settings``; blocks until recall has switched over. Raises
        EmbeddingsOff: the settings name no model. UnknownModel, ModelFileError: the model cannot be
        opened. EmbeddingError: the provider does not answer, so nothing was begun. ReindexStopped:
        ``close`` was called meanwhile."""
        with self._reindexing:
            choice = choose(settings, self.space, self._environment, reindex=True)
            if choice.space is None:
                choice.provider.close()
                raise EmbeddingsOff("there is no model to index with: name a provider")
            old = self._current
            if old is not None and old.space == choice.space:
                choice.provider.close()
                old.embedder.probe()
                self._wait_until_filled(old, progress)
                return _report(old, changed=False)
            new = self._opened(choice)
            try:
                new.embedder.probe()
                self._wait_until_filled(new, progress)
                self._pin(choice.space)
            except BaseException:
                new.close()
                raise
            self._current = new
            if old is not None:
                old.close()
                for file in self._folder.glob(vectors_file(old.space) + "*"):
                    file.unlink(missing_ok=True)
                remove_blocks(self._folder, self._folder / vectors_file(choice.space))
            _log.warning("facts are embedded with %s from here on", choice.space)
            return _report(new, changed=True)

    def purge(self, position: int, gone: Container[str], keys: Iterable[bytes]) -> None:
        """See ``Embeddings.purge``. Waits for a running re-indexing."""
        with self._reindexing:
            if self._current is not None:
                self._current.purge(position, gone, keys)
            else:
                purge_files(self._folder)

    def write_blocks(self) -> None:
        """See ``Embeddings.write_blocks``."""
        current = self._current
        if current is not None:
            current.write_blocks()

    def stop_reindexing(self) -> None:
        """Stop a running re-indexing; the old vectors keep serving."""
        self._closing.set()

    def close(self) -> None:
        """Stop the workers and close the files. Idempotent."""
        self._closing.set()
        with self._reindexing:
            if self._current is not None:
                self._current.close()

    def _opened(self, choice: Choice) -> Embeddings:
        assert choice.space is not None
        return Embeddings(
            self._folder,
            self._log,
            self._reader,
            choice,
            min_confidence=self._settings.min_confidence,
            file=vectors_file(choice.space),
            memory_bytes=self._settings.memory_bytes,
        )

    def _wait_until_filled(self, new: Embeddings, progress: Progress) -> None:
        """Wait until an index has caught up with the log."""
        while not new.worker.wait(self._log.head().position, POLL_SECONDS):
            if self._closing.is_set():
                raise ReindexStopped("the node was closed before all facts were indexed")
            status = new.worker.status()
            progress(status.vectors, status.vectors + status.waiting)
        status = new.worker.status()
        progress(status.vectors, status.vectors)


def purge_files(folder: Path) -> None:
    """Remove unused files of vectors and caches: both are made again on demand."""
    for pattern in ("vectors-*.db*", f"{CACHE_FILE}*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    remove_blocks(folder)


def _report(index: Embeddings, *, changed: bool) -> ReindexReport:
    status = index.worker.status()
    return ReindexReport(
        str(index.space), index.space.stored_dimensions, status.vectors, status.skipped, changed
    )
