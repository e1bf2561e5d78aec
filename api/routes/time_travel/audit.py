"""The protocol's audit routes: the trail of facts, and the node's journal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from aiohttp import web
from msgspec import UNSET, Struct
from pydantic import Field

from engramlog.api.answers.fact_list import fitting
from engramlog.api.answers.fact_record import FactRecord, Warned
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call, warned
from engramlog.api.http.errors import coded, existing, plain
from engramlog.api.http.routing import Media, Routes
from engramlog.api.http.table_files import table_as
from engramlog.api.routes.time_travel.log import journal_of
from engramlog.api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.rights import TENANT
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Instant, Model, Position
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted
from engramlog.eventlog.log import read_at
from engramlog.projections.audit.journal import JournalEntry, JournalQuery
from engramlog.projections.audit.trail import (
    Step,
    Trail,
    TrailFilters,
    positions_of_actor,
    reasons_of,
    trail_of,
)
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant, parse_instant

routes = Routes("audit")

EXPORT_ROWS_MAX = 100_000


class TrailQuery(MomentQuery):
    """A filter by writer (``entity_uri``) and by fact. ``oidc_sub`` matches nothing."""

    entity_uri: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    oidc_sub: str | None = None
    source: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    fact_id: str | None = Field(default=None, min_length=1, max_length=ID_LENGTH_MAX)
    attested: bool | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class TrailExportQuery(TrailQuery):
    """The filters of a trail that is answered whole, as CSV."""

    limit: int = Field(default=10_000, ge=1, le=EXPORT_ROWS_MAX)


class TrailEntry(Struct):
    """Who did what to a fact. ``event_type``: ``fact_write``, ``fact_retract`` or
    ``fact_decay``; ``fact_value_v`` is the stored text."""

    id: str
    fact_id: str
    event_type: str
    entity_uri: str
    oidc_sub: str | None
    source: str
    attested_key_id: str | None
    ts: str
    attested_key_entity_uri: str | None
    attested_key_description: str | None
    fact_entity: str
    fact_relation: str
    fact_value_type: str
    fact_value_v: str
    fact_scope: str
    position: int
    reason: str | None


class TrailPage(Warned):
    """Entries, newest first; ``total`` counts all matches."""

    entries: list[TrailEntry]
    total: int
    cursor: str | None


class JournalRequest(Model, extra="allow"):
    """A filter of the log's events; ``cursor``: the ``seq`` after which to continue."""

    since: Instant | None = None
    until: Instant | None = None
    principal: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    event_type: str | None = Field(default=None, min_length=1, max_length=100)
    cursor: Position = 0
    limit: int = Field(default=200, ge=1, le=1000)


class JournalRecord(Struct):
    """An event of the log. ``seq`` is its position; ``detail`` its payload, unless the event is
    about facts."""

    seq: int
    id: str
    event_type: str
    entity_uri: str
    oidc_sub: str | None
    fact_id: str | None
    source: str | None
    attested_key_id: str | None
    ts: str
    tenant_id: str
    detail: dict[str, Any] | None


class JournalAnswer(Warned):
    """Oldest first. ``total`` counts this page; short pages may still have a next one."""

    entries: list[JournalRecord]
    total: int
    next_cursor: int | None


_KIND = "audit"
_TYPES = {
    "fact_asserted": "fact_write",
    "fact_retracted": "fact_retract",
    "decay_swept": "fact_decay",
}
"""Kinds of events with a name in the protocol."""
_KINDS = {name: kind for kind, name in _TYPES.items()}

_RENAMED = {"principal_entity_uri": "entity_uri", "principal_oidc_sub": "oidc_sub"}
EXPORTED = {
    name: _RENAMED.get(name, name)
    for name in (
        "id", "fact_id", "event_type", "principal_entity_uri", "principal_oidc_sub", "source",
        "attested_key_id", "attested_key_entity_uri", "attested_key_description", "fact_entity",
        "fact_relation", "fact_value_type", "fact_value_v", "fact_scope", "ts", "position",
        "reason",
    )
}  # fmt: skip
"""Columns of the CSV in the protocol's names and order, ours last, with their fields."""


@routes.add(
    "GET /v1/audit",
    permission="read",
    answers={200: TrailPage},
    long=True,
    headers=("Stigmem-Session",),
)
def list_trail(call: Call, query: TrailQuery) -> web.Response:
    """Who wrote and ended which facts, newest first."""
    page = _page(call, query)
    call.note_read(_scopes(page.entries))
    return answer(warned(page, query), headers={"X-Total-Count": str(page.total)})


@routes.add(
    "GET /v1/audit/export",
    permission="read",
    answers={200: Media("text/csv", "CSV")},
    long=True,
    headers=("Stigmem-Session",),
)
def export_trail(call: Call, query: TrailExportQuery) -> web.Response:
    """The trail as CSV. ``X-Next-Cursor`` appears if more rows follow."""
    page = _page(call, query)
    call.note_read(_scopes(page.entries))
    rows = [[getattr(entry, name) for name in EXPORTED.values()] for entry in page.entries]
    response = table_as("csv", "audit", list(EXPORTED), rows)
    response.headers["X-Total-Count"] = str(page.total)
    if page.cursor is not None:
        response.headers["X-Next-Cursor"] = page.cursor
    return response


@routes.add(
    "GET /v1/audit/facts/{fact_id}", permission="read", long=True, headers=("Stigmem-Session",)
)
def trail_of_fact(call: Call, query: MomentQuery) -> list[TrailEntry]:
    """Who wrote and ended one fact."""
    view, moment = call.at(query)
    slot = existing(view.slot_of(call.segment("fact_id")), "fact_not_found")
    trail = trail_of(view, call.authorization.alone(), moment, TrailFilters(slot=slot))
    if not len(trail):
        raise plain("fact_not_found")
    entries = _entries(call, view, moment, trail.behind(None, len(trail)))
    call.note_read(_scopes(entries))
    return entries


def _scopes(entries: Sequence[TrailEntry]) -> frozenset[str]:
    return frozenset(entry.fact_scope for entry in entries)


def _page(call: Call, query: TrailQuery) -> TrailPage:
    view = call.view()
    walk = call.walk(_KIND, query, call.moment(view, query))
    moment = walk.moment()
    trail = _trail(call, query, view, moment)
    mark = Step(int(walk.place[0]), int(walk.place[1])) if walk.place else None
    steps = trail.behind(mark, query.limit + 1)
    slots = view.from_position.searchsorted([step.asserted for step in steps]).astype(np.int32)
    limit = min(query.limit, fitting(view, slots))
    steps = steps[: limit + 1]
    shown, cursor = call.page(walk, steps, limit, lambda step: (step.position, step.asserted))
    return TrailPage(_entries(call, view, moment, shown), len(trail), cursor)


def _trail(call: Call, query: TrailQuery, view: View, moment: Moment) -> Trail:
    reader = call.node.reader
    slot = None
    if query.fact_id is not None:
        found = view.slot_of(query.fact_id)
        slot = -1 if found is None else found
    acted = None
    if query.entity_uri is not None:
        acted = reader.ask(positions_of_actor, stored_uri(query.entity_uri))
    if query.oidc_sub is not None or slot == -1:
        acted, slot = np.zeros(0, dtype=np.int64), None
    filters = TrailFilters(
        source=None if query.source is None else stored_uri(query.source),
        slot=slot,
        attested=query.attested,
    )
    return trail_of(view, call.authorization, moment, filters, acted)


def _entries(call: Call, view: View, moment: Moment, steps: Sequence[Step]) -> list[TrailEntry]:
    """Entries in the protocol's form; the sanitizer mode decides what text they show."""
    reader = call.node.reader
    asserted = [step.asserted for step in steps]
    slots = view.from_position.searchsorted(asserted).astype(np.int32)
    records = call.records(view, slots, moment)
    rows = reader.every_row(asserted)
    found = read_at(call.node.log, [step.position for step in steps])
    events = {event.position: event for event in found}
    reasons = reader.ask(reasons_of, [row.id for row in rows])
    made: list[TrailEntry] = []
    for step, record, row in zip(steps, records, rows, strict=True):
        event = events[step.position]
        wrote = step.position == row.from_position
        key = reader.agent_keys.get(record.attested_key_id or "")
        event_id = id_text(event.event_id)
        made.append(
            TrailEntry(
                id=event_id if wrote else f"{event_id}/{row.id}",
                fact_id=row.id,
                event_type=_TYPES.get(event.kind, event.kind),
                entity_uri=event.header.actor,
                oidc_sub=None,
                source=row.source,
                attested_key_id=record.attested_key_id,
                ts=format_instant(event.header.recorded_at),
                attested_key_entity_uri=None if key is None else key.entity_uri,
                attested_key_description=None if key is None else key.description,
                fact_entity=row.entity,
                fact_relation=row.relation,
                fact_value_type=row.value_type,
                fact_value_v=_shown_value(record, row.value_v),
                fact_scope=row.scope,
                position=step.position,
                reason=None if wrote else reasons.get(row.id),
            )
        )
    return made


@routes.add("GET /v1/admin/audit", permission="audit.read", errors=(400,), long=True)
def list_journal(call: Call, query: JournalRequest) -> JournalAnswer:
    """Every event of the log that the caller may see, oldest first."""
    view = call.view()
    log = call.node.log
    after = query.cursor
    if query.since is not None:
        after = max(after, log.position_at(parse_instant(query.since) - 1))
    if after > view.position:
        if query.cursor > view.position:
            raise coded("invalid_cursor", "the cursor is beyond the end of the log")
        after = view.position
    page = journal_of(call, view).page(
        JournalQuery(
            after=after,
            until=view.position,
            until_us=None if query.until is None else parse_instant(query.until),
            actor=None if query.principal is None else stored_uri(query.principal),
            kind=_KINDS.get(query.event_type or "", query.event_type),
            limit=query.limit,
        )
    )
    entries = [_journal_record(entry) for entry in page.entries]
    return JournalAnswer(entries, len(entries), page.reached)


def _journal_record(entry: JournalEntry) -> JournalRecord:
    event = entry.event
    fact = event.payload if isinstance(event.payload, FactAsserted) else None
    attestation = None if fact is None else fact.attestation
    return JournalRecord(
        seq=event.position,
        id=id_text(event.event_id),
        event_type=_TYPES.get(event.kind, event.kind),
        entity_uri=event.header.actor,
        oidc_sub=None,
        fact_id=entry.fact_ids[0] if entry.fact_ids else None,
        source=None if fact is None else fact.source,
        attested_key_id=None if attestation is None else attestation.key_id,
        ts=format_instant(event.header.recorded_at),
        tenant_id=TENANT,
        detail=entry.detail,
    )


def _shown_value(record: FactRecord, recorded: str) -> str:
    """The value as text, redacted by the sanitizer mode."""
    if record.sanitizer_redacted:
        return ""
    return recorded if record.sanitizer_stripped is UNSET else str(record.value.v)
