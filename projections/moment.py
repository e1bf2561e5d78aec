"""A moment: the one thing every read is asked at.

Live reads are asked at (head, wall clock), reads of the past at (position, instant). No
stage of a query reads a clock; it is handed a Moment.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

LIVE = 2**62
"""``to_position`` of a row that has not ended."""
NO_START = -(2**62)
"""``valid_from`` of a fact without one."""
NO_END = 2**62
"""``valid_until`` of a fact without one."""


class Moment(Struct, frozen=True):
    """``position``: transaction time. ``instant_us``: the clock of that moment, and the
    instant at which validity in the world is judged unless ``valid_at_us`` says otherwise."""

    position: int
    instant_us: int
    valid_at_us: int | None = None

    @property
    def valid_us(self) -> int:
        """The instant of validity in the world, microseconds."""
        return self.instant_us if self.valid_at_us is None else self.valid_at_us


@lru_cache(maxsize=65_536)
def parse_instant(text: str) -> int:
    """Microseconds of an RFC 3339 instant. Raises ValueError without an offset or date."""
    if len(text) < 20 or text[10] not in "Tt ":
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2026-01-31T12:00:00Z")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as fault:
        raise ValueError(f"is not a real instant: {fault}") from fault
    if moment.tzinfo is None:
        raise ValueError("must carry an offset, such as Z or +02:00")
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def format_instant(instant_us: int) -> str:
    """``2026-11-20T20:33:15.724956+00:00``: UTC with microseconds, as the protocol writes."""
    seconds, micros = divmod(instant_us, 1_000_000)
    return f"{_second_text(seconds)}.{micros:06d}+00:00"


@lru_cache(maxsize=4_096)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
