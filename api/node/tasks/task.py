"""The protocol of background tasks, and their owner, which starts and stops them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.event import Recorded
from engramlog.projections.image.reader import Reader

Result = TypeVar("Result")
TaskState = Literal["running", "idle", "failing", "off", "stopped"]
"""``idle``: no work now. ``failing``: the last attempt failed; the task retries. ``off``: because
of settings, or because the node is a replica."""

RETRY_SECONDS = 1.0
"""Delay before a task retries after a storage error."""
SAME_FAILURE_SECONDS = 60.0
"""How often the log repeats one failure: lines of every second would fill what is left of a full
disk."""

_log = logging.getLogger(__name__)


class TaskStatus(Struct, frozen=True):
    """The state of a task. ``error``: why the last attempt failed."""

    name: str
    state: TaskState
    error: str | None = None


class Task(Protocol):
    """Work beside requests, while the app runs."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None:
        """Begin. Also catches up on work from while the node was down."""
        ...

    async def stop(self) -> None:
        """End, leaving nothing half done. Idempotent, also without a start."""
        ...

    def status(self) -> TaskStatus: ...


class Tasks:
    """The owner of all tasks: starts them in order and stops them in the opposite order."""

    def __init__(self, *tasks: Task) -> None:
        self._tasks = tasks

    async def start(self) -> None:
        """Start all tasks; if one fails, stop those before it."""
        try:
            for task in self._tasks:
                await task.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all. Log failures and continue with the rest."""
        for task in reversed(self._tasks):
            try:
                await task.stop()
            except Exception:
                _log.exception("stopping %s failed", task.name)

    def statuses(self) -> list[TaskStatus]:
        """The state of each, in start order."""
        return [task.status() for task in self._tasks]


class LoopTask:
    """A task with one coroutine that runs until cancelled: the subclass's ``run``.

    Args: reader: calls ``committed`` with published events while the task runs.

    Attributes: error: why the last attempt failed, until one succeeds.
        children: further coroutines of the task, by name; they end with it.
    """

    def __init__(self, name: str, reader: Reader | None = None) -> None:
        self.name = name
        self.error: str | None = None
        self.children: dict[str, asyncio.Task[None]] = {}
        self._logged = ("", 0.0)
        self._followers = [] if reader is None else reader.followers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[Any] | None = None

    @property
    def wanted(self) -> bool:
        """Whether the task has work on this node."""
        return True

    @property
    def running(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        if self.wanted:
            self._loop = asyncio.get_running_loop()
            self._followers.append(self.committed)
            self._task = asyncio.create_task(self._keep_running(), name=self.name)

    def committed(self, events: Sequence[Recorded], /) -> None:
        """Called in the writer's thread."""

    async def _keep_running(self) -> None:
        """Call ``run``, and again after a storage error: a full disk ends no task."""
        while True:
            try:
                return await self.run()
            except StorageError as fault:
                self.failed(fault)
            await asyncio.sleep(RETRY_SECONDS)
            self.error = None

    async def stop(self) -> None:
        """End after the thread's current work."""
        if self.committed in self._followers:
            self._followers.remove(self.committed)
        await end_tasks(self._task, *self.children.values())
        self.children.clear()
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
        raise NotImplementedError

    def wake(self) -> None:
        """End the present pause, or the next one; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._woken.set)

    async def pause(self, seconds: float | None) -> bool:
        """Wait until woken, at most so long; whether it was woken."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        woken = self._woken.is_set()
        self._woken.clear()
        return woken

    async def repeat(self, work: Callable[[], object], pause_seconds: float) -> None:
        """Do the work in a thread, again and again; a failure shows until the next success."""
        while True:
            try:
                await self.in_thread(work)
                self.error = None
            except Exception as fault:
                self.failed(fault)
            await asyncio.sleep(pause_seconds)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """The result of work in a thread. The work always completes, even if the task stops: files
        are written to their end."""
        future = self._work = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(future)

    def failed(self, fault: Exception) -> None:
        """Note why an attempt failed, from its exception handler; log it, the same failure at most
        every ``SAME_FAILURE_SECONDS``."""
        self.error = str(fault) or type(fault).__name__
        error, at = self._logged
        if self.error == error and monotonic() - at < SAME_FAILURE_SECONDS:
            return
        self._logged = (self.error, monotonic())
        if isinstance(fault, StorageError | OSError):
            _log.warning("%s failed, will retry: %s", self.name, fault)
        else:
            _log.exception("%s failed, will retry", self.name)


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until each has ended. Raises their failures, but not their
    cancellation; None means a task that never started."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    for task in begun:
        with contextlib.suppress(asyncio.CancelledError):
            await task
