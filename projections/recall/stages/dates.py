"""Facts of the time that a question names, or near it.

A fact is of its ``valid_from``, else of when it was recorded, or of its end if that was earlier.
``score = exp(-days / decay_days)`` over the days between; an ended fact covers the time until
``valid_until``. Candidates are all hits of earlier stages, and the newest other facts of exactly
that time.

A question that names a time, with its year, or asks about the past ("previous") is about what held
then: facts that are over by now, but were valid then, take part in all stages.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32, I64
from engramlog.projections.moment import DAY_US, NO_END, NO_START
from engramlog.projections.recall.matching_facts import held_within, times
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from engramlog.projections.text.named_dates import named_dates

YEARS_MAX = 60
"""How many years are tried for a date without one, the latest first."""
DECAYS_MAX = 5.0
"""Facts further away than this many decays score nothing."""

FAR_US = 2**62
"""Further than any two days lie apart."""

_EPOCH = date(1970, 1, 1)
_BEFORE = r"\b(?:before|until|till|prior to)\b"
_SINCE = r"\b(?:since|after)\b"
_PAST = (
    r"\b(?:previous|previously|former|formerly|in the past|over time|over the years)\b"
    # "A key used to sign" is about the present.
    r"|\b(?:who|what|there|I|we|you|he|she|it|they|did\b[^.?!]{,40}) used to\b"
    r"|\bused? to (?:be|have|live|work|own|like|love|know|think|cost)\b"
    r"|\bhow (?:has|have|had|did)\b[^.?!]{,80}\bchanged?\b"
)


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``decay_days``: the distance scale. ``others``: how many facts of exactly that time become
    candidates without another stage's hit."""

    decay_days: Annotated[float, Meta(gt=0, le=3650)] = 3.0
    others: Annotated[int, Meta(ge=0, le=1000)] = 50


def run(survey: Survey, parameters: Parameters, earlier: Mapping[str, Candidates]) -> Candidates:
    """Facts at or near the question's dates. Raises StageDisabled without a date."""
    now = _day(survey.moment.valid_us)
    named = named_dates(survey.request.query, now)
    if not named:
        raise StageDisabled("the question names no date")
    view = survey.view
    dated = survey.survivors
    began = times(view, dated)
    years = _years(began)
    spans = sorted(span for each in named for span in each.spans(years))
    until = view.valid_until[dated]
    ended = np.where(until == NO_END, began, np.maximum(until - 1, began))
    away = _days_away(began, ended, [(_us(first), _us(after)) for first, after in spans])
    near = away <= DECAYS_MAX * parameters.decay_days
    dated, away = dated[near], away[near]
    kept = np.isin(dated, _earlier_hits(earlier)) | np.isin(
        dated, _newest(survey, dated[away == 0.0], parameters)
    )
    slots, away = dated[kept], away[kept]
    scores = np.exp(-away / parameters.decay_days)

    def why(chosen: I32) -> list[list[str]]:
        apart = away[slots.searchsorted(chosen)].tolist()
        columns = zip(
            times(view, chosen).tolist(), view.valid_until[chosen].tolist(), apart, strict=True
        )
        return [
            [f"dates: of {_time(began, until)}, {count:.0f} days away"]
            for began, until, count in columns
        ]

    return Candidates(slots, scores, np.zeros(len(slots), dtype=np.int32), why, ages=view.ages)


def with_facts_of_named_time(survey: Survey) -> Survey:
    """The request with the facts that are over, but held at the time that the question names."""
    over = survey.surviving.over
    if not len(over):
        return survey
    held = _named_time(survey.request.query, _day(survey.moment.valid_us))
    if held is None or not held_within(survey.view, over, *held).any():
        return survey
    return survey.filtered(msgspec.structs.replace(survey.filters, held=held))


def _named_time(question: str, today: date) -> tuple[int, int] | None:
    """From the first to the last named date, open where the question says since, or before what has
    begun; all time for "previous" and the like; None without any."""
    spans = [span for each in named_dates(question, today) for span in each.spans(())]
    if not spans:
        return (NO_START, NO_END) if re.search(_PAST, question, re.IGNORECASE) else None
    first = min(first for first, _ in spans)
    after = max(after for _, after in spans)
    begun = max(spans)[0] <= today  # what is due before a day to come is not over
    return (
        NO_START if begun and re.search(_BEFORE, question, re.IGNORECASE) else _us(first),
        NO_END if re.search(_SINCE, question, re.IGNORECASE) else _us(after),
    )


def _earlier_hits(earlier: Mapping[str, Candidates]) -> I32:
    return np.concatenate([np.empty(0, dtype=np.int32), *(each.slots for each in earlier.values())])


def _newest(survey: Survey, slots: I32, parameters: Parameters) -> I32:
    """The newest of some facts that pass the gate."""
    if not parameters.others or not len(slots):
        return slots[:0]
    return survey.view.by_age(survey.admits(slots))[-parameters.others :]


def _days_away(began: I64, ended: I64, spans: Sequence[tuple[int, int]]) -> F64:
    """Days between each fact's time and the nearest of the named times, which ascend; 0 if they
    meet."""
    if not spans:
        return np.full(len(began), np.inf)
    firsts, afters = np.array(spans, dtype=np.int64).T
    latest = np.maximum.accumulate(afters) - 1
    later = firsts.searchsorted(ended, side="right")
    # Of the times that begin before a fact's end, the one that ends last is the nearest.
    since = np.where(later > 0, began - latest.take(later - 1, mode="clip"), FAR_US)
    until = np.where(later < len(spans), firsts.take(later, mode="clip") - ended, FAR_US)
    gap = np.maximum(np.minimum(since, until), 0)
    return gap / DAY_US


def _years(began: I64) -> range:
    """The years of some facts, at most the latest ``YEARS_MAX``."""
    if not len(began):
        return range(0)
    first, last = _day(int(began.min())).year, _day(int(began.max())).year
    return range(max(first, last - YEARS_MAX + 1), last + 1)


def _day(instant_us: int) -> date:
    """The day of an instant; outside the calendar its first or last day."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant_us)).date()
    except OverflowError:
        return date.min if instant_us < 0 else date.max


def _time(began: int, until: int) -> str:
    """The time of a fact, by day."""
    day = _day(began).isoformat()
    return day if until == NO_END else f"{day} to {_day(until).isoformat()}"


def _us(day: date) -> int:
    return (day - _EPOCH).days * DAY_US
