"""abmind's factors, by its published numbers and cases worked out by hand."""

from typing import Any

import numpy as np
import pytest

from engramlog.projections.recall.factors import memory_factors as abmind
from engramlog.projections.recall.factors.features import Features
from engramlog.projections.recall.request import Situation
from tests.projections.recall.remembered import memories, recalled_every
from tests.worlds.recall_world import DAY_US, NOW_US

# 15 January 2024 was a Monday; 10:00 UTC.
MONDAY_TEN_US = 1_705_312_800_000_000


def features(*facts: dict[str, Any], **more: Any) -> Features:
    """Features of facts that differ only in abmind's data."""
    count = len(facts)
    plain = np.ones(count)
    return Features(
        age_days=plain,
        confidence=plain,
        source_trust=plain,
        access_count=np.zeros(count, dtype=np.int64),
        contradicted=np.zeros(count, dtype=np.bool_),
        outdated=np.zeros(count, dtype=np.bool_),
        revised=np.zeros(count, dtype=np.bool_),
        in_garden=np.zeros(count, dtype=np.bool_),
        derivation_depth=np.zeros(count, dtype=np.int64),
        in_quarantine=np.zeros(count, dtype=np.bool_),
        terms=np.ones(count, dtype=np.int32),
        asking=np.zeros(count),
        instant_us=NOW_US,
        memories=memories(*facts),
        **more,
    )


def test_negative_emotion_counts_as_positive_does() -> None:
    at = features({"emotion": 5}, {"emotion": -5}, {})
    assert (0.5 + abmind.emotion_additive(at, abmind.PerPoint())).tolist() == [0.6, 0.6, 0.5]
    # It only breaks ties: 0.30 with the strongest emotion stays under 0.70 without.
    assert 0.30 + abmind.emotion_additive(at, abmind.PerPoint())[0] < 0.70


def test_spacing_is_by_the_mean_interval() -> None:
    at = features(
        {"recalls": recalled_every(7, 3)},
        {"recalls": recalled_every(1, 20)},
        {"recalls": recalled_every(0.99, 20)},
        {"recalls": (NOW_US,)},
        {"recalls": (NOW_US - 13 * DAY_US, NOW_US - 13 * DAY_US + 1, NOW_US)},  # 6.5 days
    )
    assert abmind.spacing(at, abmind.Spacing()).tolist() == [1.3, 1.15, 1.0, 1.0, 1.15]


def boost(fact: dict[str, Any], **now: Any) -> float:
    at = features({"created_us": MONDAY_TEN_US} | fact, situation=Situation(**now))
    return float(abmind.context(at, abmind.Likeness())[0])


def test_context_adds_for_the_part_of_the_day() -> None:
    assert boost({}, hour=11) == 0.02
    assert boost({}, hour=20) == 0.0
    assert boost({}, hour=20, utc_offset_minutes=600) == 0.02  # it was 20:00 there
    night = {"created_us": MONDAY_TEN_US + 14 * 3_600_000_000}  # 00:00
    assert [boost(night, hour=hour) for hour in (23, 5, 6, 22)] == [0.02, 0.02, 0.0, 0.0]


def test_context_adds_half_for_a_weekday_that_is_alike() -> None:
    assert boost({}, day_of_week=1) == 0.015
    assert boost({}, day_of_week=4) == 0.0075  # Thursday: both in the week
    assert boost({}, day_of_week=0) == 0.0  # Sunday
    saturday = {"created_us": MONDAY_TEN_US + 5 * DAY_US}
    assert boost(saturday, day_of_week=0) == 0.0075


def test_context_adds_for_a_topic_that_is_one() -> None:
    assert boost({"topic": "work"}, topic="work") == 0.03
    assert boost({"topic": "home"}, topic="work") == 0.0
    assert boost({"topic": "general"}, topic="general") == 0.0


def test_the_whole_context_does_not_lift_a_weak_hit_over_a_strong_one() -> None:
    total = boost({"topic": "work"}, hour=10, day_of_week=1, topic="work")
    assert total == pytest.approx(0.065)
    assert 0.72 + total < 1.05


def test_an_unconfirmed_hit_is_halved_only_if_the_other_stage_found_facts() -> None:
    numbers = abmind.Unconfirmed(stage="fuzzy", by="semantic")
    found = np.array([3.0, 2.0, 0.0])
    heard = features({}, {}, {}, raw={"fuzzy": found, "semantic": np.array([0.0, 0.7, 0.6])})
    assert abmind.confirm_penalty(heard, numbers).tolist() == [0.5, 1.0, 1.0]
    silent = features({}, {}, {}, raw={"fuzzy": found, "semantic": np.zeros(3)})
    assert abmind.confirm_penalty(silent, numbers).tolist() == [1.0, 1.0, 1.0]
    absent = features({}, {}, {}, raw={"fuzzy": found})
    assert abmind.confirm_penalty(absent, numbers).tolist() == [1.0, 1.0, 1.0]


def test_quality_is_bounded_and_nothing_without_recalls() -> None:
    at = features(
        {"cited": 3, "recall_count": 4},
        {"rejected": 4, "recall_count": 4},
        {"cited": 10, "recall_count": 1},
        {"cited": 3},
    )
    assert abmind.quality(at, abmind.Quality()) == pytest.approx([0.1125, -0.10, 0.15, 0.0])


def test_often_recalled_and_never_cited_facts_lose() -> None:
    at = features(
        {"recall_count": 5, "recalls": recalled_every(1, 5)},
        {"recall_count": 5, "recalls": recalled_every(1, 5), "cited": 1},
        {"recall_count": 4, "recalls": recalled_every(1, 4)},
        {"recall_count": 9, "recalls": recalled_every(10, 9)},  # only 4 in 30 days
    )
    assert abmind.uncited(at, abmind.Uncited()).tolist() == [0.85, 1.0, 1.0, 1.0]


def test_core_and_confirmed_facts_count_for_more() -> None:
    at = features({"core": True, "credibility": 2}, {"credibility": 3})
    assert abmind.core_tier(at, abmind.Lifted()).tolist() == [1.3, 1.0]
    assert abmind.credibility(at, abmind.Credible()).tolist() == [1.25, 1.0]


def test_age_fades_facts_without_emotion() -> None:
    at = features({"age_days": 180.0}, {"age_days": 179.9}, {"age_days": 400.0, "emotion": -3})
    assert abmind.age_fade(at, abmind.AgeFade()).tolist() == [0.9, 1.0, 1.0]


def test_only_a_strong_hit_of_the_stage_has_a_floor() -> None:
    strong = np.array([True, True, False])
    at = features({}, {}, {}, raw={"fuzzy": np.array([0.5, 0.0, 1.0])}, strong=strong)
    assert abmind.strong_floor(at, abmind.Strong(stage="fuzzy")).tolist() == [1.2, 0.0, 0.0]


def test_only_leading_weak_hits_are_refuted_and_no_vector_refutes_nothing() -> None:
    at = features(
        {}, {}, {}, {},
        raw={"fuzzy": np.array([1.0, 0.9, 0.8, 0.7])},
        strong=np.array([True, False, False, False]),
        cosine=np.array([0.1, 0.1, np.nan, 0.1]),
    )  # fmt: skip
    numbers = abmind.Refuted(stage="fuzzy", first=2)
    assert abmind.refute_weak(at, numbers).tolist() == [1.0, 0.5, 1.0, 1.0]
    assert abmind.refute_weak(at, abmind.Refuted(stage="fuzzy")).tolist() == [1.0, 0.5, 1.0, 0.5]
