"""A submission: one caller's commands, queued for the writer."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from engramlog.eventlog.log import Idempotency
from engramlog.projections.writing.commands import Command, WriteAnswer


class WriterBusy(Exception):
    """More submissions wait than the writer's bound; nothing was written. Try again later."""


class WriterDegraded(Exception):
    """The projections cannot be brought up to the log; writes are refused until then."""


class ReplicaReadOnly(Exception):
    """This node is a replica: it writes only what its primary wrote."""


class WriterClosed(Exception):
    """The writer is closed."""


class Answered(Protocol):
    """Receives the outcome of a submission, in the writer's thread."""

    def set_result(self, result: WriteAnswer, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class LoopAnswer:
    """An outcome that a coroutine awaits: one hop to its event loop, without locks. Create it in
    the loop and await ``future``."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[WriteAnswer] = self.loop.create_future()

    def set_result(self, result: WriteAnswer, /) -> None:
        answer_all([(self, result)])

    def set_exception(self, exception: BaseException, /) -> None:
        _call(self.loop, partial(self._settle, self.future.set_exception, exception))

    def settle(self, result: WriteAnswer) -> None:
        """Set the result, in the loop's thread."""
        self._settle(self.future.set_result, result)

    def _settle(self, settle: Callable[[Any], None], outcome: object) -> None:
        if not self.future.done():  # the caller may have given up
            settle(outcome)


def answer_all(results: Iterable[tuple[Answered, WriteAnswer]]) -> None:
    """Set results with one hop to each event loop: each hop wakes its thread, and so takes turns
    with it."""
    of_loops: dict[asyncio.AbstractEventLoop, list[tuple[LoopAnswer, WriteAnswer]]] = {}
    for outcome, result in results:
        if isinstance(outcome, LoopAnswer):
            of_loops.setdefault(outcome.loop, []).append((outcome, result))
        else:
            outcome.set_result(result)
    for loop, answers in of_loops.items():
        _call(loop, partial(_settle_all, answers))


def _settle_all(answers: Sequence[tuple[LoopAnswer, WriteAnswer]]) -> None:
    for outcome, result in answers:
        outcome.settle(result)


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # a closed loop has no waiting caller
        loop.call_soon_threadsafe(work)


class Submission:
    """One caller's commands, to be written together. ``queued_as``: in whose turn they are written,
    the actor's by default. ``outcome``: receives the outcome. ``answer``: a future of it; only if
    no ``outcome`` was given. ``check``: called in the writer's thread once everything before the
    submission's events is published; what it raises is the outcome."""

    __slots__ = (
        "actor", "answer", "atomic", "check", "commands", "idempotency", "outcome",
        "queued_as", "received_at",
    )  # fmt: skip

    def __init__(
        self,
        commands: Sequence[Command],
        actor: str,
        idempotency: Idempotency | None,
        received_at: int | Sequence[int] | None,
        atomic: bool,
        outcome: Answered | None = None,
        check: Callable[[], None] | None = None,
        queued_as: str | None = None,
    ) -> None:
        self.commands = commands
        self.check = check
        self.actor = actor
        self.queued_as = queued_as or actor
        self.idempotency = idempotency
        self.received_at = received_at
        self.atomic = atomic
        if outcome is None:
            self.answer: Future[WriteAnswer] = Future()
            # A caller that gave up cannot withdraw a submission: a cancelled future would refuse
            # the answer, in the writer's thread.
            self.answer.set_running_or_notify_cancel()
            outcome = self.answer
        self.outcome = outcome

    def received(self, number: int) -> int | None:
        """When command ``number`` was received, if not now."""
        at = self.received_at
        return at if at is None or isinstance(at, int) else at[number]
