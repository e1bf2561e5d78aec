"""Waiting in the event loop until the log grows, for requests that follow it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from engramlog.eventlog.event import Recorded


class CommitWatch:
    """Waits in one event loop; the writer's thread calls ``committed`` with events. ``ending``:
    whether waiting has ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._grown = asyncio.Event()
        self.ending = False

    def stop(self) -> None:
        """Release every waiting request, now and from here on."""
        self.ending = True
        self._wake()

    def committed(self, _: Sequence[Recorded]) -> None:
        """Called with published events."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    async def wait(self, grown: Callable[[], bool], seconds: float) -> bool:
        """Whether ``grown`` holds within this time; checked after every commit."""

        async def look() -> bool:
            return grown()

        return await self.wait_reading(look, seconds)

    async def wait_reading(self, grown: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """``wait`` for a check that reads the log: it must not hold up the event loop."""
        loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            commit = self._grown  # the next one, which may come during the check
            if await grown():
                return True
            left = deadline - loop.time()
            if left <= 0 or self.ending:
                return False
            try:
                await asyncio.wait_for(commit.wait(), left)
            except TimeoutError:
                return await grown()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()
