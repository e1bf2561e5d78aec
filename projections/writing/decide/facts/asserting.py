"""Stating a fact: a new fact, the existing equal one, or a retraction."""

from functools import partial
from typing import Any

import msgspec

from engramlog.eventlog.event import fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, FactAttributes
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.memories.attribute_rules import CONFIDENTIAL, misplaced
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.conflicts.denials import open_denials
from engramlog.projections.tables.conflicts.identities import key_hash, value_hash
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.facts.attributes import decoded, encoded, present_attributes
from engramlog.projections.tables.facts.derivations import closes_cycle
from engramlog.projections.writing.commands import AssertFact, CommandRefused, Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing
from engramlog.projections.writing.decide.facts.retracting import state_zero
from engramlog.projections.writing.decide.readable import readable, sees_all
from engramlog.projections.writing.instruction_sources import check_instruction

_SAME = f"""
SELECT id, cid, valid_from, valid_until, interpret_as, derived_from, value_type, value_v,
    coalesce((SELECT attributes FROM fact_attributes
              WHERE position = facts.from_position AND fact_id = facts.id), '')
FROM fact_rows AS facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND source=?
  AND to_position={LIVE} AND base_confidence>0 AND received_from IS NULL
ORDER BY hlc DESC LIMIT ?
"""
"""What the source itself stated: a peer may state facts in its name, and ends them as it likes."""

MISPLACED = Refused(
    "classification_misplaced",
    "facts of classification 2 or 3 belong in the scopes local and team, or in a garden",
    "attributes",
)
_CYCLE = Refused(
    "provenance_cycle_detected", "the fact would be derived from itself", "derived_from"
)

_encode_parents = msgspec.json.Encoder().encode


def assert_fact(command: AssertFact, context: Context) -> Decision:
    """A new fact, the equal live one, or a retraction. Raises CommandRefused."""
    stating, rights = command.fact, command.rights
    check_instruction(stating.value, rights)
    garden = stating.garden_id
    check_writing(context, rights, garden, stating.scope)
    if misplaced(stating.attributes, stating.scope, garden):
        raise CommandRefused(MISPLACED)
    if stating.derived_from:
        context.flush()
        parents = [parent.hash for parent in stating.derived_from]
        child = stating.cid.removeprefix("sha256:")
        seen = partial(readable, context, rights)
        stated_here = partial(_stated_here, context, rights)
        if closes_cycle(context.db, child, parents, garden, seen, stated_here):
            raise CommandRefused(_CYCLE)
    if stating.confidence == 0.0:
        return state_zero(stating, command.zero, context, rights)
    content = _content(stating)
    key = (stating.entity, stating.relation, stating.scope, garden)
    rival: tuple[bytes, bytes, str] | None = None
    if key in context.undecided.retracted:
        context.flush()
    if key in context.undecided.touched or context.image.facts.has_key(*key):
        same = _newest_of_source(command, context)
        value = stating.value
        rival = (key_hash(*key), value_hash(value.type, value.v), stating.relation)
        again = same is not None and tuple(same[1:-1]) == content and not command.again
        if same is not None and again and not _denied(str(same[0]), command, context):
            stating, repeats = _repetition(stating, str(same[0]), str(same[-1]), context)
            if repeats:
                return Decision([], fact_id=same[0], created=False, rival=rival)
    draft = context.draft(stating, fact_partition(stating.scope, garden))
    fact = id_text(draft.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.newest[*key, stating.source] = (fact, *content, encoded(stating.attributes))
    return Decision([draft], fact_id=fact, rival=rival)


def _stated_here(context: Context, rights: Authorization | None, content: str) -> bool:
    """Whether a fact of this node that the caller may read has this content (a hash)."""
    view = View(context.image)
    slots = view.cid_slots(int(content[:16], 16))
    slots = slots[view.peer[slots] < 0]
    return bool(len(slots) and (rights is None or rights.mask(view, slots).any()))


def _repetition(
    stating: FactAsserted, same: str, stated: str, context: Context
) -> tuple[FactAsserted, bool]:
    """Whether a fact only repeats an equal live one. If not, the fact, classified at least as high
    as that one: restating does not declassify. Absent attributes are no change."""
    given = stating.attributes
    if given is None or encoded(given) == stated:
        return stating, True
    newest = present_attributes(context.db, same) or decoded(stated)
    if newest.classification <= given.classification:
        return stating, False
    raised = msgspec.structs.replace(given, classification=newest.classification)
    return msgspec.structs.replace(stating, attributes=raised), False


def _denied(fact: str, command: AssertFact, context: Context) -> bool:
    """Whether an open, readable denial names a fact: then restating the fact changes something."""
    markers = open_denials(context.db, fact)
    return bool(markers) and bool(readable(context, command.rights, markers))


def _content(stating: FactAsserted) -> tuple[Any, ...]:
    """The parts that must be equal in a repetition, attributes apart (DESIGN section 8)."""
    parents, value = stating.derived_from, stating.value
    return (
        stating.cid,
        stating.valid_from,
        stating.valid_until,
        value.interpret_as,
        _encode_parents(parents).decode() if parents else "[]",
        value.type,
        value.v,
    )


def _newest_of_source(command: AssertFact, context: Context) -> tuple[Any, ...] | None:
    """The newest live fact of the source that the caller may read. A hidden one does not count, so
    restating it reveals nothing."""
    fact, rights = command.fact, command.rights
    known = (fact.entity, fact.relation, fact.scope, fact.garden_id, fact.source)
    pending = context.undecided.newest.get(known)
    if pending is not None and _may_know(command, decoded(str(pending[-1]))):
        return pending
    if pending is not None:
        context.flush()
    newest = query_one(context.db, _SAME, (*known, 1))
    if newest is None or (newest[0] in context.image.facts.slot_of and sees_all(context, rights)):
        return newest
    if newest[0] in readable(context, rights, [newest[0]]):
        return newest
    rows = query(context.db, _SAME, (*known, -1))
    shown = readable(context, rights, [row[0] for row in rows])
    return next((row for row in rows if row[0] in shown), None)


def _may_know(command: AssertFact, stated: FactAttributes) -> bool:
    """Whether the caller may read this group's draft at the key."""
    rights, level = command.rights, stated.classification
    if rights is None:
        return True
    own = rights.every_garden or rights.principal == command.fact.source
    return level <= rights.ceiling and (level < CONFIDENTIAL or own)
