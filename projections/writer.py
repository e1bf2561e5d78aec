"""The writer: one thread that decides, appends and applies, and shares one fsync a group.

The life of a write: ``submit`` queues a command → the thread takes everything that waits →
each command is decided against the projection transaction → its events are appended to the
log transaction and applied to the tables → the log commits (fsync), then the tables (they
can only fall behind) → the mirror publishes → the caller is answered. A crash before the
log's commit loses nothing acknowledged; one after it is caught up from the log.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from eventlog.clock import Clock
from eventlog.errors import StorageError
from eventlog.event import Recorded, Stored
from eventlog.identifiers import IdentifierSource
from eventlog.log import CopyableLog, EventLog, Idempotency, KeyCopy
from projections.command import Command
from projections.faults import storage_errors
from projections.group import CommandFailed, Group
from projections.intents import ALONE, Done, Intent, WriteAnswer
from projections.mirror import Mirror
from projections.store import ProjectionStore

GROUP_INTENTS_MAX = 20_000
WAITING_COMMANDS_MAX = 10_000
CATCH_UP_PAGE_EVENTS = 5_000
CORE_PROJECTORS = frozenset(
    {
        "facts",
        "contradictions",
        "policies",
        "keys",
        "agent_keys",
        "derivations",
        "gardens",
        "capabilities",
        "erasures",
        "aliases",
        "tombstones",
        "manifests",
    }
)
"""Projectors that decisions read: writing stops while one of them is halted."""


_log = logging.getLogger(__name__)


class WriterBusy(Exception):
    """More commands wait than the writer's bound; nothing was written. Try again later."""


class WriterDegraded(Exception):
    """The projections cannot be brought up to the log; writes are refused until they are."""


class ReplicaReadOnly(Exception):
    """This node is a replica: it writes what its primary wrote, and nothing else."""


class WriterClosed(Exception):
    """The writer has been closed."""


class Writer:
    """See the module. ``on_commit`` is called in the writer's thread after each publication.

    Attributes:
        degraded: why the node cannot serve as it should, or None; writes try to mend it.
        broken: why it must be restarted, or None.
        primary: the URL of the node that takes the writes, where this one is its replica.
        groups, commands: counters since start.
    """

    def __init__(
        self,
        log: EventLog,
        store: ProjectionStore,
        mirror: Mirror,
        clock: Clock,
        on_commit: Callable[[Sequence[Recorded]], None] = lambda _: None,
    ) -> None:
        self.log = log
        self.store = store
        self.mirror = mirror
        self.degraded: str | None = None
        self.broken: str | None = None
        self.primary: str | None = None
        self.groups = 0
        self.commands = 0
        self._clock = clock
        self._on_commit = on_commit
        self._identifiers = IdentifierSource()
        self._queue: queue.SimpleQueue[Command | Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._entry = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Catch up with the log, publish, and begin to take commands."""
        self._catch_up()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return self._queue.qsize()

    def submit(
        self,
        intents: Sequence[Intent],
        *,
        actor: str,
        idempotency: Idempotency | None = None,
        received_at: int | Sequence[int] | None = None,
        atomic: bool = False,
    ) -> Future[WriteAnswer]:
        """Queue a command; its future resolves once the events are durable and readable.

        Args:
            intents: decided in order; each sees the ones before it.
            actor: who asks, written in every event.
            idempotency: a repeated key is answered from the log, without writing.
            received_at: receipt time in microseconds, for imports that carry their own: one for
                all intents, or one for each.
            atomic: one refused intent undoes the whole command.

        Raises (through the future): AppendError, StorageError, WriterDegraded.
        Raises (here): WriterBusy, WriterClosed, ReplicaReadOnly.
        """
        if self.primary is not None:
            raise ReplicaReadOnly(f"this node is a read-only replica; write to {self.primary}")
        command = Command(intents, actor, idempotency, received_at, atomic)
        self._enqueue(command)
        return command.answer

    def exclusive(self, work: Callable[[], Any]) -> Future[Any]:
        """Run ``work`` in the writer's thread, between groups."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # as of a command

        def task() -> None:
            try:
                answer.set_result(work())
            except BaseException as fault:
                answer.set_exception(fault)

        self._enqueue(task)
        return answer

    def copy(
        self, log: CopyableLog, events: Sequence[Stored], keys: Sequence[KeyCopy]
    ) -> Future[Any]:
        """Append another log's events to ``log``, which is this writer's, and show them.

        Raises (through the future): CorruptLog, StorageError.
        """

        def work() -> None:
            log.copy(events, keys)
            try:
                self._catch_up()
            except StorageError as fault:
                self.degraded = f"projections are behind the log: {fault}"
            except Exception as fault:
                self.broken = f"the mirror cannot follow, restart the node: {fault}"
                self.degraded = self.broken
                raise

        return self.exclusive(work)

    def replace_store(self, store: ProjectionStore) -> None:
        """Go on with another file that stands at the log's head. Call inside ``exclusive``."""
        self.store.close()
        self.store = store

    def _enqueue(self, item: Command | Callable[[], None]) -> None:
        with self._entry:  # nothing comes in behind the end of the queue
            if self._closed:
                raise WriterClosed("the writer is closed")
            if self._queue.qsize() >= WAITING_COMMANDS_MAX:
                raise WriterBusy(f"{WAITING_COMMANDS_MAX} commands wait already")
            self._queue.put(item)

    def close(self) -> None:
        """Finish what waits, then stop. Idempotent."""
        with self._entry:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        self._work()
        # Whatever still came is answered, so that nobody waits for ever.
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, Command):
                item.answer.set_exception(WriterClosed("the writer is closed"))
            elif item is not None:
                item()

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            if not isinstance(item, Command):
                item()
                continue
            group, after = self._gather(item)
            self._write(group)
            if after is _STOP:
                return
            if after is not None:
                after()

    def _gather(self, first: Command) -> tuple[list[Command], Any]:
        """Everything that waits, up to the bound, and what ended the gathering."""
        group = [first]
        intents = len(first.intents)
        while intents < GROUP_INTENTS_MAX:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return group, _STOP
            if not isinstance(item, Command):
                return group, item
            group.append(item)
            intents += len(item.intents)
        return group, None

    def _write(self, group: list[Command]) -> None:
        """What asks for all that came before, as an erasure does, is written by itself."""
        together: list[Command] = []
        for command in group:
            if any(isinstance(intent, ALONE) for intent in command.intents):
                self._write_together(together)
                self._write_together([command])
                together = []
            else:
                together.append(command)
        self._write_together(together)

    def _write_together(self, group: list[Command]) -> None:
        while group:
            try:
                self._write_group(group)
                return
            except CommandFailed as failure:
                group = [command for command in group if command is not failure.command]
                if isinstance(failure.cause, WriteAnswer):
                    failure.command.answer.set_result(failure.cause)
                else:
                    failure.command.answer.set_exception(failure.cause)
            except (StorageError, WriterDegraded) as fault:
                for command in group:
                    command.answer.set_exception(fault)
                return
            except Exception as fault:
                if len(group) == 1:
                    group[0].answer.set_exception(fault)
                else:  # one of them cannot be written: find out which
                    for command in group:
                        self._write_together([command])
                return

    def _write_group(self, commands: list[Command]) -> None:
        """Decide, append, apply and commit; nothing is written if this raises."""
        self._require_health()
        transaction = self.log.begin()
        head = self.log.head().position
        group = Group(
            self.store, self.mirror, transaction, head, self._clock, self._identifiers, self.log
        )
        try:
            with storage_errors():
                self.store.db.execute("BEGIN IMMEDIATE")
            group.decide(commands)
            transaction.commit()
        except BaseException:
            transaction.rollback()
            self._undo()
            raise
        self._settle(group.events)
        self.groups += 1
        self.commands += len(commands)
        position = self.log.head().position
        for command in commands:
            outcomes = group.outcomes[id(command)]
            replayed = any(
                isinstance(outcome, Done) and bool(outcome.detail.get("replayed"))
                for outcome in outcomes
            )
            command.answer.set_result(WriteAnswer(outcomes, position, replayed))

    def _undo(self) -> None:
        if self.store.db.in_transaction:
            self.store.db.execute("ROLLBACK")
        self.store.reload()

    def _settle(self, events: list[Recorded]) -> None:
        """Commit the tables and publish. The log has the events already: a failure here is
        never the callers' failure, it only keeps the node from serving more."""
        try:
            with storage_errors():
                self.store.db.execute("COMMIT")
        except StorageError as fault:
            self._undo()
            self.degraded = f"projections are behind the log: {fault}"
            return
        try:
            self._publish(events, self.log.head().position)
        except Exception as fault:
            _log.exception("the mirror cannot follow")
            self.broken = f"the mirror cannot follow, restart the node: {fault}"
            self.degraded = self.broken

    def _publish(self, events: Sequence[Recorded], position: int) -> None:
        self.mirror.apply(events, position)
        self._on_commit(events)

    def _require_health(self) -> None:
        if self.broken is not None:
            raise WriterDegraded(self.broken)
        if self.degraded is not None:
            try:
                self._catch_up()
            except StorageError as fault:
                raise WriterDegraded(self.degraded or str(fault)) from fault
        halted = CORE_PROJECTORS & self.store.halted.keys()
        if halted:
            name = min(halted)
            raise WriterDegraded(f"projector {name} is halted: {self.store.halted[name]}")

    def _catch_up(self) -> None:
        """Apply what the log has and the tables or the mirror have not: a rebuild may have
        brought the tables up already."""
        after = min(self.store.position, self.mirror.position)
        while page := self.log.read(after, CATCH_UP_PAGE_EVENTS):
            after = page[-1].position
            behind = [event for event in page if event.position > self.store.position]
            try:
                with storage_errors():
                    self.store.db.execute("BEGIN IMMEDIATE")
                    self.store.apply(behind)
                    self.store.db.execute("COMMIT")
            except StorageError:
                self._undo()
                raise
            fresh = [event for event in page if event.position > self.mirror.position]
            if fresh:
                self._publish(fresh, page[-1].position)
            if self.store.halted and len(self.store.halted) == len(self.store.checkpoints):
                break
        self.degraded = None


class NoWriter(Writer):
    """Where nobody writes, as in a process that follows another's log: closed from the start."""

    def __init__(self) -> None:
        self.degraded = None
        self.broken = None
        self.groups = 0
        self.commands = 0
        self._entry = threading.Lock()
        self._closed = True
        self.primary = None


_STOP = object()
"""What ends the queue."""
