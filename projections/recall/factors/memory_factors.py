"""Factors over abmind's data of each fact: its attributes, its recalls and their outcomes, and the
stages that found it (abmind's seed, "Post-processing"; its newer version's quality, age and
evidence rules).

``boost`` factors add their value, ``floor`` factors raise a score to it.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I64
from engramlog.projections.moment import DAY_US, HOUR_US
from engramlog.projections.recall.enrichment import GENERAL
from engramlog.projections.recall.factors.features import Features
from engramlog.projections.recall.factors.memory_features import Memories
from engramlog.projections.recall.stages.bm25_product import CREDIBLE

SPACED_MIN = 2
"""The least recalls with an interval between them."""

Share = Annotated[float, Meta(ge=0, le=1)]
Small = Annotated[float, Meta(ge=0, le=0.1)]
Lift = Annotated[float, Meta(ge=1, le=2)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parameters."""


class PerPoint(_Part, frozen=True):
    """What one point of emotion adds, positive or negative."""

    per_point: Small = 0.02


class Spacing(_Part, frozen=True):
    """Values for a mean interval between recalls of at least a week, and of at least a day."""

    weekly: Lift = 1.3
    daily: Lift = 1.15


class Likeness(_Part, frozen=True):
    """What the same part of the day, the same weekday and the same topic add; weekdays of the same
    kind (both at the weekend, or neither) add half."""

    hour: Small = 0.02
    day: Small = 0.015
    topic: Small = 0.03


class Unconfirmed(_Part, frozen=True):
    """The value of a fact that ``stage`` found and ``by`` did not, if ``by`` found anything."""

    stage: Name
    by: Name
    value: Share = 0.5


class Quality(_Part, frozen=True):
    """``weight * (cited - rejected) / recalls``, between ``low`` and ``high``."""

    weight: Share = 0.15
    low: Annotated[float, Meta(ge=-1, le=0)] = -0.1
    high: Share = 0.15


class Uncited(_Part, frozen=True):
    """The value of a fact with this many recalls, this many of them in the last ``days`` days, and
    no citation."""

    value: Share = 0.85
    recalls: Annotated[int, Meta(ge=1, le=20)] = 5
    days: Annotated[float, Meta(gt=0)] = 30.0


class Lifted(_Part, frozen=True):
    """The value of a fact with the quality; all others have 1."""

    value: Lift = 1.3


class Credible(_Part, frozen=True):
    """The value of a fact of credibility 1 to ``at_most``; all others have 1."""

    value: Lift = 1.25
    at_most: Annotated[int, Meta(ge=1, le=6)] = CREDIBLE


class AgeFade(_Part, frozen=True):
    """The value of a fact at least ``days`` old with less emotion than ``emotion``."""

    days: Annotated[float, Meta(ge=0)] = 180.0
    emotion: Annotated[int, Meta(ge=0, le=6)] = 3
    value: Share = 0.9


class Strong(_Part, frozen=True):
    """The least score of a fact for which ``stage`` found every keyword."""

    stage: Name
    value: Annotated[float, Meta(ge=0, le=2)] = 1.2


class Refuted(_Part, frozen=True):
    """The value of those of the ``first`` hits of ``stage`` that are not strong and whose vector's
    cosine with the question is below ``cosine``. A fact without vector is not refuted."""

    stage: Name
    first: Annotated[int, Meta(ge=1, le=1000)] = 10
    cosine: Share = 0.3
    value: Share = 0.5


def emotion_additive(features: Features, parameters: PerPoint) -> F64:
    """Breaks ties in favour of facts with strong emotion."""
    return parameters.per_point * np.abs(_memories(features).emotion)


def spacing(features: Features, parameters: Spacing) -> F64:
    """More for a fact that was recalled over a long time, as in spaced repetition."""
    means = np.array([_mean_interval_days(times) for times in _memories(features).recalls])
    values = np.where(means >= 1.0, parameters.daily, 1.0)
    return np.where(means >= 7.0, parameters.weekly, values)


def context(features: Features, parameters: Likeness) -> F64:
    """How similar the time and topic of a fact are to the caller's present ones."""
    memories, now = _memories(features), features.situation
    local: I64 = memories.created_us + now.utc_offset_minutes * 60_000_000
    total: F64 = np.zeros(len(local))
    if now.hour is not None:
        same = _part_of_day(local // HOUR_US % 24) == _part_of_day(np.array([now.hour]))
        total += parameters.hour * same
    if now.day_of_week is not None:
        days = (local // DAY_US + 4) % 7  # 1 January 1970 was a Thursday; 0 is Sunday
        alike = _is_weekend(days) == _is_weekend(np.array([now.day_of_week]))
        same = days == now.day_of_week
        total += np.where(same, parameters.day, np.where(alike, parameters.day / 2, 0.0))
    if now.topic is not None and now.topic != GENERAL:
        total += parameters.topic * np.array([topic == now.topic for topic in memories.topics])
    return total


def confirm_penalty(features: Features, parameters: Unconfirmed) -> F64:
    """Less than 1 for a fact that one stage found alone although another found much."""
    nothing = np.zeros(len(features.age_days))
    found = features.raw.get(parameters.stage, nothing) > 0
    confirmed = features.raw.get(parameters.by, nothing) > 0
    if not confirmed.any():
        return np.ones(len(found))
    unknown = features.unjudged.get(parameters.by, np.zeros(len(found), dtype=np.bool_))
    return np.where(found & ~confirmed & ~unknown, parameters.value, 1.0)


def quality(features: Features, parameters: Quality) -> F64:
    """Outcomes of the fact's recalls; 0 without recalls."""
    memories = _memories(features)
    recalls = memories.recall_count
    share = parameters.weight * (memories.cited - memories.rejected) / np.maximum(recalls, 1)
    bounded = np.clip(share, parameters.low, parameters.high)
    return np.where(recalls > 0, bounded, 0.0)


def uncited(features: Features, parameters: Uncited) -> F64:
    """Less than 1 for a fact that is recalled again and again and never used."""
    memories = _memories(features)
    since = features.instant_us - parameters.days * DAY_US
    lately = np.array([sum(at >= since for at in times) for times in memories.recalls])
    often = (memories.recall_count >= parameters.recalls) & (lately >= parameters.recalls)
    return np.where(often & (memories.cited == 0), parameters.value, 1.0)


def core_tier(features: Features, parameters: Lifted) -> F64:
    """More than 1 for facts of the core tier."""
    return np.where(_memories(features).core, parameters.value, 1.0)


def credibility(features: Features, parameters: Credible) -> F64:
    """More than 1 for confirmed facts."""
    return np.where(_memories(features).credibility <= parameters.at_most, parameters.value, 1.0)


def age_fade(features: Features, parameters: AgeFade) -> F64:
    """One step down for an old fact without emotion."""
    memories = _memories(features)
    faded = (memories.age_days >= parameters.days) & (np.abs(memories.emotion) < parameters.emotion)
    return np.where(faded, parameters.value, 1.0)


def strong_floor(features: Features, parameters: Strong) -> F64:
    """0 unless the fact holds every keyword."""
    found = features.raw.get(parameters.stage)
    if found is None or features.strong is None:
        return np.zeros(len(features.age_days))
    return np.where(features.strong & (found > 0), parameters.value, 0.0)


def refute_weak(features: Features, parameters: Refuted) -> F64:
    """Less than 1 for leading lexical hits with another meaning."""
    count = len(features.age_days)
    found, cosine = features.raw.get(parameters.stage), features.cosine
    values = np.ones(count)
    if found is None or cosine is None:
        return values
    strong = np.zeros(count, dtype=np.bool_) if features.strong is None else features.strong
    weak = np.flatnonzero((found > 0) & ~strong)
    leading = weak[np.argsort(-found[weak], kind="stable")][: parameters.first]
    values[leading[cosine[leading] < parameters.cosine]] = parameters.value  # NaN is not less
    return values


def _memories(features: Features) -> Memories:
    assert features.memories is not None, "a factor that reads memories says so"
    return features.memories


def _mean_interval_days(times: tuple[int, ...]) -> float:
    if len(times) < SPACED_MIN:
        return 0.0
    return (times[-1] - times[0]) / (len(times) - 1) / DAY_US


def _part_of_day(hours: I64) -> I64:
    """0 night (23 to 5), 1 morning (6 to 11), 2 afternoon (12 to 17), 3 evening (18 to 22)."""
    return np.where(hours < 23, hours // 6, 0)


def _is_weekend(days: I64) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return (days == 0) | (days == 6)
