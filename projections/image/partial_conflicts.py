"""Conflicts of keys with both readable and hidden facts for a caller.

The table's rows compare the newest value with each other one, readable or not: a hidden fact may be
the newest. For such keys the projector makes the rows again from the readable facts alone, as if
the others did not exist.
"""

from typing import Any

import apsw
import numpy as np
from msgspec import Struct

from engramlog.eventlog.log import ReadableLog
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.image.view import View
from engramlog.projections.tables.conflicts.contradictions import (
    ContradictionsProjector,
    facts_alone,
)
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.tables.erasing import events_at

_CHOSEN = "from_position IN (SELECT value FROM json_each(?))"
_ROWS = "SELECT {columns} FROM conflicts ORDER BY from_position DESC, conflict_id DESC"


class Partial(Struct, frozen=True):
    """Keys that a caller sees in part, by number, and their conflict rows as that caller sees them,
    the newest first."""

    keys: frozenset[int]
    rows: list[tuple[Any, ...]]


NOTHING = Partial(frozenset(), [])


class PartialConflicts:
    """``Partial`` for each kind of caller, cached until the next write."""

    def __init__(self) -> None:
        self._compute_partial: dict[object, Partial] = {}
        self._position = -1

    def of(
        self,
        db: apsw.Connection,
        history: ReadableLog | None,
        view: View,
        rights: Authorization,
        columns: str,
    ) -> Partial:
        """The conflicts that ``rights`` see of partly visible keys; ``columns`` of each row."""
        if history is None or _sees_whole_keys(view, rights):
            return NOTHING
        if view.position != self._position:
            self._compute_partial, self._position = {}, view.position
        name = (view.position, rights, tuple(sorted(view.hiding.names.items())))
        made = self._compute_partial.get(name)
        if made is None:
            made = _compute_partial(db, history, view, rights, columns)
            self._compute_partial[name] = made
        return made


def _sees_whole_keys(view: View, rights: Authorization) -> bool:
    """Whether facts are hidden only by scope, garden and entity, so that each key is visible as a
    whole or not at all."""
    return (
        not view.hiding
        and not view.confidential
        and not rights.withheld
        and rights.ceiling >= OPEN_CLASS
    )


def _compute_partial(
    db: apsw.Connection, history: ReadableLog, view: View, rights: Authorization, columns: str
) -> Partial:
    slots, keys = _readable_parts(view, rights)
    if not len(slots):
        return NOTHING
    chosen = json_list(view.from_position[slots].tolist())
    with facts_alone(db, _CHOSEN, chosen) as (scratch, positions):
        events = [*events_at(history, (p for p in positions if p <= view.position))]
        ContradictionsProjector().apply_all(events, scratch)
        return Partial(keys, query(scratch, _ROWS.format(columns=columns)))


def _readable_parts(view: View, rights: Authorization) -> tuple[I32, frozenset[int]]:
    """The readable facts of partly visible keys, and those keys."""
    mask = rights.mask(view)
    size = int(view.key.max()) + 1 if view.count else 0
    some: np.ndarray = np.zeros(size, dtype=np.bool_)
    other: np.ndarray = np.zeros(size, dtype=np.bool_)
    some[view.key[mask]] = True
    other[view.key[~mask]] = True
    part = some & other
    slots = np.flatnonzero(mask & part[view.key]).astype(np.int32)
    return slots, frozenset(np.flatnonzero(part).tolist())
