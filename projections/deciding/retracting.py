"""Ending facts: by a record of confidence 0, by id, or by content (wire 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventlog.event import fact_partition
from eventlog.identifiers import id_text
from eventlog.kinds import FactAsserted, FactRetracted, Value
from projections.database import query, query_one
from projections.deciding.context import Context, Decision, Key
from projections.deciding.gardens import touch_refusal
from projections.deciding.readable import readable, sees_all
from projections.intents import Refused, RetractFact, RetractMatching
from projections.moment import LIVE
from projections.policies import is_set_valued

if TYPE_CHECKING:
    from projections.authorization import Authorization

RETRACTED_VALUE = "retracted"
"""The string value with which clients retract a whole key."""
RETRACTION_TARGETS_MAX = 10_000

_TARGETS = f"""
SELECT id, source, value_type, value_v FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ?
  AND to_position={LIVE} AND base_confidence>0
ORDER BY from_position LIMIT ?
"""
_BY_ID = """
SELECT entity, relation, scope, garden_id, to_position, base_confidence FROM facts WHERE id=?
"""
_MATCHING = f"""
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND value_type=? AND value_v=?
  AND valid_from IS ? AND valid_until IS ? AND (? IS NULL OR source=?)
  AND to_position={LIVE} AND base_confidence>0 LIMIT 2
"""
_ABSENT = Refused("fact_not_found", "fact not found", "id")


def retract_by_record(
    record: FactAsserted, context: Context, rights: Authorization | None = None
) -> Decision | Refused:
    """A confidence-0 record and the retraction of what it denies (wire 5.2), as far as
    ``rights`` let it be read."""
    key = (record.entity, record.relation, record.scope, record.garden_id)
    if context.undecided.holds(key):
        context.flush()
    several = is_set_valued(context.db, record.relation)
    most = RETRACTION_TARGETS_MAX + 1 if sees_all(context, rights) else -1
    rows = query(context.db, _TARGETS, (*key, most))
    shown = readable(context, rights, [row[0] for row in rows])
    rows = [row for row in rows if row[0] in shown]
    if len(rows) > RETRACTION_TARGETS_MAX:
        return Refused(
            "too_many_targets",
            f"over {RETRACTION_TARGETS_MAX} live facts match; retract them by id",
            "confidence",
        )
    targets = retraction_targets(record.value, record.source, several, rows)
    partition = fact_partition(record.scope, record.garden_id)
    marker = context.draft(record, partition)
    fact = id_text(marker.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.retracted |= {key, *targets}
    drafts = [marker]
    if targets:
        retraction = FactRetracted(fact_ids=list(targets), reason="", marker_id=fact)
        drafts.append(context.draft(retraction, partition, marker.event_id))
    return Decision(drafts, fact_id=fact, retracted=targets)


def retraction_targets(
    value: Value, source: str, set_valued: bool, rows: list[Any]
) -> tuple[str, ...]:
    """Which live facts (id, source, type, v) of a key a confidence-0 write ends.

    By value ``"retracted"``, all of them; else those of equal value, and, unless the
    relation is set-valued (where other values are other facts), all of the same source.
    """
    if value.type == "string" and value.v == RETRACTED_VALUE:
        return tuple(row[0] for row in rows)
    return tuple(
        row[0]
        for row in rows
        if (row[2], row[3]) == (value.type, value.v) or (row[1] == source and not set_valued)
    )


def retract_fact(intent: RetractFact, context: Context) -> Decision | Refused:
    """Retract one fact; unreadable and absent look the same."""
    if context.undecided.holds(intent.fact_id):
        context.flush()
    row = query_one(context.db, _BY_ID, (intent.fact_id,))
    if row is None or row[2] not in intent.scopes:
        return _ABSENT
    refusal = touch_refusal(context.db, row[3], intent.member, _ABSENT)
    if refusal is not None:
        return refusal
    if row[4] != LIVE or row[5] == 0.0:
        return Refused("fact_already_retracted", "the fact no longer holds", "id")
    return _retraction(intent.fact_id, row[:4], intent.reason, context)


def retract_matching(intent: RetractMatching, context: Context) -> Decision | Refused:
    """Retract the one live fact with this content."""
    key = (intent.entity, intent.relation, intent.scope, intent.garden_id)
    if context.undecided.holds(key):
        context.flush()
    value, source = intent.value, intent.source
    bindings = (*key, value.type, value.v, intent.valid_from, intent.valid_until, source, source)
    rows = query(context.db, _MATCHING, bindings)
    if not rows:
        return Refused("fact_not_found", "no live fact matches", "match")
    if len(rows) > 1:
        return Refused("ambiguous_match", "more than one live fact matches; name a source", "match")
    return _retraction(rows[0][0], key, intent.reason, context)


def _retraction(fact: str, key: Key, reason: str, context: Context) -> Decision:
    context.undecided.retracted |= {fact, key}
    payload = FactRetracted(fact_ids=[fact], reason=reason)
    draft = context.draft(payload, fact_partition(key[2], key[3]))
    return Decision([draft], fact_id=fact, retracted=(fact,))
