"""The moment that a caller names: an instant, a clock reading, or a position."""

import re

from engramlog.eventlog.clock import parse_hlc
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.moment import Moment, format_instant, instant_meant, parse_instant

_POSITION = re.compile(r"position:(-?[0-9]{1,18})")
_HLC = re.compile(r"[0-9]{1,15}\.[0-9]{1,6}")


class MomentError(ValueError):
    """The text names no moment of this log. ``code`` is the protocol's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def resolve(
    text: str, log: ReadableLog, head_position: int, now_us: int, floor_us: int | None = None
) -> Moment:
    """The moment of ``as_of``.

    Args:
        text: ``position:N``, an RFC 3339 instant with offset, a date, or an HLC reading.
        head_position: the last published position.
        now_us: the wall clock, microseconds.
        floor_us: the earliest instant with answers; None for all. A position is before it only
            if the next event is too: the last position of a quiet node is never too old.

    Raises:
        MomentError: ``as_of_invalid_timestamp``, ``as_of_future`` or
            ``as_of_before_retention_floor`` (the wire, section 5.7).
    """
    match = _POSITION.fullmatch(text)
    if match is not None:
        position = int(match[1])
        if position < 0:
            raise MomentError("as_of_invalid_timestamp", "a position must not be negative")
        if position > head_position:
            raise MomentError(
                "as_of_future", f"position {position} is beyond the log's end, {head_position}"
            )
        if floor_us is not None and position < log.position_at(floor_us):
            raise before_floor(floor_us)
        return Moment(position, log.received_at(position))
    if _HLC.fullmatch(text):
        instant_us = _instant_of_hlc(text)
    else:
        try:
            instant_us = parse_instant(instant_meant(text))
        except ValueError as fault:
            message = f"as_of {fault} (or position:N)"
            raise MomentError("as_of_invalid_timestamp", message) from fault
    # Events received while the clock was ahead are not in the future: they exist and stay.
    if instant_us > now_us and instant_us > log.received_at(head_position):
        raise MomentError("as_of_future", "as_of is in the future")
    if floor_us is not None and instant_us < floor_us:
        raise before_floor(floor_us)
    return Moment(min(log.position_at(instant_us), head_position), instant_us)


def before_floor(floor_us: int) -> MomentError:
    """The error for a moment before ``floor_us``."""
    return MomentError(
        "as_of_before_retention_floor",
        f"this node answers for no moment before {format_instant(floor_us)}",
    )


def _instant_of_hlc(text: str) -> int:
    """The last microsecond in a reading's millisecond."""
    return parse_hlc(text) // 1000 * 1000 + 999
