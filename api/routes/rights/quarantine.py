"""Quarantine over HTTP: pending facts and their review (wire 2.2)."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.wire_facts import Volatile, volatile_of
from engramlog.api.commands.garden_access import entered_garden, known_garden
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.rights import (
    PromoteRequest,
    QuarantineQuery,
    QuarantineReviewRequest,
    RejectRequest,
    ReviewQuery,
)
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.declared.garden_directory import QuarantineReview, reviews_of
from engramlog.projections.tables.facts.fact_rows import FactRow
from engramlog.projections.writing.commands import Done, ReviewQuarantined

routes = Routes("gardens")

_STATUS = Meta(extra_json_schema={"enum": ["pending", "promoted", "rejected", None]})


class QuarantineRecord(Struct):
    """A fact of a quarantine garden, and its review, if any."""

    fact_id: str
    entity: str
    relation: str
    source: str
    quarantine_status: Annotated[str | None, _STATUS]
    quarantine_garden_id: str | None
    quarantine_reason: str | None
    quarantine_acted_by: str | None
    quarantine_acted_at: str | None
    source_trust: float | None
    received_from: str | None
    timestamp: str


class QuarantinePage(Warned):
    """``total`` counts every match."""

    items: list[QuarantineRecord]
    total: int


class Rejected(Struct):
    """The fact has ended."""

    fact_id: str
    action: Literal["rejected"]
    acted_by: str
    acted_at: str
    position: int


class Admitted(Struct):
    """``admitted_fact_id``: the fact in the garden that took it."""

    fact_id: str
    action: Literal["promoted", "admitted"]
    target_garden_id: str | None
    acted_by: str
    acted_at: str
    admitted_fact_id: str
    position: int


_STATUS_NAMES = {"admitted": "promoted"}
"""Both names of one status."""


@routes.add("GET /v1/quarantine", permission="read", errors=(404,))
def list_quarantined(call: Call, query: QuarantineQuery) -> QuarantinePage:
    """Facts of the caller's quarantine gardens, newest first."""
    view, rights = call.view(), call.authorization
    moment = call.moment(view)
    if query.garden_id is not None:
        rights = rights.within(entered_garden(call, query.garden_id).id)
    held = np.flatnonzero(view.garden >= 0).astype(np.int32)
    held = held[view.in_quarantine(held) & (view.base[held] > 0.0)]
    slots = known(view, rights, moment, held)
    numbers = volatile_of(view, slots, moment, rights)
    wanted = _STATUS_NAMES.get(query.quarantine_status or "", query.quarantine_status)
    chosen = [
        (slot, now)
        for slot, now in zip(slots.tolist(), numbers, strict=True)
        if now.quarantine == wanted or (wanted is None and now.quarantine != "withdrawn")
    ]
    chosen.sort(key=lambda pair: int(view.from_position[pair[0]]), reverse=True)
    shown = chosen[query.offset : query.offset + query.limit]
    positions = view.from_position[np.array([slot for slot, _ in shown], dtype=np.int32)]
    rows = call.node.reader.every_row(positions.tolist())
    reviews = call.node.reader.ask(reviews_of, [row.id for row in rows])
    items = [
        _wire(row, now, reviews.get(row.id)) for row, (_, now) in zip(rows, shown, strict=True)
    ]
    return QuarantinePage(items, len(chosen))


def _wire(row: FactRow, now: Volatile, review: QuarantineReview | None) -> QuarantineRecord:
    return shaped(
        row,
        QuarantineRecord,
        fact_id=row.id,
        quarantine_status=now.quarantine,
        quarantine_garden_id=row.garden_id,
        quarantine_reason=None if review is None else review.reason,
        quarantine_acted_by=None if review is None else review.reviewed_by,
        quarantine_acted_at=None if review is None else format_instant(review.reviewed_at),
        source_trust=now.source_trust,
        timestamp=format_instant(row.recorded_at),
    )


@routes.add("POST /v1/gardens/{garden_id}/promote", permission="write")
async def promote(call: Call, request: PromoteRequest) -> Admitted:
    """Admit a pending fact of a quarantine garden."""
    return await _admit(call, request.fact_id, "promoted", request, _quarantine(call))


@routes.add("POST /v1/gardens/{garden_id}/reject", permission="write")
async def reject(call: Call, request: RejectRequest) -> Rejected:
    """Reject a pending fact of a quarantine garden."""
    return await _reject(call, request.fact_id, request.reason, _quarantine(call))


@routes.add("POST /v1/quarantine/{fact_id}/admit", permission="write", body_required=False)
async def admit_fact(call: Call, query: ReviewQuery, request: QuarantineReviewRequest) -> Admitted:
    """Admit a pending fact, in any quarantine."""
    return await _admit(call, call.segment("fact_id"), "admitted", request.over(query))


@routes.add("POST /v1/quarantine/{fact_id}/reject", permission="write", body_required=False)
async def reject_fact(call: Call, query: ReviewQuery, request: QuarantineReviewRequest) -> Rejected:
    """Reject a pending fact, in any quarantine."""
    return await _reject(call, call.segment("fact_id"), request.over(query).reason)


def _quarantine(call: Call) -> str:
    garden = known_garden(call, call.segment("garden_id"))
    if not garden.quarantine:
        raise plain("not_a_quarantine")
    return entered_garden(call, garden.id).id


def _target(call: Call, name: str | None) -> str | None:
    """The id of the garden to admit to. Raises ApiError 404 with the code for targets."""
    if not name:
        return None
    try:
        return entered_garden(call, name).id
    except ApiError as fault:
        if fault.status == 404:
            raise plain("target_garden_not_found") from fault
        raise


async def _admit(
    call: Call,
    fact_id: str,
    action: Literal["promoted", "admitted"],
    request: PromoteRequest | ReviewQuery,
    garden_id: str | None = None,
) -> Admitted:
    target = _target(call, request.target_garden_id)
    review = _review(call, fact_id, "admitted", request.reason, garden_id)
    done = await call.do(replace(review, target_garden_id=target))
    new_id: str = done.detail["admitted_fact_id"]
    by, acted_at, position = _act(done)
    return Admitted(fact_id, action, target, by, acted_at, new_id, position)


async def _reject(call: Call, fact_id: str, reason: str, garden_id: str | None = None) -> Rejected:
    done = await call.do(_review(call, fact_id, "rejected", reason, garden_id))
    return Rejected(fact_id, "rejected", *_act(done))


def _review(
    call: Call,
    fact_id: str,
    decision: Literal["admitted", "rejected"],
    reason: str,
    garden_id: str | None,
) -> ReviewQuarantined:
    return ReviewQuarantined(
        fact_id=fact_id,
        decision=decision,
        reason=reason,
        garden_id=garden_id,
        rights=call.authorization.alone().withholding(0),
    )


def _act(done: Done) -> tuple[str, str, int]:
    """Who reviewed the fact, when, and the position of the event."""
    event = done.events[-1]
    return event.header.actor, format_instant(event.header.recorded_at), event.position
