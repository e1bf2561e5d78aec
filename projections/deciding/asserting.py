"""Stating a fact: a new one, the equal one that stands already, or a retraction."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from eventlog.event import fact_partition
from eventlog.identifiers import id_text
from eventlog.kinds import FactAsserted, FactAttributes
from projections.attribute_rules import CONFIDENTIAL, misplaced
from projections.attributes import attributes_at, decoded, encoded
from projections.contradictions import key_hash, value_hash
from projections.database import query, query_one
from projections.deciding.context import Context, Decision
from projections.deciding.gardens import write_refusal
from projections.deciding.readable import readable, sees_all
from projections.deciding.retracting import retract_by_record
from projections.derivations import closes_cycle
from projections.instructions import instruction_refusal
from projections.intents import AssertFact, Refused
from projections.moment import LIVE

_SAME = f"""
SELECT id, cid, valid_from, valid_until, interpret_as, derived_from, value_type, value_v,
    coalesce((SELECT attributes FROM fact_attributes
              WHERE position = facts.from_position AND fact_id = facts.id), '')
FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND source=?
  AND to_position={LIVE} AND base_confidence>0
ORDER BY hlc DESC LIMIT ?
"""

MISPLACED = Refused(
    "classification_misplaced",
    "facts of classification 2 or 3 belong in the scopes local and team, or in a garden",
    "attributes",
)

_encode_parents = msgspec.json.Encoder().encode


def assert_fact(intent: AssertFact, context: Context) -> Decision | Refused:
    """A new fact, the equal live one that already says so, or a retraction."""
    refusal = instruction_refusal(intent.value, intent.permissions)
    if refusal is not None:
        return refusal
    garden = intent.garden_id
    if garden is not None:
        refusal = write_refusal(context.db, garden, intent.scope, intent.member)
        if refusal is not None:
            return refusal
    if misplaced(intent.attributes, intent.scope, garden):
        return MISPLACED
    if intent.derived_from:
        context.flush()
        parents = [parent.hash for parent in intent.derived_from]
        child = intent.cid.removeprefix("sha256:")
        if closes_cycle(
            context.db, child, parents, garden, partial(readable, context, intent.rights)
        ):
            return Refused(
                "provenance_cycle_detected",
                "the fact would be derived from itself",
                "derived_from",
            )
    if intent.confidence == 0.0:
        return retract_by_record(stated_payload(intent), context, intent.rights)
    content = _content(intent)
    key = (intent.entity, intent.relation, intent.scope, garden)
    rival: tuple[bytes, bytes, str] | None = None
    if key in context.undecided.retracted:
        context.flush()
    if key in context.undecided.touched or context.mirror.has_key(*key):
        same = _newest_of_source(intent, context)
        value = intent.value
        rival = (key_hash(*key), value_hash(value.type, value.v), intent.relation)
        if same is not None and tuple(same[1:-1]) == content and not intent.anew:
            intent, repeats = _repetition(intent, str(same[0]), str(same[-1]), context)
            if repeats:
                return Decision([], fact_id=same[0], created=False, rival=rival)
    draft = context.draft(stated_payload(intent), fact_partition(intent.scope, garden))
    fact = id_text(draft.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.newest[*key, intent.source] = (fact, *content, encoded(intent.attributes))
    return Decision([draft], fact_id=fact, rival=rival)


def stated_payload(intent: AssertFact) -> FactAsserted:
    """The event of stating it."""
    return FactAsserted(
        entity=intent.entity,
        relation=intent.relation,
        value=intent.value,
        source=intent.source,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        confidence=intent.confidence,
        cid=intent.cid,
        valid_from=intent.valid_from,
        valid_until=intent.valid_until,
        derived_from=list(intent.derived_from),
        write_mode=intent.write_mode,  # pyright: ignore[reportArgumentType]
        garden_id=intent.garden_id,
        attestation=intent.attestation,
        attributes=intent.attributes,
    )


def _repetition(
    intent: AssertFact, same: str, stated: str, context: Context
) -> tuple[AssertFact, bool]:
    """Whether stating a fact anew changes nothing beside the equal one that stands; else the
    intent, classified no lower than that: saying a thing again does not declassify it.

    Attributes that are left unsaid are no change.
    """
    given = intent.attributes
    if given is None or encoded(given) == stated:
        return intent, True
    newest = attributes_at(context.db, same, LIVE) or decoded(stated)
    if newest.classification <= given.classification:
        return intent, False
    raised = msgspec.structs.replace(given, classification=newest.classification)
    return msgspec.structs.replace(intent, attributes=raised), False


def _content(intent: AssertFact) -> tuple[Any, ...]:
    """What must be equal for a write to be a repetition, attributes apart (DESIGN section 8)."""
    parents = list(intent.derived_from)
    return (
        intent.cid,
        intent.valid_from,
        intent.valid_until,
        intent.value.interpret_as,
        _encode_parents(parents).decode() if parents else "[]",
        intent.value.type,
        intent.value.v,
    )


def _newest_of_source(intent: AssertFact, context: Context) -> tuple[Any, ...] | None:
    """The newest live fact of the source that the asker may read: what they may not is not
    there, and nobody learns of it by stating it again."""
    known = (intent.entity, intent.relation, intent.scope, intent.garden_id, intent.source)
    rights = intent.rights
    pending = context.undecided.newest.get(known)
    if pending is not None and _may_know(intent, decoded(str(pending[-1]))):
        return pending
    if pending is not None:
        context.flush()
    newest = query_one(context.db, _SAME, (*known, 1))
    if newest is None or (newest[0] in context.mirror.slot_of and sees_all(context, rights)):
        return newest
    if newest[0] in readable(context, rights, [newest[0]]):
        return newest
    rows = query(context.db, _SAME, (*known, -1))
    shown = readable(context, rights, [row[0] for row in rows])
    return next((row for row in rows if row[0] in shown), None)


def _may_know(intent: AssertFact, stated: FactAttributes) -> bool:
    """Whether the asker may read what was drafted a moment ago at their key."""
    rights, level = intent.rights, stated.classification
    if rights is None:
        return True
    own = rights.every_garden or rights.principal == intent.source
    return level <= rights.ceiling and (level < CONFIDENTIAL or own)
