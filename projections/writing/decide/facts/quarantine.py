"""Reviewing a quarantined fact.

An admitted fact is restated with the same content in its new place: that stream holds all of it,
and nothing of the quarantine. In both cases the quarantined fact ends; its record stays visible to
the quarantine's members.
"""

from typing import Any

import msgspec

from engramlog.eventlog.event import Draft, garden_partition
from engramlog.eventlog.kinds import FactRetracted, QuarantineReviewed
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.declared.garden_directory import MODERATING_ROLES, garden_state
from engramlog.projections.tables.facts.attributes import present_attributes
from engramlog.projections.tables.facts.fact_rows import FactRow, fetch
from engramlog.projections.writing.commands import (
    AssertFact,
    CommandRefused,
    Refused,
    ReviewQuarantined,
)
from engramlog.projections.writing.decide.authority import covers_scope
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_touching, role_of
from engramlog.projections.writing.decide.facts.asserting import assert_fact
from engramlog.projections.writing.decide.readable import readable

_FACT = "SELECT from_position, to_position, base_confidence FROM fact_rows WHERE id=?"
_ABSENT = Refused("quarantined_fact_not_found", "quarantined fact not found", "fact_id")
_MODERATOR_REQUIRED = Refused(
    "moderator_required", "quarantine:moderator or admin role required to promote/reject facts"
)
_TARGET_ABSENT = Refused("target_garden_not_found", "target garden not found", "target_garden_id")


def review_quarantined(command: ReviewQuarantined, context: Context) -> Decision | Refused:
    """Admit a pending fact to a garden (or outside all), or reject it."""
    found = query_one(context.db, _FACT, (command.fact_id,))
    row = None if found is None else fetch(context.db, [found[0]])[0]
    if found is None or row is None or not covers_scope(command.rights, row.scope):
        return _ABSENT
    if row.id not in readable(context, command.rights, [row.id]):
        return _ABSENT
    _check_moderator(row, command, context)
    if found[1] != LIVE or found[2] == 0.0:
        return Refused("fact_not_quarantine_pending", "fact_not_quarantine_pending")
    if command.decision == "rejected":
        return Decision(_closing(row, command, context, None), fact_id=row.id)
    return _admitted(row, command, context)


def _check_moderator(row: FactRow, command: ReviewQuarantined, context: Context) -> None:
    if row.garden_id is None or command.garden_id not in (None, row.garden_id):
        raise CommandRefused(_ABSENT)
    state = garden_state(context.db, row.garden_id)
    if state is None or not state[1]:
        raise CommandRefused(_ABSENT)
    role = role_of(context, command.rights, row.garden_id)
    if role not in MODERATING_ROLES:
        raise CommandRefused(_ABSENT if role is None else _MODERATOR_REQUIRED)


def _admitted(row: FactRow, command: ReviewQuarantined, context: Context) -> Decision:
    _check_target(command, context)
    attributes = present_attributes(context.db, row.id)
    restated = msgspec.structs.replace(
        row.stated(), garden_id=command.target_garden_id, attributes=attributes
    )
    stated = assert_fact(AssertFact(restated, rights=command.rights), context)
    drafts = [*stated.drafts, *_closing(row, command, context, stated.fact_id)]
    detail: dict[str, Any] = {"admitted_fact_id": stated.fact_id}
    return Decision(drafts, fact_id=row.id, detail=detail)


def _check_target(command: ReviewQuarantined, context: Context) -> None:
    if command.target_garden_id is None:
        return
    state = garden_state(context.db, command.target_garden_id)
    if state is None:
        raise CommandRefused(_TARGET_ABSENT)
    check_touching(context, command.rights, command.target_garden_id, _TARGET_ABSENT)
    if state[1]:
        message = "the target garden is a quarantine itself"
        raise CommandRefused(Refused("target_is_quarantine", message))


def _closing(
    row: FactRow, command: ReviewQuarantined, context: Context, admitted: str | None
) -> list[Draft]:
    assert row.garden_id is not None
    ending = FactRetracted(fact_ids=[row.id], reason=f"quarantine: {command.decision}")
    ended = context.draft(ending, garden_partition(row.garden_id))
    review = QuarantineReviewed(
        fact_id=row.id,
        garden_id=row.garden_id,
        decision=command.decision,
        reason=command.reason,
        target_garden_id=command.target_garden_id,
        admitted_fact_id=admitted,
    )
    return [ended, context.draft(review, cause=ended.event_id)]
