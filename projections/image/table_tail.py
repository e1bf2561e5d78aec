"""Published events that the tables do not show yet.

The log and the memory image have them; the tables follow in bounded batches. A reader of tables
waits until they have followed.
"""

import threading
import time
from collections.abc import Callable, Sequence

from engramlog.eventlog.event import Recorded

EVENTS_MAX = 2_000
"""The most events that may wait."""
SECONDS_MAX = 0.2
"""How long an event may wait."""
PAUSE_SECONDS = 1.0
"""The pause after a failure before the next attempt, unless a reader needs the tables."""


class TableTail:
    """Waiting events. The writer's thread adds; any thread may make the tables follow. ``write``:
    puts events into the tables, all or none; set by the writer."""

    def __init__(self) -> None:
        self.write: Callable[[Sequence[Recorded]], None] = _no_writer
        self._lock = threading.Lock()
        self._written = threading.Condition()
        self._events: list[Recorded] = []
        self._due = 0.0
        self._failing = False

    @property
    def count(self) -> int:
        """How many events wait."""
        return len(self._events)

    def add(self, events: Sequence[Recorded]) -> None:
        """Add events that are in the log and not published yet."""
        with self._lock:
            if not self._events:
                self._due = time.monotonic() + SECONDS_MAX
            self._events.extend(events)

    def patience(self) -> float | None:
        """Seconds that the tables may still stay behind; None if nothing waits."""
        if not self._events:
            return None
        if len(self._events) >= EVENTS_MAX and not self._failing:
            return 0.0
        return max(0.0, self._due - time.monotonic())

    def settle(self, position: int | None = None) -> None:
        """Write waiting events into the tables: all, or those up to ``position``. Raises
        StorageError: the tables cannot be written; the events keep waiting."""
        waiting = self._events
        if not waiting or (position is not None and waiting[0].position > position):
            return
        with self._lock:
            if not self._events:
                return
            try:
                self.write(self._events)
            except BaseException:
                self._due = time.monotonic() + PAUSE_SECONDS
                self._failing = True
                raise
            self._events = []
            self._failing = False
        with self._written:
            self._written.notify_all()

    def wait(self, position: int, timeout_seconds: float) -> None:
        """Return once the tables show ``position``, or after the timeout."""
        with self._written:
            self._written.wait_for(lambda: not self._waits_up_to(position), timeout_seconds)

    def _waits_up_to(self, position: int) -> bool:
        waiting = self._events
        return bool(waiting) and waiting[0].position <= position


def _no_writer(events: Sequence[Recorded]) -> None:
    raise AssertionError(f"{len(events)} events wait, and nothing writes")
