"""Ending and denying facts: by a record of confidence 0, by id, or by content (wire 5.2)."""

from collections.abc import Collection, Sequence
from typing import Any

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, FactDenied, FactRetracted, Value
from engramlog.projections.authorization import Authorization
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.conflicts.denials import is_denial
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.declared.policies import is_set_valued
from engramlog.projections.tables.facts.fact_retractions import RETRACTED_VALUE
from engramlog.projections.writing.commands import (
    CommandRefused,
    Refused,
    RetractFact,
    RetractMatching,
)
from engramlog.projections.writing.decide.authority import check_ending, covers_scope
from engramlog.projections.writing.decide.context import Context, Decision, Key
from engramlog.projections.writing.decide.readable import readable, sees_all

RETRACTION_TARGETS_MAX = 10_000

_TARGETS = f"""
SELECT id, source, value_type, value_v, set_aside={LIVE} FROM fact_rows
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ?
  AND to_position={LIVE} AND base_confidence>0
  AND (source=? OR ? OR (value_type=? AND value_v=?))
ORDER BY from_position LIMIT ?
"""
"""The live facts of a key that are of a source, or have a value (or any value)."""
_BY_ID = """
SELECT entity, relation, scope, garden_id, to_position, base_confidence, source FROM fact_rows
WHERE id=?
"""
_MATCHING = f"""
SELECT id FROM fact_rows
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND value_type=? AND value_v=?
  AND valid_from IS ? AND valid_until IS ? AND (? IS NULL OR source=?)
  AND to_position={LIVE} AND base_confidence>0 LIMIT 2
"""
_ABSENT = Refused("fact_not_found", "fact not found", "id")


def state_zero(
    record: FactAsserted, zero: str, context: Context, rights: Authorization | None
) -> Decision:
    """Decide a confidence-0 record: it ends its source's facts and denies those of others (wire
    5.2), among the facts that ``rights`` may read. Raises CommandRefused."""
    key = (record.entity, record.relation, record.scope, record.garden_id)
    if context.undecided.holds(key):
        context.flush()
    ended: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    if zero != "does nothing":
        several = is_set_valued(context.db, record.relation)
        most = RETRACTION_TARGETS_MAX + 1 if sees_all(context, rights) else -1
        value = record.value
        named = (record.source, _means_every_value(value), value.type, value.v)
        rows = query(context.db, _TARGETS, (*key, *named, most))
        shown = readable(context, rights, [row[0] for row in rows])
        rows = [row for row in rows if row[0] in shown]
        if len(rows) > RETRACTION_TARGETS_MAX:
            message = f"over {RETRACTION_TARGETS_MAX} live facts match; retract them by id"
            raise CommandRefused(Refused("too_many_targets", message, "confidence"))
        own = frozenset(row[0] for row in rows if row[1] == record.source)
        ended, denied = zero_targets(record.value, own, several, rows)
        if zero == "ends all":
            ended, denied = (*ended, *denied), ()
        standing = {row[0] for row in rows if row[4]}
        denied = tuple(fact for fact in denied if fact in standing)
    partition = fact_partition(record.scope, record.garden_id)
    marker = context.draft(record, partition)
    fact = id_text(marker.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.retracted |= {key, *ended}
    drafts = [marker, *zero_effects(fact, ended, denied, partition, marker.event_id, context)]
    return Decision(drafts, fact_id=fact, retracted=ended)


def zero_targets(
    value: Value, own: Collection[str], set_valued: bool, rows: list[Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of these live facts (id, source, type, v, …) of a key a confidence-0 record ends, and
    which it denies.

    It ends all facts of its source (``own``); on a set-valued relation only those of equal value.
    It denies others' facts of equal value. The value ``"retracted"`` means every value.
    """
    every = _means_every_value(value)
    equal = {row[0] for row in rows if every or (row[2], row[3]) == (value.type, value.v)}
    names = [str(row[0]) for row in rows]
    ended = tuple(name for name in names if name in own and (name in equal or not set_valued))
    return ended, tuple(name for name in names if name in equal and name not in own)


def _means_every_value(value: Value) -> bool:
    return value.type == "string" and value.v == RETRACTED_VALUE


def zero_effects(
    marker: str,
    ended: Sequence[str],
    denied: Sequence[str],
    partition: str,
    cause: bytes,
    context: Context,
) -> list[Draft]:
    """The events that a confidence-0 record causes."""
    drafts: list[Draft] = []
    if ended:
        retraction = FactRetracted(fact_ids=list(ended), reason="", marker_id=marker)
        drafts.append(context.draft(retraction, partition, cause))
    if denied:
        denial = FactDenied(fact_ids=list(denied), marker_id=marker)
        drafts.append(context.draft(denial, partition, cause))
    return drafts


def retract_fact(command: RetractFact, context: Context) -> Decision | Refused:
    """Retract one fact, or a denial by its record. Hidden and absent look the same."""
    if context.undecided.holds(command.fact_id):
        context.flush()
    row = query_one(context.db, _BY_ID, (command.fact_id,))
    if row is None or not covers_scope(command.rights, row[2]):
        return _ABSENT
    if command.fact_id not in readable(context, command.rights, [command.fact_id]):
        return _ABSENT
    check_ending(context, command.rights, row[6], row[3], _ABSENT)
    if row[4] != LIVE or (row[5] == 0.0 and not is_denial(context.db, command.fact_id)):
        return Refused("fact_already_retracted", "the fact no longer holds", "id")
    return _retraction(command.fact_id, row[:4], command.reason, context, command.marker_id)


def deny_facts(command: FactDenied, context: Context) -> Decision | Refused:
    """Record a denial from another log: of facts with the key of its record."""
    marker = query_one(context.db, _BY_ID, (command.marker_id,))
    denied = [query_one(context.db, _BY_ID, (fact,)) for fact in command.fact_ids]
    if marker is None or marker[5] > 0.0:
        return Refused("fact_not_found", "fact not found", "marker_id")
    if any(row is None or row[:4] != marker[:4] for row in denied):
        return Refused("fact_not_found", "fact not found", "fact_ids")
    return Decision([context.draft(command, fact_partition(marker[2], marker[3]))])


def retract_matching(command: RetractMatching, context: Context) -> Decision | Refused:
    """Retract the one live fact with this content."""
    key = (command.entity, command.relation, command.scope, command.garden_id)
    if context.undecided.holds(key):
        context.flush()
    value, source = command.value, command.source
    bindings = (*key, value.type, value.v, command.valid_from, command.valid_until, source, source)
    rows = query(context.db, _MATCHING, bindings)
    if not rows:
        return Refused("fact_not_found", "no live fact matches", "match")
    if len(rows) > 1:
        return Refused("ambiguous_match", "more than one live fact matches; name a source", "match")
    return _retraction(rows[0][0], key, command.reason, context)


def _retraction(
    fact: str, key: Key, reason: str, context: Context, marker: str | None = None
) -> Decision:
    context.undecided.retracted |= {fact, key}
    payload = FactRetracted(fact_ids=[fact], reason=reason, marker_id=marker)
    draft = context.draft(payload, fact_partition(key[2], key[3]))
    return Decision([draft], fact_id=fact, retracted=(fact,))
