"""Contradictions over HTTP: list them, and settle one."""

from collections.abc import Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord, Warned
from engramlog.api.commands.assertions import resolution_of
from engramlog.api.commands.attestations import check_unattested
from engramlog.api.http.call import Call
from engramlog.api.http.errors import plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import ConflictsQuery, ResolveRequest
from engramlog.eventlog.kinds import ConflictResolved
from engramlog.projections.contradictions.conflicts import Conflict, conflicts
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant, parse_instant
from engramlog.projections.writing.commands import Done

routes = Routes("conflicts")

_KIND = "conflicts"


class ConflictRecord(Struct):
    """``fact_a`` is the newer of the two."""

    conflict_id: str
    fact_a: FactRecord
    fact_b: FactRecord
    status: Literal["unresolved", "resolved"]
    resolved_by: str | None
    detected_at: str
    winning_fact_id: str | None
    resolution_note: str | None


class ConflictPage(Warned):
    """Contradictions, newest first."""

    conflicts: list[ConflictRecord]
    cursor: str | None
    has_more: bool


class Resolution(Warned):
    """The fact that records the resolution."""

    resolution_fact_id: str
    conflict_status: Literal["resolved"]


@routes.add("GET /v1/conflicts", permission="read", headers=("Stigmem-Session",), delegable=True)
def list_conflicts(call: Call, query: ConflictsQuery) -> ConflictPage:
    """Contradictions the caller may see, newest first."""
    view = call.view()
    walk = call.walk(_KIND, query, call.moment(view, query))
    valid_at_us = None if query.valid_at is None else parse_instant(query.valid_at)
    moment = walk.moment(valid_at_us)
    after = (int(walk.place[0]), str(walk.place[1])) if walk.place else None
    rights = call.authorization
    all_found = conflicts(call.node.reader, view, rights, moment, status=query.status, after=after)
    found = list(islice(all_found, query.limit + 1))
    shown, cursor = call.page(walk, found, query.limit, lambda each: each.row.place)
    records = _wire(call, view, moment, shown)
    call.note_facts(fact for each in records for fact in (each.fact_a, each.fact_b))
    return ConflictPage(records, cursor, has_more=cursor is not None)


def _wire(
    call: Call, view: View, moment: Moment, shown: Sequence[Conflict]
) -> list[ConflictRecord]:
    slots = [slot for each in shown for slot in each.newest_first(view)]
    records = call.records(view, slots, moment)
    return [
        ConflictRecord(
            conflict_id=each.row.conflict_id,
            fact_a=records[2 * n],
            fact_b=records[2 * n + 1],
            status=each.status,
            resolved_by=each.row.resolution_fact_id if each.status == "resolved" else None,
            detected_at=format_instant(each.row.detected_at),
            winning_fact_id=each.row.winner_id if each.status == "resolved" else None,
            resolution_note=each.row.note if each.status == "resolved" else None,
        )
        for n, each in enumerate(shown)
    ]


@routes.add(
    "POST /v1/conflicts/{conflict_id}/resolve",
    permission="write",
    headers=("Idempotency-Key",),
)
async def resolve_conflict(call: Call, request: ResolveRequest) -> Resolution:
    """Settle a contradiction: one of its two facts wins, or a new value does."""
    if request.new_value is not None:
        check_unattested(call)
    command = resolution_of(call, call.segment("conflict_id"), request)
    done = await call.do(command, idempotency=call.idempotency())
    return Resolution(_resolution_fact(done), "resolved")


def _resolution_fact(done: Done) -> str:
    """The fact that records the resolution, from the event that named it."""
    for event in done.events:
        if isinstance(event.payload, ConflictResolved):
            return event.payload.resolution_fact_id
    raise plain("conflict_not_found")
