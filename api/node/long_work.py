"""Long work on its own few threads, apart from those that reads share. The queue is bounded and
serves callers in turn, so that a busy caller delays the others little.

Used from the event loop alone; the work itself runs in threads.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

from engramlog.api.node.refusing_threads import RefusingThreads

WAITING_MAX = 32
WAITING_EACH_MAX = 8
"""Waiting requests: in all, and per caller."""

Result = TypeVar("Result")


class LongWorkBusy(Exception):
    """Too much work waits already, so this work did not begin. Try again later."""


class LongWork:
    """See the module. ``name``: of the threads. ``threads``: how many pieces run at a time."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = RefusingThreads(threads, thread_name_prefix=name)
        self._free = threads
        self._refuses = True
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def never_refuse(self) -> None:
        """For a node without other callers than its own process, whose threads and tasks bound
        what waits."""
        self._refuses = False

    async def run(
        self, caller: str, work: Callable[[], Result], *, admitted: bool = False
    ) -> Result:
        """Do the work in a thread once it is the caller's turn. ``admitted``: a further part of
        work that has begun, or a job with its own bound. It may wait, but is never refused. Raises
        LongWorkBusy: too much waits."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(caller, admitted=admitted)
        try:
            doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:  # the process may start no thread now
            self._pass_on()
            raise
        # A caller who disconnects leaves the thread at work: the thread is free once its work ends.
        doing.add_done_callback(self._ended)
        return await asyncio.shield(doing)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _turn(self, caller: str, *, admitted: bool) -> None:
        mine = self._waiting.get(caller, ())
        full = len(mine) >= WAITING_EACH_MAX or self.waiting >= WAITING_MAX
        if full and self._refuses and not admitted:
            raise LongWorkBusy("too many long requests wait already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _ended(self, doing: asyncio.Future[Result]) -> None:
        if not doing.cancelled():
            doing.exception()  # the caller gets the exception, unless it has disconnected
        self._pass_on()

    def _pass_on(self) -> None:
        """Give a free thread to the next caller in turn."""
        while self._waiting:
            caller, turns = self._waiting.popitem(last=False)
            while turns and turns[0].done():
                turns.popleft()
            if not turns:
                continue
            turns.popleft().set_result(None)
            if turns:
                self._waiting[caller] = turns
            return
        self._free += 1
