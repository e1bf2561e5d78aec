"""Waiting for what happens beside a test.

The bound only ends a test that would never end. It is far above what a loaded machine needs, and
the one place where tests look at a clock: how fast something is, benchmarks measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.02

Answer = TypeVar("Answer")


def until(holds: Callable[[], Answer], pause_seconds: float = PAUSE_SECONDS) -> Answer:
    """What ``holds`` says, once that is true of anything."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it did not come to that: {found!r}"
        time.sleep(pause_seconds)
    return found
