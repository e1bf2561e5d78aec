"""A submission: one caller's commands, queued for the writer."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from engramlog.eventlog.log import Idempotency
from engramlog.projections.writing.commands import Command, WriteAnswer


class Answered(Protocol):
    """Receives the outcome of a submission, in the writer's thread."""

    def set_result(self, result: WriteAnswer, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class LoopAnswer:
    """An outcome that a coroutine awaits: one hop to its event loop, without locks. Create it in
    the loop and await ``future``."""

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[WriteAnswer] = self._loop.create_future()

    def set_result(self, result: WriteAnswer, /) -> None:
        self._pass_on(self.future.set_result, result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._pass_on(self.future.set_exception, exception)

    def _pass_on(self, settle: Callable[[Any], None], outcome: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)
        except RuntimeError:
            return  # a closed loop has no waiting caller

    def _settle(self, settle: Callable[[Any], None], outcome: object) -> None:
        if not self.future.done():  # the caller may have given up
            settle(outcome)


class Submission:
    """One caller's commands, to be written together.

    Attributes:
        outcome: receives the outcome.
        answer: a future of it; only if no ``outcome`` was given.
    """

    __slots__ = ("actor", "answer", "atomic", "commands", "idempotency", "outcome", "received_at")

    def __init__(
        self,
        commands: Sequence[Command],
        actor: str,
        idempotency: Idempotency | None,
        received_at: int | Sequence[int] | None,
        atomic: bool,
        outcome: Answered | None = None,
    ) -> None:
        self.commands = commands
        self.actor = actor
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
