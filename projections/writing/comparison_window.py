"""Which stored memories a new one is compared with: only those that its writer may read."""

import numpy as np

from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.memories.attribute_rules import CONFIDENTIAL
from engramlog.projections.memories.deduplication_rules import RECENT_MAX, WINDOW_US
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES

TEXTS = (0, 1)
"""Numbers (``numbered_texts.VALUE_TYPES``) of the types that memories have: string and text."""
_NONE: I32 = np.empty(0, dtype=np.int32)


def memories_beside(
    view: View,
    rights: Authorization,
    moment: Moment,
    fact: FactAsserted,
    since_us: int | None = None,
) -> I32:
    """The live texts of a fact's owner in its scope or garden, in the order they were stated;
    ``since_us``: only those recorded since then."""
    source = view.sources.number(fact.source)
    place = -1 if fact.garden_id is None else view.gardens.number(fact.garden_id)
    if source is None or place is None:
        return _NONE
    slots = view.source_slots(source)
    if since_us is not None:
        slots = slots[view.recorded_at[slots] >= since_us]
    there = (view.garden[slots] == place) & (view.scope[slots] == SCOPES.index(fact.scope))
    return live(view, rights.alone(), moment, _texts(view, slots[there]))


def recent_memories(
    view: View, rights: Authorization, moment: Moment, fact: FactAsserted
) -> list[int]:
    """Those of the last minute, newest first, at most ``RECENT_MAX``; none that a peer stated in
    the owner's name."""
    slots = memories_beside(view, rights, moment, fact, moment.instant_us - WINDOW_US)
    newest: list[int] = slots[view.peer[slots] < 0][::-1][:RECENT_MAX].tolist()
    return newest


def equal_memories(view: View, rights: Authorization, moment: Moment, value: Value) -> list[int]:
    """Live texts of any source with exactly this value."""
    numbers = view.value_numbers(value.v)
    if not numbers:
        return []
    slots = np.flatnonzero(np.isin(view.value, numbers)).astype(np.int32)
    found: list[int] = live(view, rights.alone(), moment, slots).tolist()
    return found


def confidential_memories(view: View, rights: Authorization, moment: Moment) -> list[int]:
    """Live texts that only their source may read, oldest first: all of them the writer's."""
    if not view.confidential:
        return []
    slots = np.flatnonzero(view.classification >= CONFIDENTIAL).astype(np.int32)
    found: list[int] = live(view, rights.alone(), moment, _texts(view, slots)).tolist()
    return found


def _texts(view: View, slots: I32) -> I32:
    return slots[np.isin(view.value_type[slots], TEXTS)]
