"""How this process collects garbage: a node's heap is large and nearly all of it stays."""

from __future__ import annotations

import gc

YOUNG_OBJECTS_MAX = 50_000
"""New objects before a young collection; Python's 700 would collect several times a group."""
OLDER_AFTER = 20
OLDEST_AFTER = 100


def settle_heap() -> None:
    """Call after a node opened. What start-up made is never looked at again, and young
    objects are collected seldom: about a third of the cost of a write otherwise."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, OLDER_AFTER, OLDEST_AFTER)
