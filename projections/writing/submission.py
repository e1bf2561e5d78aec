"""A submission: one caller's commands, on their way through the writer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from engramlog.eventlog.log import Idempotency
from engramlog.projections.writing.commands import Command, WriteAnswer


class Submission:
    """One caller's commands, to be written together."""

    __slots__ = ("actor", "answer", "atomic", "commands", "idempotency", "received_at")

    def __init__(
        self,
        commands: Sequence[Command],
        actor: str,
        idempotency: Idempotency | None,
        received_at: int | Sequence[int] | None,
        atomic: bool,
    ) -> None:
        self.commands = commands
        self.actor = actor
        self.idempotency = idempotency
        self.received_at = received_at
        self.atomic = atomic
        self.answer: Future[WriteAnswer] = Future()
        # A caller who no longer waits cannot take back what was submitted: a cancelled
        # future would refuse the answer, in the writer's own thread.
        self.answer.set_running_or_notify_cancel()

    def received(self, number: int) -> int | None:
        """When the command ``number`` was received, where that is not the clock's to say."""
        at = self.received_at
        return at if at is None or isinstance(at, int) else at[number]
