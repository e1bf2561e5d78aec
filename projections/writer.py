"""The writer: one thread that decides, appends and applies, and shares one fsync a group.

The life of a write: ``submit`` queues a command → the thread takes everything that waits →
each command is decided against the projection transaction → its events are appended to the
log transaction and applied to the tables → the log commits (fsync), then the tables (they
can only fall behind) → the mirror publishes → the caller is answered. A crash before the
log's commit loses nothing acknowledged; one after it is caught up from the log.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import apsw

from eventlog.clock import Clock
from eventlog.errors import StorageError, StorageFailed, StorageFull
from eventlog.event import Draft, Recorded
from eventlog.identifiers import IdentifierSource
from eventlog.log import Appended, AppendTransaction, EventLog, Idempotency
from projections.deciding.context import Context, Decision, Undecided
from projections.decisions import DECISIONS, contradicted
from projections.intents import (
    AssertFact,
    Done,
    Intent,
    Refused,
    RetractFact,
    RetractMatching,
    WriteAnswer,
)
from projections.mirror import Mirror
from projections.replays import replayed_outcomes
from projections.store import ProjectionStore

GROUP_INTENTS_MAX = 20_000
WAITING_COMMANDS_MAX = 10_000
CATCH_UP_PAGE_EVENTS = 5_000
CORE_PROJECTORS = frozenset({"facts", "contradictions", "policies", "keys", "derivations"})
"""Projectors that decisions read: writing stops while one of them is halted."""


SHARED_APPLY = frozenset({AssertFact, RetractFact, RetractMatching})
"""Intents whose drafts may wait for others before they are applied: their decisions know of
drafts through ``Undecided``. All others are applied at once."""


class WriterBusy(Exception):
    """More commands wait than the writer's bound; nothing was written. Try again later."""


class WriterDegraded(Exception):
    """The projections cannot be brought up to the log; writes are refused until they are."""


class WriterClosed(Exception):
    """The writer has been closed."""


class Command:
    """One caller's intents, to be written together."""

    __slots__ = ("actor", "answer", "atomic", "idempotency", "intents", "received_at")

    def __init__(
        self,
        intents: Sequence[Intent],
        actor: str,
        idempotency: Idempotency | None,
        received_at: int | None,
        atomic: bool,
    ) -> None:
        self.intents = intents
        self.actor = actor
        self.idempotency = idempotency
        self.received_at = received_at
        self.atomic = atomic
        self.answer: Future[WriteAnswer] = Future()


class _Step:
    """One intent on its way: what was decided and which events came of it."""

    __slots__ = ("context", "decision", "events")

    def __init__(self, decision: Decision | Done | Refused, context: Context) -> None:
        self.decision = decision
        self.context = context
        self.events: list[Recorded] = []


class _CommandFailed(Exception):
    """A command cannot be part of its group; the group is undone and tried without it."""

    def __init__(self, command: Command, cause: Exception | WriteAnswer) -> None:
        super().__init__(str(cause))
        self.command = command
        self.cause = cause


class Writer:
    """See the module. ``on_commit`` is called in the writer's thread after each publication.

    Attributes:
        degraded: why writes are refused at present, or None.
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
        self.groups = 0
        self.commands = 0
        self._clock = clock
        self._on_commit = on_commit
        self._identifiers = IdentifierSource()
        self._undecided = Undecided()
        self._queue: queue.SimpleQueue[Command | Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
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
        received_at: int | None = None,
        atomic: bool = False,
    ) -> Future[WriteAnswer]:
        """Queue a command; its future resolves once the events are durable and readable.

        Args:
            intents: decided in order; each sees the ones before it.
            actor: who asks, written in every event.
            idempotency: a repeated key is answered from the log, without writing.
            received_at: receipt time in microseconds, for imports that carry their own.
            atomic: one refused intent undoes the whole command.

        Raises (through the future): AppendError, StorageError, WriterDegraded.
        Raises (here): WriterBusy, WriterClosed.
        """
        command = Command(intents, actor, idempotency, received_at, atomic)
        self._enqueue(command)
        return command.answer

    def exclusive(self, work: Callable[[], Any]) -> Future[Any]:
        """Run ``work`` in the writer's thread, between groups."""
        answer: Future[Any] = Future()

        def task() -> None:
            try:
                answer.set_result(work())
            except BaseException as fault:
                answer.set_exception(fault)

        self._enqueue(task)
        return answer

    def replace_store(self, store: ProjectionStore) -> None:
        """Go on with another file that stands at the log's head. Call inside ``exclusive``."""
        self.store.close()
        self.store = store

    def _enqueue(self, item: Command | Callable[[], None]) -> None:
        if self._closed:
            raise WriterClosed("the writer is closed")
        if self._queue.qsize() >= WAITING_COMMANDS_MAX:
            raise WriterBusy(f"{WAITING_COMMANDS_MAX} commands wait already")
        self._queue.put(item)

    def close(self) -> None:
        """Finish what waits, then stop. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    # -- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
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
        while group:
            try:
                self._write_group(group)
                return
            except _CommandFailed as failure:
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
                        self._write([command])
                return

    def _write_group(self, group: list[Command]) -> None:
        self._require_health()
        transaction = self.log.begin()
        try:
            with _storage_errors():
                self.store.db.execute("BEGIN IMMEDIATE")
            steps, events = self._decide(group, transaction)
            answers = {
                id(command): [_done(step) for step in steps[id(command)]] for command in group
            }
            transaction.commit()
        except BaseException:
            transaction.rollback()
            self._undo()
            raise
        self._settle(events)
        self.groups += 1
        self.commands += len(group)
        position = self.log.head().position
        for command in group:
            outcomes = answers[id(command)]
            replayed = command.idempotency is not None and any(
                isinstance(done, Done) and done.detail.get("replayed") for done in outcomes
            )
            command.answer.set_result(WriteAnswer(outcomes, position, replayed))

    def _undo(self) -> None:
        self._undecided.finished()
        if self.store.db.in_transaction:
            self.store.db.execute("ROLLBACK")
        self.store.reload()

    def _settle(self, events: list[Recorded]) -> None:
        """Commit the tables and publish; a failure here only leaves them behind the log."""
        try:
            with _storage_errors():
                self.store.db.execute("COMMIT")
        except StorageError as fault:
            self._undo()
            self.degraded = f"projections are behind the log: {fault}"
            return
        self._undecided.finished()
        self.mirror.apply(events, self.log.head().position)
        self._on_commit(events)

    def _require_health(self) -> None:
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
        """Apply what the log has and the tables have not."""
        while page := self.log.read(self.store.position, CATCH_UP_PAGE_EVENTS):
            try:
                with _storage_errors():
                    self.store.db.execute("BEGIN IMMEDIATE")
                    self.store.apply(page)
                    self.store.db.execute("COMMIT")
            except StorageError:
                self._undo()
                raise
            fresh = [event for event in page if event.position > self.mirror.position]
            if fresh:
                self.mirror.apply(fresh, page[-1].position)
                self._on_commit(fresh)
            if self.store.halted and len(self.store.halted) == len(self.store.checkpoints):
                break
        self.degraded = None

    # -- deciding -------------------------------------------------------------------------

    def _decide(
        self, group: list[Command], transaction: AppendTransaction
    ) -> tuple[dict[int, list[_Step]], list[Recorded]]:
        """Decide every command in order; returns steps by command and all events."""
        events: list[Recorded] = []
        waiting: list[_Step] = []
        steps: dict[int, list[_Step]] = {}
        clock_us: int | None = None

        key: Idempotency | None = None
        since = self.log.head().position

        def flush() -> None:
            drafts = [draft for step in waiting for draft in _drafts(step)]
            if drafts or key is not None:
                recorded = self._record(transaction, drafts, clock_us, key, since)
                events.extend(recorded)
                _hand_out(waiting, recorded)
            waiting.clear()
            self._undecided.applied()

        for command in group:
            try:
                if command.received_at != clock_us or command.idempotency is not None:
                    flush()
                clock_us = command.received_at
                before = _replayed(command, transaction)
                if before is None:
                    key = command.idempotency
                    since = events[-1].position if events else self.log.head().position
                steps[id(command)] = self._decide_one(command, before, waiting, flush)
                if key is not None:
                    flush()
                    key = None
            except (StorageError, _CommandFailed):
                raise
            except Exception as fault:
                raise _CommandFailed(command, fault) from fault
        flush()
        return steps, events

    def _decide_one(
        self,
        command: Command,
        before: Appended | None,
        waiting: list[_Step],
        flush: Callable[[], None],
    ) -> list[_Step]:
        now_us = self._clock.now_us() if command.received_at is None else command.received_at
        context = Context(
            self.store.db,
            self.mirror,
            self._undecided,
            self._identifiers,
            now_us,
            command.actor,
            flush,
        )
        if before is not None:
            outcomes = replayed_outcomes(command.intents, before.events, self.store.db)
            return [_Step(outcome, context) for outcome in outcomes]
        mine: list[_Step] = []
        refused = False
        for intent in command.intents:
            decision = DECISIONS[type(intent)](intent, context)
            step = _Step(decision, context)
            mine.append(step)
            waiting.append(step)
            if type(intent) not in SHARED_APPLY:
                flush()
            refused = refused or isinstance(decision, Refused)
        if refused and command.atomic:
            held_back: list[Done | Refused] = [
                step.decision if isinstance(step.decision, Refused) else Done([]) for step in mine
            ]
            raise _CommandFailed(command, WriteAnswer(held_back, self.log.head().position))
        return mine

    def _record(
        self,
        transaction: AppendTransaction,
        drafts: list[Draft],
        received_at: int | None,
        key: Idempotency | None,
        since: int,
    ) -> list[Recorded]:
        appended = transaction.append(
            drafts,
            received_at=received_at,
            idempotency=key,
            since=None if key is None else since,
        )
        with _storage_errors():
            self.store.apply(appended.events)
        return appended.events


_STOP = object()


def _replayed(command: Command, transaction: AppendTransaction) -> Appended | None:
    return None if command.idempotency is None else transaction.replayed(command.idempotency)


def _drafts(step: _Step) -> list[Draft]:
    return step.decision.drafts if isinstance(step.decision, Decision) else []


def _hand_out(steps: list[_Step], recorded: list[Recorded]) -> None:
    """Give each step the events of its drafts."""
    start = 0
    for step in steps:
        count = len(_drafts(step))
        step.events = recorded[start : start + count]
        start += count


def _done(step: _Step) -> Done | Refused:
    decision = step.decision
    if not isinstance(decision, Decision):
        return decision
    return Done(
        step.events,
        fact_id=decision.fact_id,
        created=decision.created,
        contradicted=contradicted(decision, step.context),
        retracted=decision.retracted,
        detail=decision.detail,
    )


class _storage_errors:  # noqa: N801  # reads as a statement
    """Turn SQLite's errors of the disk into the log's."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, apsw.FullError):
            raise StorageFull(f"projections: {fault}") from fault
        if isinstance(fault, apsw.IOError | apsw.CorruptError | apsw.CantOpenError):
            raise StorageFailed(f"projections: {fault}") from fault
