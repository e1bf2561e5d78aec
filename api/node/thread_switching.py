"""How the threads of this process take turns at the interpreter."""

from __future__ import annotations

import sys

TURN_SECONDS = 0.0003
"""Longest that a thread keeps the interpreter while another waits. Recalls leave it for large
array operations and come back; with Python's 5 ms each return waits behind the computing thread,
and a write, which passes through three threads, waits as often."""


def take_short_turns() -> None:
    """Call once when a node begins to serve."""
    sys.setswitchinterval(TURN_SECONDS)
