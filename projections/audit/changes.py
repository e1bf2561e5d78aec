"""Changes between two positions of the log, and a fact's confidence over time.

Both come from the memory image's intervals, so they agree with every other answer.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, saying
from engramlog.projections.moment import Moment

CONFIDENCE_DECIMALS = 6


class ChangeFilters(Struct, frozen=True, kw_only=True):
    """Which facts to report: stored forms, None for all."""

    entity: str | None = None
    relation: str | None = None
    scope: str | None = None
    source: str | None = None


class Changes(Struct, frozen=True):
    """Slots by their change after the earlier position, up to the later one. A fact asserted and
    retracted in between is in both ``added`` and ``retracted``. ``decayed`` facts are live at both
    ends, with another confidence; ``resolved`` ones lost a conflict."""

    added: I32
    retracted: I32
    decayed: I32
    resolved: I32
    confidence_before: F64
    confidence_after: F64


def candidates(
    view: View, authorization: Authorization, moment: Moment, filters: ChangeFilters
) -> I32:
    """Readable facts, asserted by the moment, that match the filters."""
    if filters.scope is not None:
        authorization = authorization.narrowed(frozenset({filters.scope}))
    slots = None if filters.entity is None else view.slots_about(filters.entity)
    return saying(
        view,
        known(view, authorization, moment, slots),
        entity=filters.entity,
        relation=filters.relation,
        source=filters.source,
    )


def changes(
    view: View,
    authorization: Authorization,
    before: Moment,
    after: Moment,
    filters: ChangeFilters,
) -> Changes:
    """The changes after ``before.position`` up to ``after.position``."""
    slots = candidates(view, authorization, after, filters)
    start, end = before.position, after.position
    added: Bool = view.from_position[slots] > start
    asserted: Bool = view.base[slots] > 0.0
    to_position: I64 = view.to_position[slots]
    retracted: Bool = (to_position > start) & (to_position <= end) & asserted
    set_aside: I64 = view.set_aside[slots]
    resolved: Bool = (set_aside > start) & (set_aside <= end)
    lasting = slots[~added & (to_position > end) & asserted]
    was, now = view.confidence(lasting, before), view.confidence(lasting, after)
    moved: Bool = was != now
    return Changes(
        added=slots[added & asserted],
        retracted=slots[retracted],
        decayed=lasting[moved],
        resolved=slots[resolved],
        confidence_before=was[moved],
        confidence_after=now[moved],
    )


class Belief(Struct, frozen=True):
    """Confidence in a fact from a position on. ``cause`` is the kind of event there."""

    position: int
    confidence: float
    cause: str


def belief_curve(view: View, slot: int, until: int, sweeps: Sequence[int]) -> list[Belief]:
    """Every change of a fact's confidence up to a position, oldest first. ``sweeps``: positions of
    decay sweeps, ascending."""
    begun, ended = int(view.from_position[slot]), int(view.to_position[slot])
    points = [Belief(begun, round(float(view.base[slot]), CONFIDENCE_DECIMALS), "fact_asserted")]
    one: I32 = np.array([slot], dtype=np.int32)
    for position in sweeps:
        if begun < position <= until and position < ended:
            confidence = float(view.confidence(one, Moment(position, 0))[0])
            if confidence != points[-1].confidence:
                points.append(Belief(position, confidence, "decay_swept"))
    if ended <= until:
        cause = "decay_swept" if ended in set(sweeps) else "fact_retracted"
        points.append(Belief(ended, 0.0, cause))
    return points
