"""Settling a contradiction."""

from __future__ import annotations

from typing import Any

from eventlog.event import Draft, scope_partition
from eventlog.identifiers import id_text
from eventlog.kinds import ConflictResolved, FactAsserted, Value
from projections.cid import compute_cid
from projections.database import query, query_one
from projections.deciding.context import Context, Decision
from projections.intents import Refused, ResolveConflict
from projections.moment import LIVE

_CONFLICT = """
SELECT key_hash, entity, relation, scope, fact_id, opened_by, to_position, resolved_position
FROM conflicts WHERE conflict_id=?
"""
_NEWEST = "SELECT newest_id FROM claims WHERE key_hash=? ORDER BY newest_hlc DESC LIMIT 1"
_FACT = """
SELECT id, entity, relation, value_type, value_v, interpret_as, scope, to_position, set_aside
FROM facts WHERE id=?
"""
_VALUE_GROUP = f"""
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND value_type=? AND value_v=?
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0 ORDER BY from_position
"""


def resolve_conflict(intent: ResolveConflict, context: Context) -> Decision | Refused:
    """Settle a contradiction: the winner stands, facts of the losing value are set aside."""
    context.flush()
    row = query_one(context.db, _CONFLICT, (intent.conflict_id,))
    if row is None or row[3] not in intent.scopes:
        return Refused("conflict_not_found", "conflict not found")
    key, _, relation, scope, older, opened_by, ended, resolved = row
    if ended != LIVE or resolved is not None:
        return Refused("conflict_already_resolved", "conflict already resolved")
    newest = query_one(context.db, _NEWEST, (key,))
    sides = (str(newest[0] if newest else opened_by), str(older))
    if intent.new_value is None and intent.winning_fact_id not in sides:
        if intent.winning_fact_id is None:
            return Refused(
                "resolution_missing", "give winning_fact_id or new_value", "winning_fact_id"
            )
        return Refused(
            "not_in_conflict", "winning_fact_id must be one of the two facts", "winning_fact_id"
        )
    facts = {side: query_one(context.db, _FACT, (side,)) for side in sides}
    return _settle(intent, context, str(relation), str(scope), sides, facts)


def _settle(
    intent: ResolveConflict,
    context: Context,
    relation: str,
    scope: str,
    sides: tuple[str, str],
    facts: dict[str, Any],
) -> Decision:
    partition = scope_partition(scope)
    drafts: list[Draft] = []
    if intent.new_value is not None:
        value = intent.new_value
        context.undecided.touched.add((facts[sides[0]][1], relation, scope))
        winner = context.draft(
            _plain_fact(facts[sides[0]][1], relation, value, intent.source, scope), partition
        )
        drafts.append(winner)
        winner_id, losing = id_text(winner.event_id), sides
    else:
        winner_id = str(intent.winning_fact_id)
        row = facts[winner_id]
        value = Value(type=row[3], v=row[4], interpret_as=row[5])
        losing = tuple(side for side in sides if side != winner_id)
    losers = [fact for side in losing for fact in _value_group(facts[side], context)]
    note = context.draft(
        _plain_fact(
            f"stigmem:resolution:{intent.conflict_id}", relation, value, intent.source, scope
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


def _value_group(row: Any, context: Context) -> list[str]:
    _, entity, relation, value_type, value_v, _, scope, *_ = row
    bindings = (entity, relation, scope, value_type, value_v)
    return [found[0] for found in query(context.db, _VALUE_GROUP, bindings)]


def _plain_fact(entity: str, relation: str, value: Value, source: str, scope: str) -> FactAsserted:
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
    )
