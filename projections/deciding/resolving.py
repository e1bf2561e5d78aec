"""Settling a contradiction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from eventlog.event import Draft, fact_partition
from eventlog.identifiers import id_text
from eventlog.kinds import ConflictResolved, FactAsserted, FactAttributes, Value
from projections.attribute_rules import PLAIN
from projections.attributes import attributes_at
from projections.cid import compute_cid
from projections.database import query, query_one
from projections.deciding.context import Context, Decision, Key
from projections.deciding.gardens import touch_refusal
from projections.deciding.readable import readable
from projections.instructions import as_content, instruction_refusal
from projections.intents import Refused, ResolveConflict
from projections.moment import LIVE

if TYPE_CHECKING:
    from projections.authorization import Authorization

_CONFLICT = """
SELECT entity, relation, scope, garden_id, fact_id, to_position, resolved_position
FROM conflicts WHERE conflict_id=?
"""
_SHOWN = f"""
SELECT entity, relation, scope, garden_id, id, {LIVE}, NULL FROM facts WHERE id=?
"""
_FACT_COLUMNS = """id, entity, relation, scope, garden_id, value_type, value_v, interpret_as,
    valid_from_us, valid_until_us"""
_FACT = f"""
SELECT {_FACT_COLUMNS} FROM facts
WHERE id=? AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0
"""
_CLAIMANTS = f"""
SELECT {_FACT_COLUMNS} FROM facts
WHERE entity=?1 AND relation=?2 AND scope=?3 AND garden_id IS ?4
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0
ORDER BY valid_until_us > ?5 DESC, hlc DESC
"""
_VALUE_OF = "SELECT value_type, value_v FROM facts WHERE id=?"
_VALUE_GROUP = f"""
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND value_type=? AND value_v=?
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0 ORDER BY from_position
"""
_ABSENT = Refused("conflict_not_found", "conflict not found")


class _Side(Struct, frozen=True):
    """One live fact of the key in dispute."""

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

    @property
    def key(self) -> Key:
        return self.entity, self.relation, self.scope, self.garden_id

    @property
    def value(self) -> tuple[str, str]:
        return self.value_type, self.value_v

    def overlaps(self, other: _Side) -> bool:
        return (
            self.valid_from_us < other.valid_until_us and other.valid_from_us < self.valid_until_us
        )


def resolve_conflict(intent: ResolveConflict, context: Context) -> Decision | Refused:
    """Settle a contradiction: the winner stands, facts of the losing value are set aside.

    The conflict's own value stands against the newest other value, as
    ``conflicts.conflict`` shows it; any live fact of either may be named the winner.
    """
    context.flush()
    row = query_one(context.db, *_asked(intent))
    if row is None or row[2] not in intent.scopes:
        return _ABSENT
    *found, fact, ended, resolved = row
    key: Key = (found[0], found[1], found[2], found[3])
    refusal = touch_refusal(context.db, key[3], intent.member, _ABSENT)
    if refusal is not None:
        return refusal
    sides = _sides(key, fact, context, intent.rights)
    if intent.settled or ended != LIVE or resolved is not None or sides is None:
        return Refused("conflict_already_resolved", "conflict already resolved")
    if intent.new_value is not None:
        refusal = instruction_refusal(intent.new_value, intent.permissions)
        return refusal or _settle(intent, context, None, sides)
    if intent.winning_fact_id is None:
        return Refused("resolution_missing", "give winning_fact_id or new_value", "winning_fact_id")
    named = query_one(context.db, _FACT, (intent.winning_fact_id,))
    winner = None if named is None else _Side(*named)
    of_key = winner is not None and winner.key == key
    shown = readable(context, intent.rights, [intent.winning_fact_id])
    of_key &= intent.winning_fact_id in shown
    if winner is None or not of_key or winner.value not in {side.value for side in sides}:
        return Refused(
            "not_in_conflict", "winning_fact_id must be one of the two facts", "winning_fact_id"
        )
    losers = tuple(side for side in sides if side.value != winner.value)
    return _settle(intent, context, winner, losers)


def _asked(intent: ResolveConflict) -> tuple[str, tuple[str, ...]]:
    """The statement and bindings that find what is to be settled: what the asker was shown,
    or else the table's row."""
    if intent.fact_id is None:
        return _CONFLICT, (intent.conflict_id,)
    return _SHOWN, (intent.fact_id,)


def _sides(
    key: Key, fact: str, context: Context, rights: Authorization | None
) -> tuple[_Side, _Side] | None:
    """The newest other fact and the newest of the conflict's value, as they are shown: valid
    now and at some time together. None where one value is no longer claimed."""
    value = query_one(context.db, _VALUE_OF, (fact,))
    claimants = [_Side(*row) for row in query(context.db, _CLAIMANTS, (*key, context.now_us))]
    shown = readable(context, rights, [side.id for side in claimants])
    claimants = [side for side in claimants if side.id in shown]
    mine = [side for side in claimants if side.value == value]
    rivals = [side for side in claimants if side.value != value]
    if not mine or not rivals:
        return None
    for own in mine:
        for rival in rivals:
            if own.overlaps(rival):
                return rival, own
    return rivals[0], mine[0]


def _settle(
    intent: ResolveConflict, context: Context, winner: _Side | None, losing: tuple[_Side, ...]
) -> Decision:
    key = losing[0].key
    partition = fact_partition(key[2], key[3])
    drafts: list[Draft] = []
    # The note tells of both sides, and so does a new value to whoever settles by one of them.
    level = max(_level(side, context) for side in (*losing, *([winner] if winner else [])))
    if winner is None:
        assert intent.new_value is not None
        value = intent.new_value
        context.undecided.touched.add(key)
        stated = context.draft(_plain_fact(key, value, intent.source, level), partition)
        drafts.append(stated)
        winner_id = id_text(stated.event_id)
    else:
        winner_id = winner.id
        value = Value(
            type=winner.value_type,  # pyright: ignore[reportArgumentType]  # as it was stored
            v=winner.value_v,
            interpret_as=winner.interpret_as,
        )
    losers = [fact for side in losing for fact in _value_group(side, context, intent.rights)]
    note = context.draft(
        _plain_fact(
            (f"stigmem:resolution:{intent.conflict_id}", *key[1:]),
            as_content(value),  # the note records what was decided and orders nobody
            intent.source,
            level,
        ),
        partition,
    )
    resolution = ConflictResolved(
        conflict_id=intent.conflict_id,
        winner_id=winner_id,
        loser_ids=losers,
        resolution_fact_id=id_text(note.event_id),
        note=intent.note,
    )
    drafts += [note, context.draft(resolution, partition, note.event_id)]
    detail = {"resolution_fact_id": id_text(note.event_id), "conflict_status": "resolved"}
    return Decision(drafts, fact_id=winner_id, detail=detail)


def _value_group(side: _Side, context: Context, rights: Authorization | None) -> list[str]:
    bindings = (*side.key, *side.value)
    found = [str(row[0]) for row in query(context.db, _VALUE_GROUP, bindings)]
    shown = readable(context, rights, found)
    return [fact for fact in found if fact in shown]


def _level(side: _Side, context: Context) -> int:
    """How high a side is classified."""
    return (attributes_at(context.db, side.id, LIVE) or PLAIN).classification


def _plain_fact(key: Key, value: Value, source: str, level: int) -> FactAsserted:
    """A fact that is classified no lower than what it repeats."""
    entity, relation, scope, garden_id = key
    cid = compute_cid(
        entity=entity, relation=relation, value=value, source=source, confidence=1.0, scope=scope
    )
    return FactAsserted(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,  # pyright: ignore[reportArgumentType]
        cid=cid,
        garden_id=garden_id,
        attributes=FactAttributes(classification=level) if level > PLAIN.classification else None,
    )
