"""Waiting for concurrent events.

The bound ends only a test that would never end. It is far above the needs of a loaded machine, and
the only place where tests read a clock: benchmarks measure speed.
"""

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.02

Answer = TypeVar("Answer")


def until(holds: Callable[[], Answer], pause_seconds: float = PAUSE_SECONDS) -> Answer:
    """The result of ``holds`` once it is true."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it did not come to that: {found!r}"
        time.sleep(pause_seconds)
    return found
