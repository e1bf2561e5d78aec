"""Setting attributes of a fact, live or ended."""

import msgspec

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.kinds import FactAttributes, FactAttributesSet
from engramlog.projections.memories.attribute_rules import (
    PLAIN,
    RELEVANCE_MAX,
    UNTRUSTED_TRUST_MAX,
    settled,
)
from engramlog.projections.tables.database import query_column, query_one
from engramlog.projections.tables.facts.attributes import present_attributes
from engramlog.projections.writing.commands import CommandRefused, Refused, SetAttributes
from engramlog.projections.writing.decide.authority import covers_scope
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_touching

_PLACE = "SELECT scope, garden_id FROM fact_rows WHERE id = ?"
_NOTES = """
SELECT note.id FROM resolved_facts AS settled
JOIN fact_rows AS note ON note.id = settled.note_id AND note.origin = settled.origin
WHERE settled.fact_id = ?
"""
_ABSENT = Refused("fact_not_found", "fact not found", "fact_id")


def set_attributes(command: SetAttributes, context: Context) -> Decision | Refused:
    """Record a fact's attributes from now on; records nothing without a change. A classification
    only rises, and trust above a peer's is not lent, except by an admin. A fact may be classified
    too high for its scope: it is then hidden there, on peers as well."""
    row = query_one(context.db, _PLACE, (command.fact_id,))
    rights = command.rights
    if row is None or not covers_scope(rights, row[0]):
        return _ABSENT
    scope, garden = str(row[0]), None if row[1] is None else str(row[1])
    check_touching(context, rights, garden, _ABSENT)
    standing = present_attributes(context.db, command.fact_id) or PLAIN
    wanted = msgspec.structs.replace(standing, **command.changes)
    if command.relevance_change:
        moved = wanted.relevance + command.relevance_change
        within = max(-RELEVANCE_MAX, min(RELEVANCE_MAX, moved))
        wanted = msgspec.structs.replace(wanted, relevance=within)
    if "tier" not in command.changes and wanted.emotion_score != standing.emotion_score:
        wanted = settled(wanted)
    if wanted == standing:
        return Decision([], fact_id=command.fact_id, created=False)
    if rights is not None and not rights.may("admin"):
        _check_change(standing, wanted)
    drafts = attributes_set(command.fact_id, wanted, fact_partition(scope, garden), context)
    return Decision(drafts, fact_id=command.fact_id)


def attributes_set(
    fact: str,
    attributes: FactAttributes,
    partition: str,
    context: Context,
    cause: bytes | None = None,
) -> list[Draft]:
    """Events that set a fact's attributes. Notes of settlements between it and others speak of it,
    and may repeat its text: they are classified at least as high."""
    payload = FactAttributesSet(fact_id=fact, attributes=attributes)
    drafts = [context.draft(payload, partition, cause)]
    level = attributes.classification
    notes = query_column(context.db, _NOTES, (fact,)) if level > PLAIN.classification else []
    for note in notes:
        standing = present_attributes(context.db, note) or PLAIN
        if standing.classification < level:
            raised = msgspec.structs.replace(standing, classification=level)
            payload = FactAttributesSet(fact_id=note, attributes=raised)
            drafts.append(context.draft(payload, partition, cause or drafts[0].event_id))
    return drafts


def _check_change(standing: FactAttributes, wanted: FactAttributes) -> None:
    if wanted.classification < standing.classification:
        message = "only an admin lowers a classification"
        raise CommandRefused(Refused("attribute_forbidden", message, "classification"))
    if wanted.trust > max(standing.trust, UNTRUSTED_TRUST_MAX):
        message = f"trust above {UNTRUSTED_TRUST_MAX} takes admin permission"
        raise CommandRefused(Refused("attribute_forbidden", message, "trust"))
