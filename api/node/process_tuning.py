"""How this process collects garbage, and how its threads take turns at the interpreter."""

from __future__ import annotations

import gc
import sys

YOUNG_OBJECTS_MAX = 50_000
"""New objects before a young collection; Python's 700 would collect several times a group."""
OLDER_AFTER = 20
OLDEST_AFTER = 100
TURN_SECONDS = 0.0003
"""Longest that a thread keeps the interpreter while another waits. Recalls leave it for large
array operations and come back; with Python's 5 ms each return waits behind the computing thread,
and a write, which passes through three threads, waits as often."""


def settle_heap() -> None:
    """Call after a node opened. What start-up made is never looked at again, and young
    objects are collected seldom: about a third of the cost of a write otherwise."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, OLDER_AFTER, OLDEST_AFTER)


def take_short_turns() -> None:
    """Call once when a node begins to serve."""
    sys.setswitchinterval(TURN_SECONDS)
