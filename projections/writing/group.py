"""Decides a group of submissions, records its drafts and applies them in one open transaction.

Drafts of facts are collected and applied together. Anything that a later decision depends on is
applied first. The first decision that needs the tables opens them: a group that needs none leaves
its events to the tail. Nothing here commits.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import apsw

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.event import Draft, Recorded
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.identifiers import IdentifierSource, id_bytes
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import Appended, AppendTransaction, Idempotency, ReadableLog
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.tables.storage_faults import storage_errors
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import (
    AssertFact,
    Done,
    Refused,
    RefusedItem,
    RetractFact,
    RetractMatching,
    WriteAnswer,
)
from engramlog.projections.writing.content_rules import content_fault
from engramlog.projections.writing.decide.context import Adoption, Context, Decision, Undecided
from engramlog.projections.writing.decisions import contradicted, decide
from engramlog.projections.writing.held_commands import drafts_not_held, not_held
from engramlog.projections.writing.idempotent_answers import kept_outcomes, replayed_outcomes
from engramlog.projections.writing.submission import Submission

SHARED_APPLY = frozenset({AssertFact, RefusedItem, RetractFact, RetractMatching})
"""Commands whose drafts may wait and be applied together: their decisions know drafts through
``Undecided``. All others find everything before them applied, and are applied at once."""

_received_at = attrgetter("received_at")


class SubmissionFailed(Exception):
    """A submission cannot be part of its group; the group is undone and retried without it."""

    def __init__(self, submission: Submission, cause: Exception | WriteAnswer) -> None:
        super().__init__(str(cause))
        self.submission = submission
        self.cause = cause


class ForeignEventRefused(Exception):
    """Another node's events cannot be projected; none was appended."""


class SharedFailure(Exception):
    """Drafts of several submissions could not be recorded together; each must be tried alone."""


def check(submission: Submission) -> None:
    """Raises SubmissionFailed if the submission has a check that fails."""
    if submission.check is None:
        return
    try:
        submission.check()
    except Exception as fault:
        raise SubmissionFailed(submission, fault) from fault


class _Step:
    """One command in progress: its submission, its decision and its events."""

    __slots__ = ("adoption", "context", "decision", "drafts", "events", "received_at", "submission")

    def __init__(
        self,
        submission: Submission,
        decision: Decision | Done | Refused,
        context: Context,
        received_at: int | None,
    ) -> None:
        self.submission = submission
        self.received_at = received_at
        self.decision = decision
        self.context = context
        self.events: list[Recorded] = []
        decided = isinstance(decision, Decision)
        self.drafts = decision.drafts if decided else []
        self.adoption = decision.adoption if decided else None


class Group:
    """Submissions that are decided, recorded and applied together.

    Attributes:
        events: everything recorded so far, in order.
        outcomes: by ``id`` of the submission, one per command; complete after ``decide``.
        opened: whether the tables hold an open transaction with all of ``events``.
    """

    def __init__(
        self,
        store: ProjectionStore,
        image: MemoryImage,
        transaction: AppendTransaction,
        head_position: int,
        clock: Clock,
        identifiers: IdentifierSource,
        log: ReadableLog,
        held: frozenset[str] = EVERY_SCOPE,
    ) -> None:
        self._log = log
        self._held = held
        self.events: list[Recorded] = []
        self.outcomes: dict[int, list[Done | Refused]] = {}
        self.opened = False
        self._store = store
        self._image = image
        self._transaction = transaction
        self._head_position = head_position
        self._clock = clock
        self._identifiers = identifiers
        self._undecided = Undecided()
        self._waiting: list[_Step] = []
        self._key: Idempotency | None = None
        self._since = head_position

    def decide(self, submissions: Sequence[Submission]) -> None:
        """Decide every submission in order, and apply the results.

        Raises:
            SubmissionFailed: one of them cannot be part of the group.
            SharedFailure: one of several cannot, and it is unknown which.
            StorageError: the tables cannot be written.
        """
        if not all(SHARED_APPLY.issuperset(map(type, one.commands)) for one in submissions):
            self._tables()
        steps: dict[int, list[_Step]] = {}
        for submission in submissions:
            try:
                steps[id(submission)] = self._take(submission)
            except (StorageError, SubmissionFailed, SharedFailure):
                raise
            except Exception as fault:
                raise SubmissionFailed(submission, fault) from fault
        self._flush()
        self.outcomes = {
            name: [_done(step) for step in of_command] for name, of_command in steps.items()
        }

    def _take(self, submission: Submission) -> list[_Step]:
        key = submission.idempotency
        if key is not None:
            self._flush()
        before = key and self._transaction.replayed(key)
        if before is None:
            self._key = key
            self._since = self.events[-1].position if self.events else self._head_position
        steps = self._decide(submission, before)
        if self._key is not None:
            self._flush()
            self._keep(steps)
            self._key = None
        return steps

    def _keep(self, steps: list[_Step]) -> None:
        """Keep the request's outcome under its idempotency key. A refused command that wrote
        nothing is not kept: a retry decides it again."""
        outcomes = [_done(step) for step in steps]
        if any(step.events for step in steps):
            answered = kept_outcomes(outcomes)
            if answered is not None:
                recorded = self._append([steps[-1].context.draft(answered)], None)
                self._apply(recorded)
        elif not any(isinstance(outcome, Refused) for outcome in outcomes):
            self._append([], None)

    def _decide(self, submission: Submission, before: Appended | None) -> list[_Step]:
        """A step for each command of a submission; ``before``: what its idempotency key recorded.
        Raises SubmissionFailed: a command of an atomic one is refused."""
        outcomes = None
        refusals: list[Refused | None] = [None] * len(submission.commands)
        if self._held != EVERY_SCOPE:
            refusals = [not_held(self._held, command) for command in submission.commands]
        refusal = next(filter(None, refusals), None)
        if before is not None and refusal is not None:  # its earlier outcome is unknown
            outcomes = [refusal] * len(refusals)
        elif before is not None:
            outcomes = replayed_outcomes(submission.commands, before.events, self._tables())
        if outcomes is not None:
            context = self._context(submission, None)
            return [_Step(submission, outcome, context, None) for outcome in outcomes]
        steps: list[_Step] = []
        context = None
        for number, command in enumerate(submission.commands):
            received_at = None if submission.received_at is None else submission.received(number)
            if context is None or received_at not in (None, context.now_us):
                context = self._context(submission, received_at)
            alone = type(command) not in SHARED_APPLY
            if alone:
                self._flush()
            decision = refusals[number] or self._in_rule(decide(command, context))
            step = _Step(submission, decision, context, received_at)
            steps.append(step)
            self._waiting.append(step)
            if alone:
                self._flush()
        if submission.atomic and any(isinstance(step.decision, Refused) for step in steps):
            held_back: list[Done | Refused] = [
                step.decision if isinstance(step.decision, Refused) else Done([]) for step in steps
            ]
            raise SubmissionFailed(submission, WriteAnswer(held_back, self._head_position))
        return steps

    def _in_rule(self, decision: Decision | Refused) -> Decision | Refused:
        """The decision, or a refusal if peers would refuse its content or this node does not hold
        its scope."""
        if isinstance(decision, Decision):
            for draft in decision.drafts:
                fault = content_fault(draft.payload)
                if fault is not None:
                    return Refused("content_refused", fault)
            if self._held != EVERY_SCOPE:
                return drafts_not_held(self._held, decision.drafts) or decision
        return decision

    def _context(self, submission: Submission, received_at: int | None) -> Context:
        at_us = self._clock.now_us() if received_at is None else received_at
        return Context(
            self._tables,
            self._image,
            self._undecided,
            self._identifiers,
            at_us,
            submission.actor,
            self._flush,
            self._log,
        )

    def _flush(self) -> None:
        """Record and apply all waiting drafts."""
        if [step for step in self._waiting if step.drafts]:
            recorded = self._record()
            self._apply(recorded)
            _hand_out(self._waiting, recorded)
        for step in self._waiting:
            if step.adoption is not None:
                self._adopt(step, step.adoption)
        self._waiting.clear()
        self._undecided.applied()

    def _adopt(self, step: _Step, adoption: Adoption) -> None:
        """Append another node's events, as decided; a fault in them is the peer's."""
        try:
            recorded = self._transaction.adopt(
                adoption.events, adoption.peer, received_at=step.received_at
            ).events
        except StorageError:
            raise
        except Exception as fault:
            raise SubmissionFailed(step.submission, fault) from fault
        halted = set(self._store.halted)
        self._apply(recorded)
        for name in sorted(self._store.halted.keys() - halted):
            # A peer's events never stop this node's own work.
            fault = ForeignEventRefused(f"{name}: {self._store.halted[name]}")
            raise SubmissionFailed(step.submission, fault)
        step.events += recorded

    def _apply(self, recorded: list[Recorded]) -> None:
        if self.opened:
            with storage_errors():
                self._store.apply(recorded)
        self.events.extend(recorded)

    def _tables(self) -> apsw.Connection:
        """The tables, in this group's transaction and with everything recorded so far."""
        if not self.opened:
            self._image.tail.settle()
            self._store.begin()
            self.opened = True
            with storage_errors():
                self._store.apply(self.events)
        return self._store.db

    def _record(self) -> list[Recorded]:
        """Append the waiting drafts in order of receipt. A failure is attributed to a submission if
        all drafts are from that one."""
        recorded: list[Recorded] = []
        try:
            for received_at, steps in groupby(self._waiting, _received_at):
                drafts = [draft for step in steps for draft in step.drafts]
                recorded += self._append(drafts, received_at)
            return recorded
        except StorageError:
            raise
        except Exception as fault:
            owners = {id(step.submission): step.submission for step in self._waiting if step.drafts}
            if len(owners) > 1:
                raise SharedFailure(str(fault)) from fault
            for owner in owners.values():
                raise SubmissionFailed(owner, fault) from fault
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


def _named(drafts: list[Draft]) -> list[bytes]:
    """The events that erasures among the drafts name: this commit deletes their payloads."""
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
        count = len(step.drafts)
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
        contradicted=decision.rival is not None and contradicted(decision.rival, step.context),
        retracted=decision.retracted,
        detail=decision.detail,
    )
