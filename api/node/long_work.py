"""Work that may take long, beside the threads that reads share: few threads, a bounded queue,
and callers served in turn, so that one who asks much delays others little.

Used from the event loop alone; the work itself runs in threads.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

WAITING_MAX = 32
WAITING_EACH_MAX = 8
"""Requests that wait: in all, and of one caller."""

Result = TypeVar("Result")


class LongWorkBusy(Exception):
    """As much waits already as may; nothing was begun. Try again later."""


class LongWork:
    """See the module.

    Args:
        name: of the threads.
        threads: how many pieces run at a time.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = threads
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        return sum(map(len, self._waiting.values()))

    async def run(
        self, caller: str, work: Callable[[], Result], *, admitted: bool = False
    ) -> Result:
        """Do the work in a thread once it is the caller's turn.

        Args:
            admitted: a further part of what was begun, or a job that has its own bound: it may
                wait, and is never turned away.

        Raises:
            LongWorkBusy: too much waits.
        """
        if self._free:
            self._free -= 1
        else:
            await self._turn(caller, admitted=admitted)
        doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        # A caller who goes away leaves the thread at work: its place is free when that has ended.
        doing.add_done_callback(self._ended)
        return await asyncio.shield(doing)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _turn(self, caller: str, *, admitted: bool) -> None:
        mine = self._waiting.get(caller, ())
        if not admitted and (len(mine) >= WAITING_EACH_MAX or self.waiting >= WAITING_MAX):
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
            doing.exception()  # the caller gets it, unless it has gone
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
