"""Background tasks: one protocol for all of it, and one owner that starts and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from engramlog.eventlog.errors import StorageError

Result = TypeVar("Result")
TaskState = Literal["running", "idle", "failing", "off", "stopped"]
"""``idle``: there is no work now. ``failing``: the last attempt failed and is repeated.
``off``: settings, or the node being a replica, leave it nothing to do."""

RETRY_SECONDS = 1.0
"""Until a task that storage failed runs again."""

_log = logging.getLogger(__name__)


class TaskStatus(Struct, frozen=True):
    """The state of a task. ``error``: why the last attempt failed."""

    name: str
    state: TaskState
    error: str | None = None


class Task(Protocol):
    """Work beside requests, from the start of the app to its end."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None:
        """Begin. What there is to do while the node was down is done from here on."""
        ...

    async def stop(self) -> None:
        """End, with nothing left half done. Idempotent, also without a start."""
        ...

    def status(self) -> TaskStatus: ...


class Tasks:
    """The owner of all tasks: starts them in order and stops them in the opposite order."""

    def __init__(self, *tasks: Task) -> None:
        self._tasks = tasks

    async def start(self) -> None:
        """Start all; where one cannot start, those before it are stopped again."""
        try:
            for task in self._tasks:
                await task.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all. A failure of one is logged and keeps no other running."""
        for task in reversed(self._tasks):
            try:
                await task.stop()
            except Exception:
                _log.exception("stopping %s failed", task.name)

    def statuses(self) -> list[TaskStatus]:
        """The state of each, in start order."""
        return [task.status() for task in self._tasks]


class LoopTask:
    """A task of one coroutine that continues until it is cancelled: ``run`` of its subclass.

    Attributes:
        error: why the last attempt failed, for as long as it is repeated.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[Any] | None = None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do on this node."""
        return True

    @property
    def running(self) -> bool:
        """Whether it was started."""
        return self._task is not None

    async def start(self) -> None:
        if self.wanted:
            self._task = asyncio.create_task(self._keep_running(), name=self.name)

    async def _keep_running(self) -> None:
        """``run``, again where the tables could not be read: a full disk ends no task."""
        while True:
            try:
                return await self.run()
            except StorageError as fault:
                self.failed(fault)
            await asyncio.sleep(RETRY_SECONDS)
            self.error = None

    async def stop(self) -> None:
        """End after the thread's work that is under way."""
        await end_tasks(self._task)
        self._task = None
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)

    def status(self) -> TaskStatus:
        if not self.wanted:
            return TaskStatus(self.name, "off")
        if self._task is None or self._task.done():
            return TaskStatus(self.name, "stopped", self.error)
        return TaskStatus(self.name, "failing" if self.error else "running", self.error)

    async def run(self) -> None:
        """What the task does."""
        raise NotImplementedError

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """The result of work in a thread, which ends by itself even where the task is stopped:
        a file is written to its end."""
        future = self._work = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(future)

    def failed(self, fault: Exception) -> None:
        """Note, while it is handled, why an attempt failed."""
        _log.exception("%s failed; it is tried again", self.name)
        self.error = str(fault) or type(fault).__name__


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until each has ended. A failure of one is raised, a cancellation
    is not; None stands for a task that never began."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    for task in begun:
        with contextlib.suppress(asyncio.CancelledError):
            await task
