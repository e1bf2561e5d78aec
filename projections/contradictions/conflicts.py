"""Reading conflicts: pairs of contradicting facts, as a caller sees them.

An open conflict is one live value of a key against the key's newest, or a denial against the fact
that it denies. The Moment decides which facts represent the two values, and whether the conflict is
still open. A side that the caller may not read hides the whole conflict. For keys with such facts,
``partial_conflicts`` computes the rows without them; a denial depends on no third fact. Source:
wire 5.1, 5.2.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Literal

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.open_denials import OpenDenials
from engramlog.projections.image.partial_conflicts import Partial
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.rival_values import Validity, highest_beside
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.tables.conflicts.identities import conflict_id as conflict_id_of
from engramlog.projections.tables.conflicts.identities import key_hash
from engramlog.projections.tables.database import query, query_one

Status = Literal["unresolved", "resolved"]
PAGE_ROWS = 500

_COLUMNS = """conflict_id, fact_id, opened_by, detected_at, from_position, to_position,
    resolved_position, winner_id, resolution_fact_id, note"""
_PAGE = f"""
SELECT {_COLUMNS} FROM conflicts
WHERE from_position <= ?1 AND (from_position, conflict_id) < (?2, ?3) AND {{wanted}}
ORDER BY from_position DESC, conflict_id DESC LIMIT {PAGE_ROWS}
"""
_DENIED = """conflict_id, fact_id, marker_id, detected_at, position, NULL, resolved_position,
    winner_id, resolution_fact_id, note"""
_SETTLED_DENIALS = f"""
SELECT {_DENIED} FROM denials
WHERE position <= ?1 AND (position, conflict_id) < (?2, ?3) AND resolved_position <= ?1
ORDER BY position DESC, conflict_id DESC LIMIT {PAGE_ROWS}
"""
_OF_DENIAL = f"""
SELECT {_DENIED} FROM denials
WHERE position = ?1 AND (position, conflict_id) < (?2, ?3)
ORDER BY conflict_id DESC LIMIT {PAGE_ROWS}
"""
_ONE_DENIAL = f"SELECT {_DENIED} FROM denials WHERE conflict_id=? AND position<=?"
_ONE = f"SELECT {_COLUMNS} FROM conflicts WHERE conflict_id=? AND from_position<=?"
_OF_KEY = f"""
SELECT {_COLUMNS} FROM conflicts
WHERE key_hash=? AND from_position<=? ORDER BY from_position DESC
"""
_START = (2**62, "")
_WANTED: dict[Status | None, str] = {
    None: "(to_position > ?1 OR resolved_position <= ?1)",
    "resolved": "resolved_position <= ?1",
    "unresolved": "to_position > ?1",
}
"""Conditions on the rows of conflicts by status; the table skips all others."""


class ConflictRow(Struct, frozen=True):
    """One row of ``conflicts``, or of ``denials``, which have no ``to_position``; positions as in
    the log, ``detected_at`` in microseconds."""

    conflict_id: str
    fact_id: str
    opened_by: str
    detected_at: int
    from_position: int
    to_position: int | None
    resolved_position: int | None
    winner_id: str | None
    resolution_fact_id: str | None
    note: str | None

    def is_settled(self, moment: Moment) -> bool:
        return self.resolved_position is not None and self.resolved_position <= moment.position

    @property
    def place(self) -> tuple[int, str]:
        """The sort key, for cursors."""
        return self.from_position, self.conflict_id


class Conflict(Struct, frozen=True):
    """A conflict at a moment: the slots of the newer and the older value's side. A value is as old
    as its last claim, which may have expired: ``newest_first`` compares the sides themselves."""

    row: ConflictRow
    status: Status
    newer: int
    older: int

    def newest_first(self, view: View) -> tuple[int, int]:
        """Both sides, in the protocol's order (wire 2.2)."""
        turned = view.hlc[self.older] > view.hlc[self.newer]
        return (self.older, self.newer) if turned else (self.newer, self.older)


def conflicts(
    reader: Reader,
    view: View,
    authorization: Authorization,
    moment: Moment,
    *,
    status: Status | None = None,
    after: tuple[int, str] | None = None,
) -> Iterator[Conflict]:
    """Conflicts that the caller may see, newest first, after a place if given; lazy."""
    place = after or _START
    part = _partial(reader, view, authorization)
    own = (ConflictRow(*values) for values in part.rows)
    mine = (row for row in own if row.from_position <= moment.position and row.place < place)
    rows = _rows(reader, view, part, _PAGE.format(wanted=_WANTED[status]), moment, place)
    judge = _Judge(reader, view, authorization, moment)
    sources = [rows, mine]
    if status != "resolved":
        sources.append(_open_denials(reader, judge.denials, moment, place))
    if status != "unresolved":
        sources.append(_pages(reader, _SETTLED_DENIALS, moment.position, place))
    for row in merge(*sources, key=lambda row: row.place, reverse=True):
        conflict = judge.conflict(row)
        if conflict is not None and status in (None, conflict.status):
            yield conflict


def _rows(
    reader: Reader, view: View, part: Partial, sql: str, moment: Moment, place: tuple[int, str]
) -> Iterator[ConflictRow]:
    """The table's rows after a place, without those of partly visible keys."""
    for row in _pages(reader, sql, moment.position, place):
        if not _is_in_partial_key(reader, view, part, row):
            yield row


def _open_denials(
    reader: Reader, denials: OpenDenials, moment: Moment, place: tuple[int, str]
) -> Iterator[ConflictRow]:
    """The rows of open denials after a place, newest first. Rows of ended ones are not read: many
    records can deny many facts."""
    for position, slots in denials.newest_first(place[0]):
        denied = frozenset(slots.tolist())
        for row in _pages(reader, _OF_DENIAL, position, place):
            if not row.is_settled(moment) and reader.slot_of(row.fact_id) in denied:
                yield row


def _pages(
    reader: Reader, sql: str, position: int, place: tuple[int, str]
) -> Iterator[ConflictRow]:
    """A table's rows after a place, newest first."""
    while True:
        with reader.pool.connection() as db:
            found = query(db, sql, (position, *place))
        for values in found:
            yield ConflictRow(*values)
        if len(found) < PAGE_ROWS:
            return
        place = ConflictRow(*found[-1]).place


def _partial(reader: Reader, view: View, authorization: Authorization) -> Partial:
    with reader.pool.connection() as db:
        return reader.partial.of(db, reader.history, view, authorization, _COLUMNS)


def _is_in_partial_key(reader: Reader, view: View, part: Partial, row: ConflictRow) -> bool:
    slot = reader.slot_of(row.fact_id)
    return slot is not None and slot < view.count and int(view.key[slot]) in part.keys


def conflict(
    reader: Reader, view: View, authorization: Authorization, moment: Moment, conflict_id: str
) -> Conflict | None:
    """One conflict by id; None if it is absent or not visible."""
    part = _partial(reader, view, authorization)
    judge = _Judge(reader, view, authorization, moment)
    for values in part.rows:
        row = ConflictRow(*values)
        if row.conflict_id == conflict_id and row.from_position <= moment.position:
            return judge.conflict(row)
    with reader.pool.connection() as db:
        values = query_one(db, _ONE, (conflict_id, moment.position))
        denial = query_one(db, _ONE_DENIAL, (conflict_id, moment.position))
    if denial is not None:
        return judge.conflict(ConflictRow(*denial))
    if values is None or _is_in_partial_key(reader, view, part, ConflictRow(*values)):
        return None
    return judge.conflict(ConflictRow(*values))


def conflict_between(
    reader: Reader,
    view: View,
    authorization: Authorization,
    moment: Moment,
    one: str,
    other: str,
    status: Status = "unresolved",
) -> Conflict | None:
    """The newest conflict of a status between the values of two facts of one key, or None."""
    slots = [reader.slot_of(fact) for fact in (one, other)]
    if slots[0] is None or slots[1] is None or view.key[slots[0]] != view.key[slots[1]]:
        return None
    row = reader.row(view, slots[0])
    values = {int(view.value[slot]) for slot in slots}
    with reader.pool.connection() as db:
        key = key_hash(row.entity, row.relation, row.scope, row.garden_id)
        found = query(db, _OF_KEY, (key, moment.position))
        names = [conflict_id_of(*pair) for pair in ((one, other), (other, one))]
        denials = [row for name in names for row in query(db, _ONE_DENIAL, (name, moment.position))]
    judge = _Judge(reader, view, authorization, moment)
    for entry in [*denials, *found]:
        candidate = judge.conflict(ConflictRow(*entry))
        if candidate is None or candidate.status != status:
            continue
        if {int(view.value[candidate.newer]), int(view.value[candidate.older])} == values:
            return candidate
    return None


class _Judge:
    """Judges rows of one caller's moment; what a key's rows share is looked up once."""

    def __init__(
        self, reader: Reader, view: View, authorization: Authorization, moment: Moment
    ) -> None:
        self._reader, self._view = reader, view
        self._authorization, self._moment = authorization, moment
        self.denials = OpenDenials(view, moment, authorization)
        self._values = OpenValues(view, moment, authorization)

    def conflict(self, row: ConflictRow) -> Conflict | None:
        """The conflict as it is at the moment; None if it has ended or is not visible."""
        reader, view, moment = self._reader, self._view, self._moment
        older, opener = reader.slot_of(row.fact_id), reader.slot_of(row.opened_by)
        if older is None or opener is None or max(older, opener) >= view.count:
            return None
        sides: I32 = np.array([older, opener], dtype=np.int32)
        if not self._authorization.mask(view, sides).all():
            return None
        if row.is_settled(moment):
            return Conflict(row, "resolved", opener, older)
        if row.to_position is None:
            claimed = bool(view.claimed(sides[:1], moment)[0])
            open_now = claimed and self.denials.holds(opener, older)
            return Conflict(row, "unresolved", opener, older) if open_now else None
        if row.to_position <= moment.position:
            return None
        found = self._values.sides(older)
        return None if found is None else Conflict(row, "unresolved", *found)


class _Key(Struct, frozen=True):
    """The competing claims of a key. ``ages``: the higher, the later the claim's value was claimed
    last, also by claims that do not compete now. ``opposed``: by value that one of a later value
    overlaps, the place of its newest claim that it overlaps.

    Of two values, only the one whose last claim is older shows the conflict, so no pair shows
    twice.
    """

    slots: I32
    ages: I64
    opposed: dict[int, int]


class OpenValues:
    """The values in open conflicts that ``authorization`` sees at ``moment``. A list asks for value
    after value of one key, so each key is looked at once."""

    def __init__(self, view: View, moment: Moment, authorization: Authorization) -> None:
        self._view, self._moment, self._authorization = view, moment, authorization
        self._keys: dict[int, _Key] = {}

    def sides(self, slot: int) -> tuple[int, int] | None:
        """The facts that now represent the later value and this fact's value, or None: no
        claim of a value competes, or the relation is now set-valued."""
        view = self._view
        if view.is_set_valued(int(view.relation[slot]), self._moment):
            return None
        key = int(view.key[slot])
        if key not in self._keys:
            self._keys[key] = self._claims(key)
        claims = self._keys[key]
        place = claims.opposed.get(int(view.value[slot]))
        if place is None:
            return None
        own = int(claims.slots[place])
        rivals = claims.slots[claims.ages > claims.ages[place]]
        rivals = rivals[
            (view.valid_from[rivals] < view.valid_until[own])
            & (view.valid_from[own] < view.valid_until[rivals])
        ]
        return int(rivals[np.argmax(view.hlc[rivals])]), own

    def _claims(self, key: int) -> _Key:
        view = self._view
        slots = view.key_slots(key)
        slots = slots[self._authorization.mask(view, slots)]
        slots = slots[view.claimed(slots, self._moment)]
        known, value = np.unique(view.value[slots], return_inverse=True)
        last: I64 = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(last, value, view.hlc[slots])
        _, age = np.unique(last, return_inverse=True)
        ages = age[value].astype(np.int64)
        competing = view.competing_claims(slots, self._moment)
        slots, ages = slots[competing], ages[competing]
        values = view.value[slots]
        validity = Validity(view.valid_from[slots], view.valid_until[slots], values)
        opposed = np.flatnonzero(highest_beside(validity, validity, ages) > ages)
        opposed = opposed[np.argsort(-view.hlc[slots[opposed]], kind="stable")]
        found, newest = np.unique(values[opposed], return_index=True)
        return _Key(slots, ages, dict(zip(found.tolist(), opposed[newest].tolist(), strict=True)))
