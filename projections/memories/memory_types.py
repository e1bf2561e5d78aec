"""Kinds of memories, and how their confidence fades with time (abmind A2.1, A12)."""

from math import log2
from typing import Literal, TypeAlias

MemoryType: TypeAlias = Literal[
    "fact",
    "decision",
    "preference",
    "event",
    "lesson",
    "feedback",
    "story",
    "observation",
    "secret",
]

LASTING = frozenset({"fact", "decision", "event", "story"})
"""Confidence in these does not fade."""
HABITUAL = frozenset({"preference", "lesson", "feedback"})
"""Confidence in these fades over a year, and never under 2."""

OBSERVATION_DAYS = 120.0
HABIT_DAYS = 365.0
HABIT_FLOOR = 2.0
OTHER_DAYS = 90.0
OTHER_STABLE_DAYS = 270.0
FLOOR = 1.0


def stability(recalls: int) -> float:
    """How stable a memory is after this many recalls: 0 to 1, reached at seven."""
    return min(1.0, log2(recalls + 1) / 3)


def effective_confidence(base: float, days: float, recalls: int, memory_type: str) -> float:
    """Confidence (1 to 5) of a memory ``days`` after its last recall or its creation, rounded to
    0.1. Other types fade over 90 days, and over longer the more often they were recalled."""
    if memory_type in LASTING:
        return base
    if memory_type == "observation":
        horizon, floor = OBSERVATION_DAYS, FLOOR
    elif memory_type in HABITUAL:
        horizon, floor = HABIT_DAYS * (1 + stability(recalls)), HABIT_FLOOR
    else:
        horizon, floor = OTHER_DAYS + OTHER_STABLE_DAYS * stability(recalls), FLOOR
    left = max(0.0, 1.0 - max(0.0, days) / horizon)
    return round(max(floor, base * left), 1)
