"""A few threads whose queue serves callers in turn, so that a busy caller delays the others little.
Reads share some; long work has others, and a bounded queue.

Used from the event loop alone; the work itself runs in threads.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from engramlog.api.node.refusing_threads import RefusingThreads

WAITING_MAX = 32
WAITING_EACH_MAX = 8
"""Waiting requests: in all, and per caller."""

Result = TypeVar("Result")


def never() -> bool:
    return False


class ThreadsBusy(Exception):
    """Too much work waits already, so this work did not begin. Try again later."""


class ThreadsClosed(Exception):
    """The node stops, so this work did not begin."""


class _Turn(NamedTuple):
    """One that waits. ``gone``: whether its caller wants no answer any more."""

    comes: asyncio.Future[None]
    gone: Callable[[], bool]

    def over(self) -> bool:
        """Whether no caller waits any more."""
        if self.gone() and not self.comes.done():
            self.comes.set_exception(ConnectionResetError("the caller has gone"))
        return self.comes.done()


class FairThreads:
    """See the module. ``name``: of the threads. ``threads``: how many pieces run at a time;
    ``each``: of one caller."""

    def __init__(self, name: str, threads: int, each: int | None = None) -> None:
        self._threads = RefusingThreads(threads, thread_name_prefix=name)
        self._free = threads
        self._each = each or threads
        self._refuses = True
        self._closed = False
        self._running = Counter[str]()
        self._waiting: OrderedDict[str, deque[_Turn]] = OrderedDict()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def never_refuse(self) -> None:
        """For a node without other callers than its own process, whose threads and tasks bound
        what waits."""
        self._refuses = False

    async def run(
        self,
        caller: str,
        work: Callable[[], Result],
        *,
        admitted: bool = False,
        gone: Callable[[], bool] = never,
    ) -> Result:
        """Do the work in a thread once it is the caller's turn. ``admitted``: a read, a further
        part of work that has begun, or a job with its own bound. It may wait, but is never refused.
        ``gone``: whether the caller has disconnected; then work that waits, here or before, is not
        done.
        Raises ThreadsBusy: too much waits. ThreadsClosed. ConnectionResetError: the caller is
        gone."""
        if gone():
            raise ConnectionResetError("the caller has gone")
        if self._free and self._running[caller] < self._each:
            self._take(caller)
        else:
            await self._turn(caller, gone, admitted=admitted)
        try:
            doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException as fault:  # the process may start no thread now
            self._pass_on(caller)
            if self._closed:
                raise ThreadsClosed("the node stops") from fault
            raise
        # A caller who disconnects leaves the thread at work: the thread is free once its work ends.
        doing.add_done_callback(partial(self._ended, caller))
        return await asyncio.shield(doing)

    def close(self) -> None:
        """Let the threads end; what still waits for a turn is refused."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _turn(self, caller: str, gone: Callable[[], bool], *, admitted: bool) -> None:
        if self._refuses and not admitted:
            for name, turns in list(self._waiting.items()):
                self._waiting[name] = deque(each for each in turns if not each.over())
            mine = self._waiting.get(caller, ())
            if len(mine) >= WAITING_EACH_MAX or self.waiting >= WAITING_MAX:
                raise ThreadsBusy("too many long requests wait already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(_Turn(turn, gone))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(caller)
            raise

    def _take(self, caller: str) -> None:
        self._free -= 1
        self._running[caller] += 1

    def _ended(self, caller: str, doing: asyncio.Future[Result]) -> None:
        if not doing.cancelled():
            doing.exception()  # the caller gets the exception, unless it has disconnected
        self._pass_on(caller)

    def _pass_on(self, caller: str) -> None:
        """Give the caller's thread to the next one in turn that may have one more."""
        self._free += 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        for name, turns in list(self._waiting.items()):
            while turns and turns[0].over():
                turns.popleft()
            begins = bool(turns) and self._running[name] < self._each
            if begins:
                self._take(name)
                turns.popleft().comes.set_result(None)
                self._waiting.move_to_end(name)
            if not turns:
                del self._waiting[name]
            if begins:
                return
