"""Effective confidence by memory type: the goldens of abmind A12 and further invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.memories.memory_types import effective_confidence, stability
from engramlog.projections.recall.enrichment import EnrichedFact, metadata


@pytest.mark.parametrize(
    ("base", "days", "recalls", "memory_type", "expected"),
    [
        (4, 60, 0, "observation", 2.0),  # 4 · (1 - 60/120)
        (4, 45, 0, "other", 2.0),  # 4 · (1 - 45/90)
        (4, 180, 7, "other", 2.0),  # stability 1: 4 · (1 - 180/360)
        (4, 400, 0, "fact", 4),
        (3, 1_000, 0, "decision", 3),
        (4, 200, 0, "observation", 1.0),
        (5, 146, 0, "lesson", 3.0),  # 5 · (1 - 146/365)
        (5, 146, 7, "preference", 4.0),  # 5 · (1 - 146/730)
        (5, 1_000, 0, "feedback", 2.0),
        (4, 0, 0, "secret", 4.0),
    ],
)
def test_effective_confidence_fades_by_type_and_recalls(
    base: float, days: float, recalls: int, memory_type: str, expected: float
) -> None:
    assert effective_confidence(base, days, recalls, memory_type) == expected


def test_stability_is_full_after_seven_recalls() -> None:
    assert [stability(n) for n in (0, 1, 7, 100)] == [0.0, pytest.approx(1 / 3), 1.0, 1.0]


@given(
    st.floats(1, 5),
    st.floats(0, 4_000),
    st.floats(0, 400),
    st.integers(0, 50),
    st.sampled_from(["observation", "lesson", "preference", "secret", "fact"]),
)
def test_it_never_rises_with_time_nor_leaves_its_bounds(
    base: float, days: float, more: float, recalls: int, memory_type: str
) -> None:
    now = effective_confidence(base, days, recalls, memory_type)
    later = effective_confidence(base, days + more, recalls, memory_type)
    assert 1.0 <= later <= now <= max(base + 0.05, 2.0)


def test_a_fact_shows_it_on_the_scale_of_one_to_five() -> None:
    day = 86_400_000_000
    kind = FactAttributes(memory_type="observation")
    # 1 + 4 · 0.75 = 4, half gone after 60 of 120 days.
    told = EnrichedFact("text", kind, 0.75, recorded_us=0, recalls=0, idle_us=60 * day)
    assert metadata([told])[0]["metadata"]["effective_confidence"] == 2.0
