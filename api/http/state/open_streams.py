"""Open streams by caller. After each commit every one of them reads what is new, which takes a
millisecond or more: hundreds would leave no time for others. So the streams of one caller read less
at a time, and rest: together they take at most the time of ``BUSY_SHARE`` of a thread.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

BUSY_SHARE = 0.25


class OpenStreams:
    """See the module. For use within one event loop."""

    def __init__(self) -> None:
        self._open = Counter[str]()

    @contextmanager
    def opened(self, principal: str) -> Generator[None]:
        """Count a stream of the caller while it is open."""
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]

    def events_max(self, principal: str, page: int) -> int:
        """How many events one of the caller's streams reads at a time; ``page``: an only one."""
        return max(1, page // self._open[principal])

    def rest_seconds(self, principal: str, busy_seconds: float) -> float:
        """How long one of the caller's streams rests after so much work; an only one does not."""
        return busy_seconds * (self._open[principal] - 1) / BUSY_SHARE
