"""Plain arrays of abmind's inputs, for tests of formulas."""

from typing import Any

import numpy as np

from engramlog.projections.moment import DAY_US
from engramlog.projections.recall.factors.memory_features import Memories
from tests.worlds.recall_world import NOW_US


def memories(*facts: dict[str, Any]) -> Memories:
    """One fact per dict: its attributes; the rest has default values."""

    def column(name: str, otherwise: float, kind: type[Any]) -> Any:
        return np.array([fact.get(name, otherwise) for fact in facts], dtype=kind)

    age = column("age_days", 0.0, np.float64)
    return Memories(
        age_days=age,
        created_us=column("created_us", NOW_US, np.int64),
        emotion=column("emotion", 0, np.int64),
        relevance=column("relevance", 0, np.int64),
        trust=column("trust", 0, np.int64),
        credibility=column("credibility", 6, np.int64),
        core=column("core", 0, np.bool_),
        topics=[fact.get("topic", "general") for fact in facts],
        recall_count=column("recall_count", 0, np.int64),
        recalls=[tuple(fact.get("recalls", ())) for fact in facts],
        cited=column("cited", 0, np.int64),
        rejected=column("rejected", 0, np.int64),
    )


def recalled_every(days: float, times: int) -> tuple[int, ...]:
    """Instants of recalls at equal intervals, the last of them now."""
    step = int(days * DAY_US)
    return tuple(NOW_US - step * n for n in reversed(range(times)))
