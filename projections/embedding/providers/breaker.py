"""A circuit breaker: after repeated failures requests pause, then a single one tries."""

import threading
from collections.abc import Callable

FAILURES_MAX = 5
COOL_DOWN_SECONDS = 30.0


class CircuitBreaker:
    """Closed until ``failures_max`` failures in a row; then open for ``cool_down_seconds``,
    after which a single trial decides. Any success closes it."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        failures_max: int = FAILURES_MAX,
        cool_down_seconds: float = COOL_DOWN_SECONDS,
    ) -> None:
        self._monotonic = monotonic
        self._failures_max = failures_max
        self._cool_down_seconds = cool_down_seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_from = 0.0

    def seconds_left(self) -> float:
        """0 if a request may be sent, whose outcome must be reported; else how long to wait."""
        with self._lock:
            now = self._monotonic()
            if self._failures < self._failures_max:
                return 0.0
            if now < self._closed_from:
                return self._closed_from - now
            self._closed_from = now + self._cool_down_seconds  # others wait for this trial
            return 0.0

    def succeeded(self) -> None:
        """The provider answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """The provider did not answer."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._failures_max:
                self._closed_from = self._monotonic() + self._cool_down_seconds
