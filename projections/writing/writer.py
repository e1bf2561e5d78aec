"""The writer: one thread that decides, appends and applies, and shares one fsync per group.

The life of a write: ``submit`` queues a submission → the thread takes everything in the queue but
large submissions, which follow one by one → decides each from the memory image or the tables →
appends its events to the log transaction → commits the log (fsync) → publishes in the memory image
→ answers the caller. If a decision read the tables, they hold everything before it and commit
between log and image. Otherwise they follow with the tail, in batches, before anything reads them.
A crash before the log's commit loses nothing acknowledged; after one, start-up catches up from it.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.errors import StorageError, UnknownKind
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.log import EventLog, Idempotency, KeyCopy, WholeLog
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.catching_up import CatchesUp
from engramlog.projections.writing.commands import Command, Done, WriteAnswer
from engramlog.projections.writing.decisions import ALONE
from engramlog.projections.writing.group import Group, SubmissionFailed, check
from engramlog.projections.writing.submission import (
    Answered,
    ReplicaReadOnly,
    Submission,
    WriterBusy,
    WriterClosed,
    WriterDegraded,
    answer_all,
)
from engramlog.projections.writing.turns import in_turn

WAITING_SUBMISSIONS_MAX = 10_000
RETRY_SECONDS = 1.0
"""Between attempts to bring the tables up to the log, without writes."""


class Writer(CatchesUp):
    """Decides and writes all submissions. ``on_commit`` is called in the writer's thread after each
    publication. ``primary``: the URL of the node that takes the writes, if this one is its replica.
    ``groups``, ``submissions``: counters since start. ``begun_us``: the clock when the group under
    way began: its events, which no reader sees yet, are received since; None between groups."""

    def __init__(
        self,
        log: EventLog,
        store: ProjectionStore,
        image: MemoryImage,
        clock: Clock,
        on_commit: Callable[[Sequence[Recorded]], None] = lambda _: None,
    ) -> None:
        super().__init__(log, store, image, on_commit)
        self.primary: str | None = None
        self.begun_us: int | None = None
        self.groups = 0
        self.submissions = 0
        self._clock = clock
        self._identifiers = IdentifierSource(log.origin)
        self._queue: queue.SimpleQueue[Submission | Callable[[], None] | None] = queue.SimpleQueue()
        self._held = 0
        self._closed = False
        self._following = False
        self._retried: Future[None] | None = None
        self._entry = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Catch up with the log, publish, and start taking submissions."""
        self._catch_up()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of waiting submissions."""
        return self._queue.qsize() + self._held

    def submit(
        self,
        commands: Sequence[Command],
        *,
        actor: str,
        idempotency: Idempotency | None = None,
        received_at: int | Sequence[int] | None = None,
        atomic: bool = False,
        check: Callable[[], None] | None = None,
    ) -> Future[WriteAnswer]:
        """Queue a submission; its future resolves once the events are durable and readable.

        Args:
            commands: decided in order; each sees the ones before it.
            actor: the caller, written in every event.
            idempotency: a repeated key is answered from the log, without writing.
            received_at: receipt time in microseconds, for imports that carry their own: one for
                all commands, or one for each.
            atomic: one refused command undoes the whole submission.
            check: as in ``Submission``.

        Raises (through the future): AppendError, StorageError, WriterDegraded; as ``check``.
        Raises (here): WriterBusy, WriterClosed, ReplicaReadOnly.
        """
        submission = Submission(commands, actor, idempotency, received_at, atomic, check=check)
        self.take(submission)
        return submission.answer

    def take(self, submission: Submission) -> None:
        """Queue a submission; its ``outcome`` gets the result that ``submit``'s future would.

        Raises: WriterBusy, WriterClosed, ReplicaReadOnly.
        """
        if self.primary is not None:
            raise ReplicaReadOnly(f"this node is a read-only replica; write to {self.primary}")
        self._enqueue(submission)

    def exclusive(self, work: Callable[[], Any], *, settled: bool = True) -> Future[Any]:
        """Run ``work`` in the writer's thread, between groups, with tables that show everything
        published; not ``settled``: whatever they show, as damaged ones take no events."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # same as for a submission

        def task() -> None:
            try:
                if settled:
                    self.image.tail.settle()
                answer.set_result(work())
            except BaseException as fault:
                answer.set_exception(fault)

        self._enqueue(task)
        return answer

    def copy(self, log: WholeLog, events: Sequence[Stored], keys: Sequence[KeyCopy]) -> Future[Any]:
        """Append another log's events to ``log``, which is this writer's, and publish them.

        Raises (through the future): CorruptLog, StorageError.
        """

        def work() -> None:
            log.copy(events, keys)
            try:
                self._catch_up()
            except StorageError as fault:
                self.degraded = f"projections are behind the log: {fault}"
            except Exception as fault:
                self._break(fault)
                raise

        return self.exclusive(work)

    def follow(self) -> None:
        """Publish other nodes' writes to this log soon. Any thread may call it at any rate; a
        waiting request is not queued twice."""
        if self._following or self.broken is not None:
            return
        if self.degraded is None and self.image.position == self.log.head().position:
            return

        self._following = True
        try:
            self._enqueue(self._follow)
        except (WriterBusy, WriterClosed):
            self._following = False

    def retry(self) -> Future[None]:
        """Try the log's writing and the tables' following again. The future resolves after the
        attempt; ``degraded`` and the log's ``fault`` report its outcome. Raises WriterBusy,
        WriterClosed."""
        if self._retried is not None and not self._retried.done():
            return self._retried
        tried: Future[None] = Future()
        tried.set_running_or_notify_cancel()  # same as for a submission

        def work() -> None:
            try:
                with suppress(StorageError):
                    self.log.retry()
                if self.degraded is not None and self.broken is None:
                    self._follow()
            except Exception as fault:
                tried.set_exception(fault)
            else:
                tried.set_result(None)

        self._enqueue(work)
        self._retried = tried
        return tried

    def _follow(self) -> None:
        self._following = False
        try:
            self._catch_up()
        except StorageError as fault:
            self.degraded = f"projections are behind the log: {fault}"
        except UnknownKind as fault:  # of another node over the log, which runs a later release
            self.broken = self.degraded = str(fault)
        except Exception as fault:
            self._break(fault)

    def replace_store(self, store: ProjectionStore) -> None:
        """Continue with another file at the log's head. Call inside ``exclusive``."""
        before = self.store.path
        self.store.close()
        self.store = store
        self.replaced.add(before)

    def _enqueue(self, item: Submission | Callable[[], None]) -> None:
        with self._entry:  # nothing may enter the queue after its end marker
            if self._closed:
                raise WriterClosed("the writer is closed")
            if self.waiting >= WAITING_SUBMISSIONS_MAX:
                raise WriterBusy(f"{WAITING_SUBMISSIONS_MAX} commands wait already")
            self._queue.put(item)

    def close(self) -> None:
        """Finish all waiting submissions, then stop. Idempotent."""
        with self._entry:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._work()
        self._follow_log()
        # Answer late arrivals, so that no caller waits for ever.
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, Submission):
                item.outcome.set_exception(WriterClosed("the writer is closed"))
            elif item is not None:
                item()

    def _work(self) -> None:
        while True:
            item = self._next()
            if item is None:
                return
            if not isinstance(item, Submission):
                item()
                continue
            waiting, after, served = [item], None, dict[str, int]()
            while waiting:
                after = after or self._gather(waiting)
                groups, waiting = in_turn(waiting, served)
                self._held = len(waiting)
                for group in groups:
                    self._write(group)
                if self.image.tail.patience() == 0:
                    self._follow_log()
                if after is not None and after is not _STOP:
                    after()
                    after = None
            if after is _STOP:
                return

    def _next(self) -> Submission | Callable[[], None] | None:
        """The next queued item; while the queue is empty, the tables follow the log, again if they
        could not."""
        while (patience := self.image.tail.patience()) is not None:
            if not patience:
                self._follow_log()
                continue
            try:
                return self._queue.get(timeout=patience)
            except queue.Empty:
                self._follow_log()
        # Tables that took the tail are not enough: keys and followers wait for the same events.
        while self.degraded is not None and self.broken is None:
            try:
                return self._queue.get(timeout=RETRY_SECONDS)
            except queue.Empty:
                self._follow()
        return self._queue.get()

    def _gather(self, waiting: list[Submission]) -> Any:
        """Add everything in the queue; returns the item that ended the gathering."""
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return None
            if not isinstance(item, Submission):
                return _STOP if item is None else item
            waiting.append(item)

    def _write(self, group: list[Submission]) -> None:
        """Write a group. A command that needs everything before it committed, such as an erasure,
        is written alone."""
        together: list[Submission] = []
        for submission in group:
            if not ALONE.isdisjoint(map(type, submission.commands)):
                self._write_together(together)
                self._write_together([submission])
                together = []
            else:
                together.append(submission)
        self._write_together(together)

    def _write_together(self, group: list[Submission]) -> None:
        while group:
            self.begun_us = self._clock.now_us()
            try:
                self._write_group(group)
                return
            except SubmissionFailed as failure:
                group = [submission for submission in group if submission is not failure.submission]
                if isinstance(failure.cause, WriteAnswer):
                    failure.submission.outcome.set_result(failure.cause)
                else:
                    failure.submission.outcome.set_exception(failure.cause)
            except (StorageError, WriterDegraded) as fault:
                for submission in group:
                    submission.outcome.set_exception(fault)
                return
            except Exception as fault:
                if len(group) == 1:
                    group[0].outcome.set_exception(fault)
                else:  # one of them cannot be written: find out which
                    for submission in group:
                        self._write_together([submission])
                return
            finally:
                self.begun_us = None

    def _write_group(self, submissions: list[Submission]) -> None:
        """Decide, append, apply and commit; nothing is written if this raises."""
        self._require_health()
        transaction = self.log.begin()
        group: Group | None = None
        try:
            head = self.log.head().position
            if self.image.position < head:  # other nodes write to this log too
                self._catch_up()
            for submission in submissions:
                check(submission)
            group = Group(
                self.store, self.image, transaction, head, self._clock, self._identifiers, self.log,
                self.log.held,
            )  # fmt: skip
            group.decide(submissions)
            transaction.commit()
        except BaseException:
            try:
                transaction.rollback()
            finally:
                if group is not None and group.opened:
                    self.store.rollback()
            raise
        position = group.events[-1].position if group.events else head
        if group.opened:
            self._settle(group.events, position)
        else:
            self.image.tail.add(group.events)
            self._show(group.events, position)
        self.groups += 1
        self.submissions += len(submissions)
        results: list[tuple[Answered, WriteAnswer]] = []
        for submission in submissions:
            outcomes = group.outcomes[id(submission)]
            replayed = [e for e in outcomes if isinstance(e, Done) and e.detail.get("replayed")]
            results.append((submission.outcome, WriteAnswer(outcomes, position, bool(replayed))))
        answer_all(results)

    def _settle(self, events: list[Recorded], position: int) -> None:
        """Commit the tables and publish. The log already has the events, so a failure here does not
        fail the callers: tables that cannot take them follow later."""
        try:
            self.store.commit()
        except StorageError as fault:
            self.store.rollback()
            self.image.tail.add(events)
            self.degraded = f"projections are behind the log: {fault}"
        self._show(events, position)

    def _show(self, events: Sequence[Recorded], position: int) -> None:
        """Publish. The log's events cannot be undone: a node that cannot publish them must stop
        serving. What ``on_commit`` reads from tables that are behind, it reads once they follow."""
        try:
            self.image.apply(events, position)
        except Exception as fault:
            self._break(fault)
            return
        try:
            self._tell(events)
        except StorageError as fault:
            self.degraded = f"projections are behind the log: {fault}"
        except Exception as fault:
            self._break(fault)


_STOP = object()
"""Ends the queue."""
