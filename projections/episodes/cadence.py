"""When a rule fires: after a number of episodes, or by the clock.

Timetables follow Debian's cron, daylight saving included: a time that the clocks skip fires once,
just after the change; a time that comes twice fires once.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

EVERY_MAX = 1_000_000
CRON_FIELDS = 5
_COUNT = re.compile(r"([0-9]{1,9})(?:\s+episodes?)?")
_FORM = re.compile(r"\s*(every|cron)\s*:\s*(.*?)\s*")

Missed: TypeAlias = Literal["fire_once_catchup", "skip"]


class CadenceError(ValueError):
    """A cadence is invalid; the message lists the valid forms."""


class Cadence(Struct, frozen=True):
    """``every`` so many episodes, or at the instants of ``cron`` in ``tz``. ``missed``: how to
    handle a fire that the node missed."""

    every: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    missed: Missed = "fire_once_catchup"

    def document(self) -> dict[str, Any]:
        """The form in rule documents."""
        if self.every is not None:
            return {"every": self.every}
        return {"cron": self.cron, "tz": self.tz, "missed": self.missed}


def parse_cadence(given: object) -> Cadence:
    """A cadence from its document or text form (``every: 100 episodes``, ``cron: '0 3 * * *'``).
    Raises CadenceError: neither or both of every and cron, a count under 1, an invalid cron
    expression, an unknown time zone."""
    made = _from_text(given) if isinstance(given, str) else given
    if not isinstance(made, Mapping):
        raise CadenceError("must be an object with 'every' or 'cron', or such a text")
    fields = cast("Mapping[str, Any]", made)
    unknown = sorted(str(name) for name in fields if name not in ("every", "cron", "tz", "missed"))
    if unknown:
        raise CadenceError(f"has no field {unknown[0]!r}")
    every, cron = fields.get("every"), fields.get("cron")
    if (every is None) == (cron is None):
        raise CadenceError("must have exactly one of 'every' and 'cron'")
    if every is not None:
        if "tz" in fields or "missed" in fields:
            raise CadenceError("'tz' and 'missed' go with 'cron'")
        return Cadence(every=_count(every))
    tz, missed = fields.get("tz", "UTC"), fields.get("missed", "fire_once_catchup")
    if not isinstance(cron, str) or not isinstance(tz, str):
        raise CadenceError("'cron' and 'tz' must be texts")
    if missed not in ("fire_once_catchup", "skip"):
        raise CadenceError("'missed' must be 'fire_once_catchup' or 'skip'")
    cadence = Cadence(cron=" ".join(cron.split()), tz=tz, missed=missed)
    _check_timetable(cadence)
    return cadence


def _from_text(text: str) -> dict[str, Any]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise CadenceError("must read 'every: N episodes' or \"cron: '0 3 * * *'\"")
    return {match[1]: match[2].strip("'\"")}


def _count(given: object) -> int:
    number = given
    if isinstance(given, str):
        match = _COUNT.fullmatch(given.strip())
        number = int(match[1]) if match is not None else None
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= EVERY_MAX:
        raise CadenceError(f"'every' must be a number of episodes, 1 to {EVERY_MAX}")
    return number


def _check_timetable(cadence: Cadence) -> None:
    """Parse now, so that no stored rule has an invalid timetable."""
    assert cadence.cron is not None
    if len(cadence.cron.split()) != CRON_FIELDS:
        raise CadenceError("'cron' must have five fields: minute hour day month weekday")
    try:
        zone = _zone(cadence.tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as fault:
        raise CadenceError(f"'tz' {cadence.tz!r} is no time zone of this machine") from fault
    try:
        next(CronSim(cadence.cron, datetime(2026, 1, 1, tzinfo=zone)))
    except (CronSimError, StopIteration) as fault:
        raise CadenceError(f"'cron' {cadence.cron!r} names no instant: {fault}") from fault


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def next_fire(cadence: Cadence, after_us: int) -> int:
    """The first instant (microseconds UTC) after ``after_us`` at which a timetable fires."""
    assert cadence.cron is not None
    zone = _zone(cadence.tz)
    start = datetime.fromtimestamp(after_us // 1_000_000, zone)
    return int(next(CronSim(cadence.cron, start)).timestamp()) * 1_000_000


def due_fire(cadence: Cadence, since_us: int, now_us: int) -> int | None:
    """The last instant in ``(since_us, now_us]`` at which a timetable fired, or None. Several
    missed fires count as one: the last reads everything that the first would have."""
    assert cadence.cron is not None
    zone = _zone(cadence.tz)
    # Backwards from now: a node that was off for years need not count all missed fires.
    start = datetime.fromtimestamp(now_us // 1_000_000 + 1, zone)
    last = int(next(CronSim(cadence.cron, start, reverse=True)).timestamp()) * 1_000_000
    return last if since_us < last <= now_us else None


def run_name(rule_id: str, version: str, mark: str) -> str:
    """The id of a scheduled run: the same at every attempt."""
    return sha256(f"{rule_id}|{version}|{mark}".encode()).hexdigest()[:32]
