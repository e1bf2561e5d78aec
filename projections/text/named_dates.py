"""Dates in English texts: days, months, years, decades, and times a given span before or after one.

A date without a year means that day or month of any year. ``yesterday``, ``two weeks ago`` and
``last year`` count from the given day. ``last May`` is a May of any year: people seldom mention a
month in the same month.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, MINYEAR, date, timedelta

from msgspec import Struct

NAMED_MAX = 8
"""Most dates read from one text."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_OF = (
    {name: n for n, name in enumerate(_MONTHS, 1)}
    | {name[:3]: n for n, name in enumerate(_MONTHS, 1)}
    | {"sept": 9}
)
_NUMBERS = (
    "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NUMBER_OF = {name: n for n, name in enumerate(_NUMBERS, 1)} | {"a": 1, "an": 1, "the": 1}
_DAYS_OF = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}

_MONTH = rf"(?:{'|'.join(sorted(_MONTH_OF, key=len, reverse=True))})"
_FULL_MONTH = rf"(?:{'|'.join(_MONTHS)})"
_ORDINAL = r"(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d\d"
_PATTERNS = (
    r"\b(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)\b",
    r"\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b",
    r"\b(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})\b",
    rf"\b(?P<m>{_MONTH})\.? (?P<d>\d{{1,2}}){_ORDINAL}(?!\d)(?:,? (?P<y>{_YEAR})\b)?",
    rf"\b(?P<d>\d{{1,2}}){_ORDINAL} (?:of )?(?P<m>{_MONTH})\b\.?(?:,? (?P<y>{_YEAR})\b)?",
    rf"\b(?P<m>{_MONTH})\.?(?: of)?,? (?P<y>{_YEAR})\b",
    # "may" and "march" are verbs as well: a month alone needs a fitting context.
    rf"\b(?:in|last|this|next|of|since|until|till|by|during|early|late|mid|before|after)[ -]"
    rf"(?P<m>{_FULL_MONTH})\b",
    r"\b(?P<decade>(?:19|20)\d)0s\b",
    rf"(?<![\d$€£#.,-])\b(?P<y>{_YEAR})\b(?![\d%]|[.,]\d)",
)
"""Compiled by the first question and then kept by ``re``: a start would wait for them."""
_SHIFT = re.compile(
    rf"(?:\b(?P<n>\d{{1,3}}|{'|'.join(_NUMBER_OF)}) )?\b(?P<unit>{'|'.join(_DAYS_OF)})s?"
    r" (?P<way>before|prior to|after|following) (?:the )?$"
)
_SHIFT_LENGTH_MAX = len("twelve weekends prior to the ")
"""The longest match of ``_SHIFT``: reading a whole text before each date takes quadratic time."""
_AGO = re.compile(
    rf"\b(?P<n>\d{{1,3}}|{'|'.join(_NUMBER_OF)}) (?P<unit>{'|'.join(_DAYS_OF)})s? ago\b"
)
_LAST = re.compile(r"\b(?P<which>last|this|next) (?P<unit>week|weekend|month|year)\b")
_NEAR_DAYS = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_NEAR = re.compile(rf"\b(?:{'|'.join(_NEAR_DAYS)})\b")
_SPACES = re.compile(r"\s+")


class Named(Struct, frozen=True):
    """A date as precise as the text: ``year`` None means any, ``month`` None a whole year of
    ``years``, ``day`` None a whole month. ``shift`` moves it: the first and last day, counted from
    the date's first day."""

    year: int | None
    month: int | None = None
    day: int | None = None
    years: int = 1
    shift: tuple[int, int] | None = None

    def spans(self, years: Iterable[int]) -> Iterator[tuple[date, date]]:
        """First day and the day after the last; without a year, in each of ``years``."""
        for year in years if self.year is None else (self.year,):
            span = self._days_in_year(year)
            if span is not None:
                yield span

    def _days_in_year(self, year: int) -> tuple[date, date] | None:
        try:
            first = date(year, self.month or 1, self.day or 1)
            if self.shift is not None:
                return tuple(first + timedelta(days) for days in self.shift)  # pyright: ignore[reportReturnType]
            if self.day is not None:
                return first, first + timedelta(1)
            if self.month is not None:
                return first, date(year + self.month // 12, self.month % 12 + 1, 1)
            return first, date(year + self.years, 1, 1)
        except (ValueError, OverflowError):  # no such day, or outside the calendar
            return None


def named_dates(text: str, today: date) -> tuple[Named, ...]:
    """The distinct dates in a text; ``today`` is the base of ``yesterday``."""
    plain = _SPACES.sub(" ", text.casefold())
    dates: dict[Named, None] = dict.fromkeys(_relative(plain, today))
    taken = [False] * len(plain)
    for pattern in _PATTERNS:
        for match in re.finditer(pattern, plain):
            first, last = match.span()
            if any(taken[first:last]):
                continue
            named = _date_of_match(match.groupdict(), _shift(plain, first))
            if named is not None:
                taken[first:last] = [True] * (last - first)
                dates[named] = None
    return tuple(dates)[:NAMED_MAX]


def _date_of_match(parts: dict[str, str | None], shift: tuple[int, int] | None) -> Named | None:
    if parts.get("decade"):
        return Named(int(f"{parts['decade']}0"), years=10)
    year, month, day = parts.get("y"), parts.get("m"), parts.get("d")
    number = None if month is None else _MONTH_OF.get(month) or int(month)
    named = Named(
        None if year is None else int(year), number, None if day is None else int(day), shift=shift
    )
    # A leap year shows whether the day exists at all.
    return named if next(named.spans((2024,)), None) is not None else None


def _shift(text: str, end: int) -> tuple[int, int] | None:
    """The days in "two weeks before", if such words stand before ``end``."""
    match = _SHIFT.search(text, max(0, end - _SHIFT_LENGTH_MAX), end)
    if match is None:
        return None
    unit = _DAYS_OF[match["unit"]]
    count = _count(match["n"] or "a") * unit
    if match["way"] in ("before", "prior to"):
        return -count, -count + unit
    return count - unit + 1, count + 1


def _relative(text: str, today: date) -> Iterator[Named]:
    for match in _NEAR.finditer(text):
        yield _shifted_date(today, _NEAR_DAYS[match[0]], 1)
    for match in _AGO.finditer(text):
        unit = _DAYS_OF[match["unit"]]
        yield _shifted_date(today, -_count(match["n"]) * unit - unit // 2, unit)
    for match in _LAST.finditer(text):
        step = {"last": -1, "this": 0, "next": 1}[match["which"]]
        unit = match["unit"]
        if unit == "year":
            if MINYEAR <= today.year + step <= MAXYEAR:
                yield Named(today.year + step)
        elif unit == "month":
            months = today.year * 12 + today.month - 1 + step
            yield Named(months // 12, months % 12 + 1)
        else:
            yield _shifted_date(today, step * 7 - today.weekday(), 7)


def _shifted_date(today: date, days: int, length: int) -> Named:
    return Named(today.year, today.month, today.day, shift=(days, days + length))


def _count(text: str) -> int:
    return _NUMBER_OF.get(text) or int(text)
