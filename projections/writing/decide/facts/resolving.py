"""Settling a contradiction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import ConflictResolved, FactAsserted, FactAttributes, Value
from engramlog.projections.authorization import Authorization
from engramlog.projections.cid import with_cid
from engramlog.projections.image.rival_values import Validity, have_rivals
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.conflicts.denials import open_denials
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.facts.attributes import present_attributes
from engramlog.projections.writing.commands import Refused, ResolveConflict
from engramlog.projections.writing.decide.authority import check_ending, covers_scope
from engramlog.projections.writing.decide.context import Context, Decision, Key
from engramlog.projections.writing.decide.declared.gardens import check_touching
from engramlog.projections.writing.decide.readable import readable
from engramlog.projections.writing.instruction_sources import as_content, check_instruction

_CONFLICT = """
SELECT entity, relation, scope, garden_id, fact_id, to_position, resolved_position
FROM conflicts WHERE conflict_id=?
"""
_SHOWN = f"""
SELECT entity, relation, scope, garden_id, id, {LIVE}, NULL FROM fact_rows WHERE id=?
"""
_FACT_COLUMNS = """id, entity, relation, scope, garden_id, value_type, value_v, interpret_as,
    valid_from_us, valid_until_us, hlc"""
_FACT = f"""
SELECT {_FACT_COLUMNS} FROM fact_rows
WHERE id=? AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0
"""
_CLAIMANTS = f"""
SELECT {_FACT_COLUMNS} FROM fact_rows
WHERE entity=?1 AND relation=?2 AND scope=?3 AND garden_id IS ?4
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0
ORDER BY valid_until_us > ?5 DESC, hlc DESC
"""
_VALUE_OF = "SELECT value_type, value_v FROM fact_rows WHERE id=?"
_VALUE_GROUP = f"""
SELECT id, source FROM fact_rows
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND value_type=? AND value_v=?
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0 ORDER BY from_position
"""
_DENIAL = "SELECT fact_id, marker_id, resolved_position FROM denials WHERE conflict_id=?"
_SIDE = f"SELECT {_FACT_COLUMNS}, source FROM fact_rows WHERE id=?"
_ABSENT = Refused("conflict_not_found", "conflict not found")
_MISSING = Refused("resolution_missing", "give winning_fact_id or new_value", "winning_fact_id")
_NOT_IN_CONFLICT = Refused(
    "not_in_conflict", "winning_fact_id must be one of the two facts", "winning_fact_id"
)


class DisputeSide(Struct, frozen=True):
    """One live fact of the disputed key."""

    id: str
    entity: str
    relation: str
    scope: str
    garden_id: str | None
    value_type: str
    value_v: str
    interpret_as: Any
    valid_from_us: int
    valid_until_us: int
    hlc: int

    @property
    def key(self) -> Key:
        return self.entity, self.relation, self.scope, self.garden_id

    @property
    def value(self) -> tuple[str, str]:
        return self.value_type, self.value_v

    def overlaps(self, other: DisputeSide) -> bool:
        return (
            self.valid_from_us < other.valid_until_us and other.valid_from_us < self.valid_until_us
        )


def resolve_conflict(command: ResolveConflict, context: Context) -> Decision | Refused:
    """Settle a contradiction: the winner stays, and facts of the losing value are set aside. This
    needs authority to end each of them.

    The conflict's value opposes the newest other value, as ``conflicts.conflict`` shows it; any
    live fact of either may be the winner. A denial opposes the fact that it denies.
    """
    denial = query_one(context.db, _DENIAL, (command.conflict_id,))
    if denial is not None:
        return _resolve_denial(command, context, *denial)
    row = query_one(context.db, *_asked(command))
    if row is None or not covers_scope(command.rights, row[2]):
        return _ABSENT
    *found, fact, ended, resolved = row
    key: Key = (found[0], found[1], found[2], found[3])
    check_touching(context, command.rights, key[3], _ABSENT)
    sides = _sides(key, fact, context, command.rights)
    if command.settled or ended != LIVE or resolved is not None or sides is None:
        return Refused("conflict_already_resolved", "conflict already resolved")
    if command.new_value is not None:
        check_instruction(command.new_value, command.rights)
        return _settle(command, context, None, sides, _losers(command, sides, context))
    if command.winning_fact_id is None:
        return _MISSING
    named = query_one(context.db, _FACT, (command.winning_fact_id,))
    winner = None if named is None else DisputeSide(*named)
    of_key = winner is not None and winner.key == key
    shown = readable(context, command.rights, [command.winning_fact_id])
    of_key &= command.winning_fact_id in shown
    if winner is None or not of_key or winner.value not in {side.value for side in sides}:
        return _NOT_IN_CONFLICT
    losing = tuple(side for side in sides if side.value != winner.value)
    return _settle(command, context, winner, losing, _losers(command, losing, context))


def _resolve_denial(
    command: ResolveConflict, context: Context, fact: str, marker: str, resolved: int | None
) -> Decision | Refused:
    """Settle a denial: the winner is the record, the denied fact, or a new value over both."""
    rows = [query_one(context.db, _SIDE, (name,)) for name in (fact, marker)]
    if rows[0] is None or rows[1] is None or not covers_scope(command.rights, rows[0][3]):
        return _ABSENT
    if len(readable(context, command.rights, [fact, marker])) < 2:
        return _ABSENT
    denied, record = (DisputeSide(*row[:-1]) for row in rows if row is not None)
    check_touching(context, command.rights, denied.garden_id, _ABSENT)
    if resolved is not None or marker not in open_denials(context.db, fact):
        return Refused("conflict_already_resolved", "conflict already resolved")
    losers: list[tuple[str, str]] = [(row[0], row[-1]) for row in rows if row is not None]
    if command.new_value is not None:
        check_instruction(command.new_value, command.rights)
        return _settle(command, context, None, (denied, record), losers)
    if command.winning_fact_id is None:
        return _MISSING
    if command.winning_fact_id not in (fact, marker):
        return _NOT_IN_CONFLICT
    winner, loser = (denied, record) if command.winning_fact_id == fact else (record, denied)
    losers = [each for each in losers if each[0] == loser.id]
    return _settle(command, context, winner, (loser,), losers)


def _asked(command: ResolveConflict) -> tuple[str, tuple[str, ...]]:
    """The query for the conflict to settle: the one the caller saw, else the table's row."""
    if command.fact_id is None:
        return _CONFLICT, (command.conflict_id,)
    return _SHOWN, (command.fact_id,)


def _sides(
    key: Key, fact: str, context: Context, rights: Authorization | None
) -> tuple[DisputeSide, DisputeSide] | None:
    """The two sides that the caller sees (``open_values``): the conflict's value against one
    claimed later, each by its newest fact, both valid now, and together at some time. None if a
    value is no longer claimed."""
    value = query_one(context.db, _VALUE_OF, (fact,))
    claimants = [DisputeSide(*row) for row in query(context.db, _CLAIMANTS, (*key, context.now_us))]
    shown = readable(context, rights, [side.id for side in claimants])
    claimants = [side for side in claimants if side.id in shown]
    holders = [side for side in claimants if side.value == value]
    rivals = [side for side in claimants if side.value != value]
    if not holders or not rivals:
        return None
    last = max(side.hlc for side in holders)
    later = {side.value for side in rivals if side.hlc > last}
    rivals = [side for side in rivals if side.value in later] or rivals
    unexpired = (
        [side for side in sides if side.valid_until_us > context.now_us]
        for sides in (holders, rivals)
    )
    return first_overlap(*unexpired) or (rivals[0], holders[0])


def first_overlap(
    holders: Sequence[DisputeSide], rivals: Sequence[DisputeSide]
) -> tuple[DisputeSide, DisputeSide] | None:
    """The first of ``holders`` that overlaps a rival, after the first rival that it overlaps."""
    facing = have_rivals(_validity(holders, 0), _validity(rivals, 1))
    if not facing.any():
        return None
    holder = holders[int(facing.argmax())]
    return next(rival for rival in rivals if holder.overlaps(rival)), holder


def _validity(sides: Sequence[DisputeSide], value: int) -> Validity:
    starts = np.array([side.valid_from_us for side in sides], dtype=np.int64)
    ends = np.array([side.valid_until_us for side in sides], dtype=np.int64)
    return Validity(starts, ends, np.full(len(sides), value, dtype=np.int32))


def _settle(
    command: ResolveConflict,
    context: Context,
    winner: DisputeSide | None,
    losing: tuple[DisputeSide, ...],
    losers: list[tuple[str, str]],
) -> Decision:
    """Keep the winner (None: the new value) and set aside ``losers`` (id, source)."""
    key = losing[0].key
    for _, source in losers:
        check_ending(context, command.rights, source, key[3], _ABSENT)
    partition = fact_partition(key[2], key[3])
    drafts: list[Draft] = []
    # The note names both sides, and a new value may reveal them: neither is classified lower.
    level = max(_level(side, context) for side in (*losing, *([winner] if winner else [])))
    if winner is None:
        assert command.new_value is not None
        value = command.new_value
        context.undecided.touched.add(key)
        stated = context.draft(_plain_fact(key, value, command.source, level), partition)
        drafts.append(stated)
        winner_id = id_text(stated.event_id)
    else:
        winner_id = winner.id
        value = Value(winner.value_type, winner.value_v, winner.interpret_as)  # pyright: ignore[reportArgumentType]
    note = context.draft(
        _plain_fact(
            (f"stigmem:resolution:{command.conflict_id}", *key[1:]),
            as_content(value),  # the note records a decision and instructs no model
            command.source,
            level,
        ),
        partition,
    )
    resolution = ConflictResolved(
        conflict_id=command.conflict_id,
        winner_id=winner_id,
        loser_ids=[fact for fact, _ in losers],
        resolution_fact_id=id_text(note.event_id),
        note=command.note,
    )
    drafts += [note, context.draft(resolution, partition, note.event_id)]
    detail = {"resolution_fact_id": id_text(note.event_id), "conflict_status": "resolved"}
    return Decision(drafts, fact_id=winner_id, detail=detail)


def _losers(
    command: ResolveConflict, losing: tuple[DisputeSide, ...], context: Context
) -> list[tuple[str, str]]:
    """(id, source) of every live fact of the losing values that the caller sees."""
    found = [
        (str(fact), str(source))
        for side in losing
        for fact, source in query(context.db, _VALUE_GROUP, (*side.key, *side.value))
    ]
    shown = readable(context, command.rights, [fact for fact, _ in found])
    return [each for each in found if each[0] in shown]


def _level(side: DisputeSide, context: Context) -> int:
    return (present_attributes(context.db, side.id) or PLAIN).classification


def _plain_fact(key: Key, value: Value, source: str, level: int) -> FactAsserted:
    """A fact classified at least as high as the text it repeats."""
    entity, relation, scope, garden_id = key
    fact = FactAsserted(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,  # pyright: ignore[reportArgumentType]
        garden_id=garden_id,
        attributes=FactAttributes(classification=level) if level > PLAIN.classification else None,
    )
    return with_cid(fact)
