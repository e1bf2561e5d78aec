"""Wall clock and hybrid logical clock (HLC).

An HLC reading is one integer, ``wall_ms * 1000 + counter``, so integer order is causal order. The
wire form is ``"{wall_ms:013d}.{counter:03d}"``. Unpadded input is accepted; text forms are never
compared. Source: Kulkarni et al. 2014, and the protocol's clock rules.
"""

import re
import time
from typing import Protocol

from engramlog.eventlog.errors import ClockSkew

COUNTER_LIMIT = 1000
FUTURE_SKEW_MS_MAX = 300_000

_TEXT = re.compile(r"^(\d{1,15})\.(\d{1,6})$")


class Clock(Protocol):
    """The source of time: always a parameter, never imported."""

    def now_us(self) -> int:
        """Microseconds since the Unix epoch, UTC."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class FixedClock:
    """A clock with a set time; for imports with file times, and tests."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us

    def set(self, now_us: int) -> None:
        self._now_us = now_us

    def advance(self, delta_us: int) -> None:
        self._now_us += delta_us

    def now_us(self) -> int:
        return self._now_us


def pack_hlc(wall_ms: int, counter: int) -> int:
    """One integer for a reading; a counter past 999 carries into the wall part."""
    return (wall_ms + counter // COUNTER_LIMIT) * COUNTER_LIMIT + counter % COUNTER_LIMIT


def format_hlc(hlc: int) -> str:
    """The wire form: 13-digit milliseconds, a point, 3-digit counter."""
    digits = str(hlc).zfill(16)  # the last three are the counter
    return f"{digits[:-3]}.{digits[-3:]}"


def parse_hlc(text: str) -> int:
    """Read a padded or unpadded wire form. Raises ValueError on anything else."""
    match = _TEXT.match(text)
    if match is None:
        raise ValueError(f"not a hybrid clock reading: {text!r}")
    return pack_hlc(int(match[1]), int(match[2]))


class HybridClock:
    """The node's HLC: never goes back, across restarts too (start it with the log's last
    reading)."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def tick(self, now_us: int) -> int:
        """A reading for a local event at wall time ``now_us``."""
        self.last = max(now_us // 1000 * COUNTER_LIMIT, self.last + 1)
        return self.last

    def receive(self, remote: int, now_us: int) -> int:
        """Merge a reading of a replayed event, of any age, and return ours after it. Raises
        ClockSkew: the reading is over 300 s ahead; our clock is unchanged."""
        ahead_ms = remote // COUNTER_LIMIT - now_us // 1000
        if ahead_ms > FUTURE_SKEW_MS_MAX:
            raise ClockSkew(f"remote clock is {ahead_ms} ms ahead, over {FUTURE_SKEW_MS_MAX}")
        self.last = max(now_us // 1000 * COUNTER_LIMIT, self.last + 1, remote + 1)
        return self.last
