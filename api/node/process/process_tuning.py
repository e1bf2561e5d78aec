"""How this process collects garbage, and how its threads take turns at the interpreter."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

YOUNG_OBJECTS_MAX = 50_000
"""New objects before a young collection; Python's 700 would collect several times a group."""
OLDER_AFTER = 20
OLDEST_AFTER = 100
TURN_SECONDS = 0.0003
"""Longest that a thread keeps the interpreter while another waits. Recalls release it for large
array operations and then want it back. With Python's 5 ms, each return waits for the computing
thread; a write passes through three threads and waits as often."""


@contextmanager
def loading_modules() -> Generator[None]:
    """Without the collector, which would take a tenth of the time: modules are no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle_heap() -> None:
    """Call after a node opened. The collector ignores the objects of start-up from here on, and
    collects young objects seldom: otherwise this takes about a third of a write's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, OLDER_AFTER, OLDEST_AFTER)


def take_short_turns() -> None:
    """Call once when a node begins to serve."""
    sys.setswitchinterval(TURN_SECONDS)
