"""The trail of facts: who wrote each fact and who ended it, newest first (wire 5.8).

An entry is a (position, fact): the event that asserted a fact, or the one that ended it. Only
readable facts have entries, so that counts reveal nothing of others.
"""

from collections.abc import Sequence

import apsw
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, saying
from engramlog.projections.moment import Moment
from engramlog.projections.tables.database import json_list, query, query_column

_ACTED = """
SELECT from_position FROM fact_rows WHERE actor=?
UNION
SELECT position FROM fact_retractions WHERE actor=?
"""
_REASONS = """
SELECT fact_id, reason FROM fact_retractions
WHERE fact_id IN (SELECT value FROM json_each(?)) AND reason<>''
"""


class TrailFilters(Struct, frozen=True, kw_only=True):
    """Which entries; ``slot`` names one fact, ``source`` is in stored form."""

    source: str | None = None
    slot: int | None = None
    attested: bool | None = None


class Step(Struct, frozen=True):
    """One entry: the position of its event, and of the fact's assertion."""

    position: int
    asserted: int


class Trail(Struct, frozen=True):
    """All matching entries, newest first, as columns."""

    positions: I64
    asserted: I64

    def __len__(self) -> int:
        return len(self.positions)

    def behind(self, mark: Step | None, limit: int) -> list[Step]:
        """At most ``limit`` entries after ``mark`` in the order."""
        start = 0
        if mark is not None:
            older = (self.positions < mark.position) | (
                (self.positions == mark.position) & (self.asserted < mark.asserted)
            )
            found = np.flatnonzero(older)
            start = int(found[0]) if len(found) else len(self)
        pairs = zip(
            self.positions[start : start + limit].tolist(),
            self.asserted[start : start + limit].tolist(),
            strict=True,
        )
        return [Step(position, asserted) for position, asserted in pairs]


def trail_of(
    view: View,
    authorization: Authorization,
    moment: Moment,
    filters: TrailFilters,
    acted: I64 | None = None,
) -> Trail:
    """The trail as of a moment. ``acted``: positions of events of one actor
    (``positions_of_actor``), if requested."""
    asked: I32 | None = None if filters.slot is None else np.array([filters.slot], dtype=np.int32)
    slots = known(view, authorization, moment, asked)
    slots = saying(view, slots, source=filters.source)
    if filters.attested is not None:
        slots = slots[view.attested(slots) == filters.attested]
    ended = slots[view.to_position[slots] <= moment.position]
    positions = np.concatenate([view.from_position[slots], view.to_position[ended]])
    asserted = np.concatenate([view.from_position[slots], view.from_position[ended]])
    if acted is not None:
        kept = np.isin(positions, acted)
        positions, asserted = positions[kept], asserted[kept]
    order = np.lexsort((asserted, positions))[::-1]
    return Trail(positions[order], asserted[order])


def positions_of_actor(db: apsw.Connection, actor: str) -> I64:
    """Positions at which an actor asserted or ended facts."""
    return np.array(query_column(db, _ACTED, (actor, actor)), dtype=np.int64)


def reasons_of(db: apsw.Connection, fact_ids: Sequence[str]) -> dict[str, str]:
    """Why facts ended, by fact id; only facts that ended with a reason."""
    return dict(query(db, _REASONS, (json_list(fact_ids),)))
