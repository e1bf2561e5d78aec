"""Deciding a group of commands: drafts recorded and applied inside one open transaction.

Drafts of facts wait for each other and are applied together; whatever a later decision
depends on is applied first. Nothing here commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from eventlog.clock import Clock
from eventlog.errors import StorageError
from eventlog.event import Draft, Recorded
from eventlog.identifiers import IdentifierSource, id_bytes
from eventlog.kinds import FactErased
from eventlog.log import Appended, AppendTransaction, Idempotency
from projections.command import Command
from projections.deciding.context import Context, Decision, Undecided
from projections.decisions import DECISIONS, contradicted
from projections.erasing import History
from projections.faults import storage_errors
from projections.intents import (
    AssertFact,
    Done,
    Refused,
    RetractFact,
    RetractMatching,
    WriteAnswer,
)
from projections.mirror import Mirror
from projections.replays import replayed_outcomes
from projections.store import ProjectionStore

SHARED_APPLY = frozenset({AssertFact, RetractFact, RetractMatching})
"""Intents whose drafts may wait for others before they are applied: their decisions know of
drafts through ``Undecided``. All others are applied at once."""


class CommandFailed(Exception):
    """A command cannot be part of its group; the group is undone and tried without it."""

    def __init__(self, command: Command, cause: Exception | WriteAnswer) -> None:
        super().__init__(str(cause))
        self.command = command
        self.cause = cause


class ForeignEventRefused(Exception):
    """Another node's events are such that they cannot be projected; none was taken in."""


class SharedFailure(Exception):
    """Drafts of several commands could not be recorded together; each must be tried alone."""


class _Step:
    """One intent on its way: whose it is, what was decided and which events came of it."""

    __slots__ = ("command", "context", "decision", "events", "received_at")

    def __init__(
        self,
        command: Command,
        decision: Decision | Done | Refused,
        context: Context,
        received_at: int | None,
    ) -> None:
        self.command = command
        self.received_at = received_at
        self.decision = decision
        self.context = context
        self.events: list[Recorded] = []


class Group:
    """Commands that are decided, recorded and applied together.

    Attributes:
        events: everything recorded so far, in order.
        outcomes: by ``id`` of the command, one an intent; complete after ``decide``.
    """

    def __init__(
        self,
        store: ProjectionStore,
        mirror: Mirror,
        transaction: AppendTransaction,
        head_position: int,
        clock: Clock,
        identifiers: IdentifierSource,
        log: History,
    ) -> None:
        self._log = log
        self.events: list[Recorded] = []
        self.outcomes: dict[int, list[Done | Refused]] = {}
        self._store = store
        self._mirror = mirror
        self._transaction = transaction
        self._head_position = head_position
        self._clock = clock
        self._identifiers = identifiers
        self._undecided = Undecided()
        self._waiting: list[_Step] = []
        self._key: Idempotency | None = None
        self._since = head_position

    def decide(self, commands: Sequence[Command]) -> None:
        """Decide every command in order, and apply what they lead to.

        Raises:
            CommandFailed: one of them cannot be part of the group.
            SharedFailure: one of several cannot, and it is not known which.
            StorageError: the tables cannot be written.
        """
        steps: dict[int, list[_Step]] = {}
        for command in commands:
            try:
                steps[id(command)] = self._take(command)
            except (StorageError, CommandFailed, SharedFailure):
                raise
            except Exception as fault:
                raise CommandFailed(command, fault) from fault
        self._flush()
        self.outcomes = {
            name: [_done(step) for step in of_command] for name, of_command in steps.items()
        }

    def _take(self, command: Command) -> list[_Step]:
        if command.idempotency is not None:
            self._flush()
        before = _replayed(command, self._transaction)
        if before is None:
            self._key = command.idempotency
            self._since = self.events[-1].position if self.events else self._head_position
        steps = self._decide(command, before)
        if self._key is not None:
            self._flush()
            self._key = None
        return steps

    def _decide(self, command: Command, before: Appended | None) -> list[_Step]:
        if before is not None:
            context = self._context(command, None)
            outcomes = replayed_outcomes(command.intents, before.events, self._store.db)
            return [_Step(command, outcome, context, None) for outcome in outcomes]
        steps: list[_Step] = []
        context = None
        for number, intent in enumerate(command.intents):
            received_at = command.received(number)
            if context is None or received_at not in (None, context.now_us):
                context = self._context(command, received_at)
            decision = DECISIONS[type(intent)](intent, context)
            step = _Step(command, decision, context, received_at)
            steps.append(step)
            self._waiting.append(step)
            if type(intent) not in SHARED_APPLY:
                self._flush()
        if command.atomic and any(isinstance(step.decision, Refused) for step in steps):
            held_back: list[Done | Refused] = [
                step.decision if isinstance(step.decision, Refused) else Done([]) for step in steps
            ]
            raise CommandFailed(command, WriteAnswer(held_back, self._head_position))
        return steps

    def _context(self, command: Command, received_at: int | None) -> Context:
        at_us = self._clock.now_us() if received_at is None else received_at
        return Context(
            self._store.db,
            self._mirror,
            self._undecided,
            self._identifiers,
            at_us,
            command.actor,
            self._flush,
            self._log,
        )

    def _flush(self) -> None:
        """Record and apply all drafts that wait."""
        if self._key is not None or any(_drafts(step) for step in self._waiting):
            recorded = self._record()
            with storage_errors():
                self._store.apply(recorded)
            self.events.extend(recorded)
            _hand_out(self._waiting, recorded)
        for step in self._waiting:
            self._adopt(step)
        self._waiting.clear()
        self._undecided.applied()

    def _adopt(self, step: _Step) -> None:
        """Take in another node's events, as a decision says; a fault of theirs is its own."""
        adoption = step.decision.adoption if isinstance(step.decision, Decision) else None
        if adoption is None:
            return
        try:
            recorded = self._transaction.adopt(
                adoption.events,
                adoption.peer,
                received_at=step.received_at,
                erasable=adoption.erasable,
            ).events
        except StorageError:
            raise
        except Exception as fault:
            raise CommandFailed(step.command, fault) from fault
        halted = set(self._store.halted)
        with storage_errors():
            self._store.apply(recorded)
        for name in sorted(self._store.halted.keys() - halted):
            # What a peer sends never stops this node's own work.
            fault = ForeignEventRefused(f"{name}: {self._store.halted[name]}")
            raise CommandFailed(step.command, fault)
        self.events.extend(recorded)
        step.events += recorded

    def _record(self) -> list[Recorded]:
        """Append the drafts that wait, as they were received; a failure is the one command's
        whose they are, or nobody's yet."""
        recorded: list[Recorded] = []
        try:
            for received_at, steps in groupby(self._waiting, lambda step: step.received_at):
                drafts = [draft for step in steps for draft in _drafts(step)]
                recorded += self._append(drafts, received_at)
            if not self._waiting:  # nothing came of the command, and its key is kept
                self._append([], None)
            return recorded
        except StorageError:
            raise
        except Exception as fault:
            owners = {id(step.command): step.command for step in self._waiting if _drafts(step)}
            if len(owners) > 1:
                raise SharedFailure(str(fault)) from fault
            for owner in owners.values():
                raise CommandFailed(owner, fault) from fault
            raise

    def _append(self, drafts: list[Draft], received_at: int | None) -> list[Recorded]:
        recorded = self._transaction.append(
            drafts,
            received_at=received_at,
            idempotency=self._key,
            since=None if self._key is None else self._since,
        ).events
        self._transaction.erase(_named(drafts))
        return recorded


def _replayed(command: Command, transaction: AppendTransaction) -> Appended | None:
    return None if command.idempotency is None else transaction.replayed(command.idempotency)


def _drafts(step: _Step) -> list[Draft]:
    return step.decision.drafts if isinstance(step.decision, Decision) else []


def _named(drafts: list[Draft]) -> list[bytes]:
    """The events that erasures among the drafts name: their payloads go with this commit."""
    return [
        id_bytes(text)
        for draft in drafts
        if isinstance(draft.payload, FactErased)
        for text in draft.payload.events
    ]


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
