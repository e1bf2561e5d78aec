"""A moment: the position and instant of a read.

Live reads use (head, wall clock), reads of the past (position, instant). No stage of a query reads
a clock; it gets a Moment.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
LIVE = 2**62
"""``to_position`` of a row that has not ended."""
NO_START = -(2**62)
"""``valid_from`` of a fact without one."""
NO_END = 2**62
"""``valid_until`` of a fact without one."""

_REMEMBERED_CHARS_MAX = 64
"""Longer texts, with digits that are cut off, are not cached."""


class Moment(Struct, frozen=True):
    """``position``: transaction time. ``instant_us``: the clock at that position, and the instant
    for valid time unless ``valid_at_us`` is set."""

    position: int
    instant_us: int
    valid_at_us: int | None = None

    @property
    def valid_us(self) -> int:
        """The instant for valid time, microseconds."""
        return self.instant_us if self.valid_at_us is None else self.valid_at_us


def parse_instant(text: str) -> int:
    """Microseconds of an RFC 3339 instant; finer digits are cut off.

    The grammar is explicit because Python's parser accepts more with every version, and a log must
    mean the same on all of them. Raises ValueError without an offset, for a date that does not
    exist, and outside the years 1 to 9999 in UTC.
    """
    return _parsed_before(text) if len(text) <= _REMEMBERED_CHARS_MAX else _parse(text)


def _parse(text: str) -> int:
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2026-01-31T12:00:00Z")
    day, time, fraction, offset = match.groups()
    if offset is None:
        raise ValueError("must carry an offset, such as Z or +02:00")
    try:
        moment = datetime.fromisoformat(f"{day}T{time}{offset.replace('z', 'Z')}")
    except ValueError as fault:
        raise ValueError(f"is not a real instant: {fault}") from fault
    delta = moment - _EPOCH
    micros = int((fraction or "")[:6].ljust(6, "0"))
    instant_us = (delta.days * 86_400 + delta.seconds) * 1_000_000 + micros
    if not _FIRST_US <= instant_us <= _LAST_US:
        raise ValueError("must lie in the years 1 to 9999, UTC")
    return instant_us


_parsed_before = lru_cache(maxsize=65_536)(_parse)


def instant_meant(text: str) -> str:
    """A date alone as its first moment, UTC; any other text unchanged."""
    return f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text


def format_instant(instant_us: int) -> str:
    """``2026-11-20T20:33:15.724956+00:00``: UTC with microseconds, as the protocol writes."""
    seconds, micros = divmod(instant_us, 1_000_000)
    return f"{_second_text(seconds)}.{micros:06d}+00:00"


@lru_cache(maxsize=4_096)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = -62_135_596_800_000_000
_LAST_US = 253_402_300_799_999_999
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]"
    r"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
)
