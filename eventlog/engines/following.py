"""Following a log: a subscription that reads pages and waits for more.

In the writing process a commit wakes it; in another process it polls every ``POLL_SECONDS``.
"""

import threading
import time
from collections.abc import Collection, Iterator
from typing import Protocol

from engramlog.eventlog.event import Recorded

POLL_SECONDS = 0.2
PAGE_EVENTS = 1000


class Pages(Protocol):
    """The reading that following needs."""

    def read(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Recorded]: ...


def walk(log: Pages, after: int, until: int | None) -> Iterator[Recorded]:
    """All events after a position, page by page, to ``until`` or to the present end."""
    while until is None or after < until:
        page = log.read(after, PAGE_EVENTS if until is None else min(PAGE_EVENTS, until - after))
        if not page:
            return
        yield from page
        after = page[-1].position


class CommitSignal:
    """Wakes the threads that wait for a commit. ``live`` is false if another process commits."""

    def __init__(self, live: bool) -> None:
        self._condition = threading.Condition()
        self.commits = 0
        """A number that changes with every commit: read it before reading events."""
        self._live = live

    def notify(self) -> None:
        with self._condition:
            self.commits += 1
            self._condition.notify_all()

    def wait(self, seen: int, timeout_seconds: float) -> None:
        """Return after the timeout, a poll interval, or a commit later than ``seen``."""
        if not self._live:
            timeout_seconds = min(timeout_seconds, POLL_SECONDS)
        with self._condition:
            self._condition.wait_for(lambda: self.commits != seen, timeout_seconds)


class LogSubscription:
    """A reader that follows a log by its ``read``; its owner stores the checkpoint."""

    def __init__(
        self,
        log: Pages,
        signal: CommitSignal,
        after: int,
        streams: Collection[str] | None,
    ) -> None:
        self._log = log
        self._signal = signal
        self._after = after
        self._streams = None if streams is None else frozenset(streams)
        self._open = True

    def take(self, limit: int, timeout_seconds: float) -> list[Recorded]:
        """The next events, waiting at most that long; empty on timeout or after ``close``. Raises
        LogClosed when the log closes meanwhile."""
        deadline = time.monotonic() + timeout_seconds
        while self._open:
            seen = self._signal.commits
            events = self._log.read(self._after, limit, self._streams)
            if events:
                self._after = events[-1].position
                return events
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return []
            self._signal.wait(seen, remaining)
        return []

    def close(self) -> None:
        """Idempotent; a waiting ``take`` returns empty."""
        self._open = False
        self._signal.notify()
