"""The embedding worker: a thread that keeps ``vec_facts`` and the vectors in memory current.

It follows the log, embeds new live facts and deletes vectors of ended ones (seed §20.2.5);
contested facts keep theirs (§20.2.6). At start it compares all facts with the table, so it
continues where it stopped. A provider that does not answer only makes it fall behind.
"""

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from engramlog.eventlog.errors import StorageError, StorageFailed
from engramlog.eventlog.log import EventLog
from engramlog.projections.arrays import F32, I32, Bool, grown
from engramlog.projections.columns.fact_columns import NOWHERE
from engramlog.projections.embedding.embedder import Embedder
from engramlog.projections.embedding.errors import (
    BadAnswer,
    EmbeddingError,
    ProviderRefused,
    ProviderUnavailable,
)
from engramlog.projections.embedding.published_changes import Change, PublishedChanges
from engramlog.projections.embedding.recipe import composed
from engramlog.projections.embedding.retrying import PAUSE_SECONDS, PAUSE_SECONDS_MAX, Retrying
from engramlog.projections.embedding.vectors.blocks import VectorBlocks
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.loading import living, load_from_files, load_vectors
from engramlog.projections.embedding.vectors.vec_facts import VecFacts, VectorsDamaged
from engramlog.projections.embedding.worker_status import WorkerStatus
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View, everything
from engramlog.projections.tables.facts.fact_rows import SaidRow
from engramlog.projections.tables.storage_faults import MACHINE_FAULTS

CHUNK_FACTS = 256
PAST_CHUNK_FACTS = 5_000
TAKE_SECONDS = 1.0
GATHER_SECONDS = 0.05
"""The rest after each round, so that the writes of a burst are embedded and stored together: one
by one, each takes three transactions."""

_log = logging.getLogger(__name__)


class EmbeddingWorker:
    """Keeps the vectors current; ``start`` once, then ``close``."""

    def __init__(
        self,
        log: EventLog,
        reader: Reader,
        embedder: Embedder,
        table: VecFacts,
        vectors: BoundedVectors,
        blocks: VectorBlocks,
        *,
        min_confidence: float,
    ) -> None:
        self._log = log
        self._reader = reader
        self._embedder = embedder
        self._table = table
        self._vectors = vectors
        self._blocks = blocks
        self._min_confidence = min_confidence
        self._retrying = Retrying()
        self._closing = threading.Event()
        self._condition = threading.Condition()
        self._embedding = threading.Lock()
        # Read under the condition; only the worker's thread writes.
        self._waiting: dict[int, None] = {}
        self._skipped: set[int] = set()
        self._callers = 0
        self._stored: Bool = np.zeros(1024, dtype=np.bool_)
        self._seen = 0
        self._seen_position = 0
        self._reached = 0
        self._usable = False
        # Only the worker's thread uses these.
        self._past_from = 0
        self._begun: View | None = None
        self._damaged = False
        self._changes = PublishedChanges()
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    def start(self) -> None:
        """Load the table into memory, find what is missing, and follow the log."""
        self._reader.followers.append(self._changes.note)
        self._begun = self._reader.pin()
        self._thread.start()

    def status(self) -> WorkerStatus:
        """The current state."""
        head = self._log.head().position
        with self._condition:
            position = self._reached
            return WorkerStatus(
                position=position,
                lag=max(0, head - position),
                waiting=len(self._waiting),
                skipped=len(self._skipped),
                vectors=int(np.count_nonzero(self._stored)),
                memory_bytes=self._vectors.held_bytes,
                error=self._retrying.error,
            )

    @property
    def loaded(self) -> bool:
        """Whether all stored vectors are in memory."""
        return self._begun is None

    def wait_until_loaded(self, timeout_seconds: float | None = None) -> None:
        """Wait at most that long for ``loaded``, for what prevents it, or for ``close``."""
        self._wait_while_loading(lambda: self.loaded, timeout_seconds)

    def wait_until_usable(self, timeout_seconds: float) -> None:
        """As ``wait_until_loaded``, but only until questions have all vectors of living facts."""
        self._wait_while_loading(lambda: self.loaded or self._usable, timeout_seconds)

    def _wait_while_loading(self, done: Callable[[], bool], timeout_seconds: float | None) -> None:
        if not done():
            self._wait_for(lambda: done() or self._retrying.error is not None, timeout_seconds)

    def wait(self, position: int, timeout_seconds: float) -> bool:
        """Whether everything up to ``position`` has its vector; waits at most that long."""
        return self._wait_for(lambda: self._reached >= position, timeout_seconds)

    def _wait_for(self, reached: Callable[[], bool], timeout_seconds: float | None) -> bool:
        """Whether ``reached`` becomes true in time; meanwhile the worker does not rest."""
        with self._condition:
            self._callers += 1
            self._condition.notify_all()
            try:
                self._condition.wait_for(
                    lambda: reached() or self._closing.is_set(), timeout_seconds
                )
            finally:
                self._callers -= 1
            return reached()

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Stop after the current request; whether it ended within this time. Idempotent."""
        self._closing.set()
        with self._condition:
            self._condition.notify_all()
        self._changes.close()
        if self._changes.note in self._reader.followers:
            self._reader.followers.remove(self._changes.note)
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _position(self) -> int:
        """Everything up to here is embedded. Call under the condition."""
        if not self._waiting:
            return self._seen_position
        return int(self._reader.pin().from_position[min(self._waiting)]) - 1

    def _run(self) -> None:
        followed = False
        while not self._closing.is_set():
            try:
                if self._damaged:
                    self._begin_again()
                if self._begun is not None:
                    self._load(self._begun)
                    self._compare(self._begun, everything(self._begun))
                    with self._condition:
                        self._begun = None
                        self._condition.notify_all()
                self._embed_waiting()
                if followed:
                    self._gather()
                if not self._waiting:
                    self._recover_past()
                followed = self._follow_next()
                if not self._waiting:
                    self._retrying.succeeded()
            except Exception as fault:  # a fault of disk or code does not end the thread
                if not isinstance(fault, (*MACHINE_FAULTS, StorageError)):
                    _log.exception("embedding worker")
                self._damaged = self._damaged or isinstance(fault, VectorsDamaged)
                with self._condition:
                    self._retrying.failed(fault)
                    self._condition.notify_all()
                self._closing.wait(PAUSE_SECONDS)

    def _begin_again(self) -> None:
        """Start with an empty table; the cache has most vectors."""
        self._table.remake()
        self._usable = False
        self._vectors.leave_file()
        with self._condition:
            self._stored[:] = False
        self._begun, self._damaged = self._reader.pin(), False

    def _gather(self) -> None:
        """Rest, unless there is work or a caller waits."""
        with self._condition:
            if not self._waiting:
                self._condition.wait_for(
                    lambda: self._callers > 0 or self._closing.is_set(), GATHER_SECONDS
                )

    def _patience(self) -> float:
        """How long to wait for events before the next possible work."""
        if self._waiting:
            return min(TAKE_SECONDS, max(0.0, self._retrying.pause()))
        return 0.0 if self._past_from < self._seen else TAKE_SECONDS

    def _load(self, view: View) -> None:
        """Load the stored vectors into memory; delete rows of facts unknown to the node."""
        self._grow_columns(view.count)
        self._usable = load_from_files(
            self._vectors, self._blocks, self._table, self._reader, view, self._min_confidence
        )
        self._announce_progress()
        unknown: list[str] = []
        for ids, slots in load_vectors(self._vectors, self._table, view, self._reader.slot_of):
            known = slots >= 0
            unknown += [ids[n] for n in np.flatnonzero(~known).tolist()]
            self._stored[slots[known]] = True
        if unknown:
            self._table.write(ended=unknown)
        self._vectors.forget(np.flatnonzero(view.scope == NOWHERE).astype(np.int32))

    def _follow_next(self) -> bool:
        """Follow the next change, if there is one in time. One that fails is taken again: it may
        name facts that were erased."""
        change = self._changes.take(self._patience())
        if change is None:
            return False
        try:
            self._follow(change)
        except BaseException:
            self._changes.put_back(change)
            raise
        return True

    def _follow(self, change: Change) -> None:
        view = self._reader.pin()  # published before its events
        if not self._waiting:  # reading new rows sooner would force the tables to follow
            self._reader.image.tail.wait(view.position, TAKE_SECONDS)
        self._forget_erased(view, change.erased)
        if change.whole:
            self._compare(view, everything(view))
            return
        ended = [self._slot(fact, self._seen) for fact in change.retracted]
        fresh = np.arange(self._seen, view.count, dtype=np.int32)
        changed = np.unique(np.concatenate([np.array(ended, dtype=np.int32), fresh]))
        self._compare(view, changed[changed >= 0])

    def _forget_erased(self, view: View, named: Sequence[str]) -> None:
        """Drop all vectors of erased facts; facts that only ended keep theirs."""
        erased = [fact for fact in named if self._reader.slot_of(fact) is None]
        if erased:
            self._table.write(ended=erased)
            self._vectors.forget(np.flatnonzero(view.scope == NOWHERE).astype(np.int32))

    @contextmanager
    def paused(self, timeout_seconds: float) -> Generator[None, None, None]:
        """Pause embedding after the current request. Raises StorageFailed if that takes longer."""
        if not self._embedding.acquire(timeout=timeout_seconds):
            raise StorageFailed("the embedding provider has not answered yet")
        try:
            yield
        finally:
            self._embedding.release()

    def followed(self, position: int, timeout_seconds: float) -> bool:
        """Whether the worker processes every event up to ``position`` within this time."""
        return self._wait_for(lambda: self._seen_position >= position, timeout_seconds)

    def _slot(self, fact: str, count: int) -> int:
        """The slot of a fact, -1 unless it is below ``count``."""
        slot = self._reader.slot_of(fact)
        return -1 if slot is None or slot >= count else slot

    def _compare(self, view: View, slots: I32) -> None:
        """Delete vectors of facts that ended or faded; queue facts that need one."""
        alive = living(view, slots, self._min_confidence)
        self._grow_columns(view.count)
        stored = self._stored[slots]
        gone = slots[~alive & stored]
        if len(gone):
            self._table.write(ended=[row.id for row in self._rows(view, gone)])
        with self._condition:
            self._stored[gone] = False
            for slot in slots[~alive].tolist():
                self._waiting.pop(slot, None)
            wanted = slots[alive & ~stored].tolist()
            self._waiting.update(dict.fromkeys(s for s in wanted if s not in self._skipped))
            self._seen, self._seen_position = view.count, view.position
        self._announce_progress()

    def _grow_columns(self, count: int) -> None:
        if count > len(self._stored):
            self._stored = grown(self._stored, 2 * count)

    def _announce_progress(self) -> None:
        """Wake waiting callers. To find the first waiting fact reads all waiting ones, so it is
        done here for every caller."""
        with self._condition:
            self._reached = self._position()
            self._condition.notify_all()

    def _embed_waiting(self) -> None:
        """Embed the next waiting facts in order, if the provider answers. Only some: changes must
        be followed meanwhile, as an erasure waits for that."""
        if not self._waiting or self._retrying.pause() > 0:
            return
        slots = np.array(sorted(islice(self._waiting, CHUNK_FACTS)), dtype=np.int32)
        try:
            self._embed(slots)
        except ProviderUnavailable as fault:
            if not self._closing.is_set():  # closing may end the provider's process
                self._retrying.failed(fault, fault.retry_after_seconds)
        except EmbeddingError as fault:
            self._handle_refusal(slots, fault)
        else:
            self._retrying.succeeded()
        self._announce_progress()

    def _embed(self, slots: I32) -> None:
        kept = slots[:0]
        with self._embedding:
            if rows := self._rows(self._reader.pin(), slots):  # else erased meanwhile
                vectors = self._embedder.documents([_text(row) for row in rows])
                # A fact that ended meanwhile is in the table until its end is followed.
                self._table.write([(row.id, each) for row, each in zip(rows, vectors, strict=True)])
                kept = self._keep(rows, vectors)
            with self._condition:
                self._stored[kept] = True
                for slot in slots.tolist():
                    self._waiting.pop(slot, None)

    def _handle_refusal(self, slots: I32, fault: EmbeddingError) -> None:
        """Handle a refusal of a chunk: if the provider refuses everything, all facts wait;
        otherwise the refused texts are skipped."""
        try:
            self._embedder.probe()
        except EmbeddingError:
            self._retrying.failed(fault, PAUSE_SECONDS_MAX)
            return
        for slot in slots.tolist():
            if self._closing.is_set():
                return
            try:
                self._embed(np.array([slot], dtype=np.int32))
            except (ProviderRefused, BadAnswer) as refusal:
                _log.warning("a fact cannot be embedded: %s", refusal)
                with self._condition:
                    self._waiting.pop(slot, None)
                    self._skipped.add(slot)
            except EmbeddingError as other:
                self._retrying.failed(other)
                return

    def _recover_past(self) -> None:
        """Load vectors of ended facts, for questions about the past: one chunk from the cache."""
        if self._past_from >= self._seen:
            return
        until = min(self._seen, self._past_from + PAST_CHUNK_FACTS)
        slots = np.arange(self._past_from, until, dtype=np.int32)
        self._past_from = until
        view = self._reader.pin()
        slots = slots[~self._vectors.present(slots) & (view.base[slots] > 0.0)]
        if not len(slots):
            return
        rows = self._rows(view, slots)
        found = self._embedder.cached([_text(row) for row in rows])
        kept = [
            (row, vector) for row, vector in zip(rows, found, strict=True) if vector is not None
        ]
        if kept:
            self._keep([row for row, _ in kept], np.stack([vector for _, vector in kept]))

    def _rows(self, view: View, slots: I32) -> list[SaidRow]:
        return self._reader.said(view.from_position[slots].tolist())

    def _keep(self, rows: Sequence[SaidRow], vectors: F32) -> I32:
        """Put vectors into memory; returns the slots of the rows."""
        found = [self._reader.slot_of(row.id) for row in rows]
        held = [n for n, slot in enumerate(found) if slot is not None]  # skips erased facts
        slots: I32 = np.array([found[n] for n in held], dtype=np.int32)
        self._vectors.put(slots, vectors[held])
        return slots


def _text(row: SaidRow) -> str:
    return composed(row.entity, row.relation, row.value_v)
