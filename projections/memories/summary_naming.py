"""The path of a summary: its tier, and the first day of its period.

``consolidation/weekly/weekly_2026-W25.md`` and the flat ``weekly/weekly_2026-W25.md`` are names of
the same kind. A path in another form is not a summary and is ignored. Source: abmind's S6.
"""

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Tier: TypeAlias = Literal["daily", "weekly", "quarterly"]
TIERS: tuple[Tier, ...] = get_args(Tier)
FOLDER = "consolidation"
"""The optional folder around the tiers' folders."""
RELATION = "summary:paragraph"
"""Of every fact that is a paragraph of a summary."""
NAME_LENGTH_MAX = 64

_PREFIX = "summary"
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_WEEK = re.compile(r"(\d{4})-W(\d{2})", re.ASCII)
_QUARTER = re.compile(r"(\d{4})-Q([1-4])", re.ASCII)
_FILE = re.compile(r"(daily|weekly|quarterly)_([0-9A-Z-]+)\.md", re.ASCII)
_BARE_FILE = re.compile(r"(?:(daily|weekly|quarterly)_)?([0-9A-Z-]+)\.md", re.ASCII)


class Period(Struct, frozen=True):
    """The period of a summary: ``start`` is its first day."""

    tier: Tier
    start: date

    @property
    def start_us(self) -> int:
        """Midnight UTC of the first day, in microseconds."""
        midnight = datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)
        return int(midnight.timestamp()) * 1_000_000

    @property
    def entity(self) -> str:
        """The entity of the paragraphs' facts."""
        return f"{_PREFIX}:{self.tier}:{self.start.isoformat()}"


def period_of_name(name: str) -> Period | None:
    """The period of a path relative to the summaries' folder (``/`` between its parts)."""
    parts = name.split("/")
    if len(parts) == 3 and parts[0] == FOLDER:
        parts = parts[1:]
    if len(parts) != 2 or len(name) > NAME_LENGTH_MAX:
        return None
    found = _FILE.fullmatch(parts[1])
    if found is None or found[1] != parts[0]:
        return None
    tier = _tier(found[1])
    start = None if tier is None else _first_day(tier, found[2])
    return None if tier is None or start is None else Period(tier, start)


def name_of_file(path: str) -> str | None:
    """The name of a file by its path in a notes' folder; None without a period.

    Besides the names themselves: a file in a tier's folder without the tier prefix
    (``daily/2026-06-01.md``), and one beside those folders, with or without it
    (``weekly_2026-W25.md``, ``2026-Q2.md``). Files under ``consolidation/`` keep that part.
    """
    if period_of_name(path) is not None:
        return path
    above, _, file = path.rpartition("/")
    inside = above.removeprefix(FOLDER).removeprefix("/")
    bare = _BARE_FILE.fullmatch(file)
    if bare is None or inside not in ("", *TIERS):
        return None
    tier = inside or bare[1] or _tier_of_date(bare[2])
    if bare[1] is not None and bare[1] != tier:
        return None
    folder = f"{FOLDER}/" if above.split("/")[0] == FOLDER else ""
    name = f"{folder}{tier}/{tier}_{bare[2]}.md"
    return name if period_of_name(name) is not None else None


def _tier_of_date(text: str) -> Tier:
    if _WEEK.fullmatch(text):
        return "weekly"
    return "quarterly" if _QUARTER.fullmatch(text) else "daily"


@lru_cache(maxsize=65_536)
def period_of_entity(entity: str) -> Period | None:
    """The period in a paragraph's entity; None for any other entity."""
    parts = entity.split(":")
    if len(parts) != 3 or parts[0] != _PREFIX:
        return None
    tier, day = _tier(parts[1]), _DAY.fullmatch(parts[2])
    start = None if day is None else _date(*map(int, day.groups()))
    return None if tier is None or start is None else Period(tier, start)


def _tier(text: str) -> Tier | None:
    return next((tier for tier in TIERS if tier == text), None)


def _first_day(tier: Tier, text: str) -> date | None:
    """The first day in the dated part of a file's name, if valid."""
    day = _DAY.fullmatch(text)
    if day is not None:
        return _date(*map(int, day.groups()))
    week = _WEEK.fullmatch(text) if tier == "weekly" else None
    if week is not None:
        try:
            return date.fromisocalendar(int(week[1]), int(week[2]), 1)
        except ValueError:  # no such week, or no such year
            return None
    quarter = _QUARTER.fullmatch(text) if tier == "quarterly" else None
    if quarter is not None:
        return _date(int(quarter[1]), 3 * int(quarter[2]) - 2, 1)
    return None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
