"""Processor time and bytes of other processes, as Linux tells them."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct


class Usage(Struct, frozen=True):
    """What processes have used since they began: seconds of processor time, bytes written to
    files."""

    seconds: float
    written: int

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.seconds - other.seconds, self.written - other.written)

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.seconds + other.seconds, self.written + other.written)


def usage_of(pid: int) -> Usage:
    """Of one process and all its threads."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid(3) numbers it
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return Usage(time.clock_gettime(clock), int(line.split()[1]))
    raise AssertionError("no wchar")


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


def command_of(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
