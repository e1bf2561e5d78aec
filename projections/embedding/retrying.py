"""When to retry a provider after a failure: after doubling pauses, or after its own."""

import logging
import time

PAUSE_SECONDS = 1.0
PAUSE_SECONDS_MAX = 60.0

_log = logging.getLogger(__name__)


class Retrying:
    """The failures since the last success. ``error``: the last failure's message; None after a
    success."""

    def __init__(self) -> None:
        self._failures = 0
        self._not_before = 0.0
        self.error: str | None = None

    def pause(self) -> float:
        """Seconds until the next try; zero or less if it is due."""
        return self._not_before - time.monotonic()

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self._failures, self.error = 0, None

    def failed(self, fault: Exception, pause_seconds: float | None = None) -> None:
        """Retry later: after ``pause_seconds``, or after doubling pauses."""
        self._failures += 1
        if pause_seconds is None:
            pause_seconds = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0 ** (self._failures - 1))
        self._not_before = time.monotonic() + pause_seconds
        if self.error != str(fault):
            _log.warning("embedding is behind: %s", fault)
        self.error = str(fault) or type(fault).__name__
