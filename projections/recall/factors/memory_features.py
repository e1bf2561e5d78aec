"""The input of abmind's scores and factors: each fact's attributes, feedback and recalls as of the
Moment, one array per property."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.moment import DAY_US
from engramlog.projections.recall.request_facts import Survey


class Memories(Struct, frozen=True):
    """In the order of the facts.

    Attributes:
        age_days: since the fact was recorded, never negative.
        created_us: when it was recorded, microseconds since 1970.
        emotion: -5 to 5.
        relevance: set by hand, in steps of 10.
        trust: 0 (web) to 3 (owner).
        credibility: 1 (confirmed) to 6 (unknown).
        core: whether its tier is ``core``.
        topics: ``general`` by default.
        recall_count: how often recalls returned it.
        recalls: the instants of the last of them, microseconds, oldest first.
        cited, rejected: how often it was afterwards.
    """

    age_days: F64
    created_us: I64
    emotion: I64
    relevance: I64
    trust: I64
    credibility: I64
    core: Bool
    topics: Sequence[str]
    recall_count: I64
    recalls: Sequence[tuple[int, ...]]
    cited: I64
    rejected: I64


def load_memories(survey: Survey, slots: I32) -> Memories:
    """The properties of ``slots``, each read once."""
    view, moment = survey.view, survey.moment
    created: I64 = view.recorded_at[slots]
    attributes = view.attributes(slots, moment)
    cited, rejected = view.feedback(slots, moment)

    def whole(name: str) -> I64:
        return np.array([getattr(each, name) for each in attributes], dtype=np.int64)

    return Memories(
        age_days=np.maximum(moment.instant_us - created, 0) / DAY_US,
        created_us=created,
        emotion=whole("emotion_score"),
        relevance=whole("relevance"),
        trust=whole("trust"),
        credibility=whole("credibility"),
        core=np.array([each.tier == "core" for each in attributes], dtype=np.bool_),
        topics=[each.topic for each in attributes],
        recall_count=view.access_count(slots, moment),
        recalls=view.recall_times(slots, moment),
        cited=cited,
        rejected=rejected,
    )
