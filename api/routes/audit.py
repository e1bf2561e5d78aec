"""The protocol's audit routes: the trail of facts, and the journal of the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.naming import stored_uri
from api.cursors import Cursor, filters_digest
from api.errors import coded, plain
from api.schemas.audit import JournalRequest, TrailEntry, TrailExportQuery, TrailQuery
from api.schemas.facts import MomentQuery
from api.tables import table_as
from eventlog.identifiers import id_text
from eventlog.kinds import FactAsserted
from projections.audit.journal import Journal, JournalEntry, JournalQuery
from projections.audit.trail import (
    Step,
    Trail,
    TrailFilters,
    events_at,
    positions_of_actor,
    reasons_of,
    trail_of,
)
from projections.moment import Moment, format_instant, parse_instant
from projections.view import View

_KIND = "audit"
_UNBOUND = frozenset({"cursor", "limit"})
_TYPES = {
    "fact_asserted": "fact_write",
    "fact_retracted": "fact_retract",
    "decay_swept": "fact_decay",
}
"""Kinds of our events that the protocol has names for."""
_KINDS = {name: kind for kind, name in _TYPES.items()}


async def list_trail(call: Call) -> web.Response:
    """Who wrote and ended which facts, newest first."""
    query = call.query(TrailQuery)
    call.session()
    entries, total, cursor = await call.in_pool(lambda: _page(call, query))
    call.note_read(_scopes(entries))
    body = {"entries": entries, "total": total, "cursor": cursor}
    return answer(warned(body, query), headers={"X-Total-Count": str(total)})


async def export_trail(call: Call) -> web.Response:
    """The trail as CSV. ``X-Next-Cursor`` is there where rows were left out."""
    query = call.query(TrailExportQuery)
    call.session()
    entries, total, cursor = await call.in_pool(lambda: _page(call, query))
    call.note_read(_scopes(entries))
    columns = list(TrailEntry.model_fields)
    rows = [[entry[name] for name in columns] for entry in entries]
    response = table_as("csv", "audit", columns, rows)
    response.headers["X-Total-Count"] = str(total)
    if cursor is not None:
        response.headers["X-Next-Cursor"] = cursor
    return response


async def trail_of_fact(call: Call) -> web.Response:
    """Who wrote and ended one fact."""
    query = call.query(MomentQuery)
    call.session()
    entries = await call.in_pool(lambda: _of_fact(call, query))
    call.note_read(_scopes(entries))
    return answer(entries)


def _scopes(entries: Sequence[dict[str, Any]]) -> frozenset[str]:
    return frozenset(str(entry["fact_scope"]) for entry in entries)


def _of_fact(call: Call, query: MomentQuery) -> list[dict[str, Any]]:
    view = call.view()
    moment = call.moment(view, query)
    slot = call.node.reader.slot_of(call.segment("fact_id"))
    if slot is None or slot >= view.count:
        raise plain("fact_not_found")
    trail = trail_of(view, call.authorization, moment, TrailFilters(slot=slot))
    if not len(trail):
        raise plain("fact_not_found")
    return _entries(call, view, moment, trail.behind(None, len(trail)))


def _page(call: Call, query: TrailQuery) -> tuple[list[dict[str, Any]], int, str | None]:
    view = call.view()
    walk = _walk(call, query, view)
    moment = walk.moment()
    trail = _trail(call, query, view, moment)
    mark = Step(int(walk.place[0]), int(walk.place[1])) if walk.place else None
    steps = trail.behind(mark, query.limit + 1)
    shown = steps[: query.limit]
    cursor = _next(call, walk, shown[-1]) if len(steps) > len(shown) else None
    return _entries(call, view, moment, shown), len(trail), cursor


def _trail(call: Call, query: TrailQuery, view: View, moment: Moment) -> Trail:
    reader = call.node.reader
    slot = None
    if query.fact_id is not None:
        found = reader.slot_of(query.fact_id)
        slot = -1 if found is None or found >= view.count else found
    acted = None
    if query.entity_uri is not None:
        with reader.pool.connection() as db:
            acted = positions_of_actor(db, stored_uri(query.entity_uri))
    if query.oidc_sub is not None or slot == -1:
        acted, slot = np.zeros(0, dtype=np.int64), None
    filters = TrailFilters(
        source=None if query.source is None else stored_uri(query.source),
        slot=slot,
        attested=query.attested,
    )
    return trail_of(view, call.authorization, moment, filters, acted)


def _walk(call: Call, query: TrailQuery, view: View) -> Cursor:
    digest = filters_digest(
        {name: getattr(query, name) for name in TrailQuery.model_fields if name not in _UNBOUND}
    )
    if query.cursor is not None:
        return call.service.cursors.open(
            query.cursor, kind=_KIND, digest=digest, now_us=call.node.clock.now_us()
        )
    now = call.moment(view, query)
    return Cursor(_KIND, digest, now.position, now.instant_us, 0)


def _next(call: Call, walk: Cursor, last: Step) -> str:
    cursors = call.service.cursors
    expires = cursors.expiry(call.node.clock.now_us())
    place = (last.position, last.asserted)
    return cursors.seal(Cursor(_KIND, walk.digest, walk.position, walk.instant_us, expires, place))


def _entries(call: Call, view: View, moment: Moment, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Entries as the protocol has them, with what the sanitizer mode lets be seen."""
    reader = call.node.reader
    asserted = [step.asserted for step in steps]
    slots = view.from_position.searchsorted(asserted).astype(np.int32)
    records = call.records(view, slots, moment)
    rows = reader.rows(asserted)
    events = events_at(call.node.log, [step.position for step in steps])
    with reader.pool.connection() as db:
        reasons = reasons_of(db, [row.id for row in rows])
    made: list[dict[str, Any]] = []
    for step, record, row in zip(steps, records, rows, strict=True):
        event = events[step.position]
        wrote = step.position == row.from_position
        key = reader.agent_keys.get(record["attested_key_id"] or "")
        event_id = id_text(event.event_id)
        made.append(
            {
                "id": event_id if wrote else f"{event_id}/{row.id}",
                "fact_id": row.id,
                "event_type": _TYPES.get(event.kind, event.kind),
                "entity_uri": event.header.actor,
                "oidc_sub": None,
                "source": row.source,
                "attested_key_id": record["attested_key_id"],
                "ts": format_instant(event.header.recorded_at),
                "attested_key_entity_uri": None if key is None else key.entity_uri,
                "attested_key_description": None if key is None else key.description,
                "fact_entity": row.entity,
                "fact_relation": row.relation,
                "fact_value_type": row.value_type,
                "fact_value_v": "" if record["sanitizer_redacted"] else row.value_v,
                "fact_scope": row.scope,
                "position": step.position,
                "reason": None if wrote else reasons.get(row.id),
            }
        )
    return made


async def list_journal(call: Call) -> web.Response:
    """Every event of the log that the caller may know of, oldest first."""
    query = call.query(JournalRequest)
    return answer(warned(await call.in_pool(lambda: _journal(call, query)), query))


def _journal(call: Call, query: JournalRequest) -> dict[str, Any]:
    view = call.view()
    log = call.node.log
    after = query.cursor
    if query.since is not None:
        after = max(after, log.position_at(parse_instant(query.since) - 1))
    if after > view.position:
        if query.cursor > view.position:
            raise coded("invalid_cursor", "the cursor lies beyond the end of the log")
        after = view.position
    journal = Journal(log, view, call.authorization, call.node.reader.slot_of)
    page = journal.page(
        JournalQuery(
            after=after,
            until=view.position,
            until_us=None if query.until is None else parse_instant(query.until),
            actor=None if query.principal is None else stored_uri(query.principal),
            kind=None if query.event_type is None else _kind_named(query.event_type),
            limit=query.limit,
        )
    )
    entries = [_journal_record(call, entry) for entry in page.entries]
    return {"entries": entries, "total": len(entries), "next_cursor": page.reached}


def _kind_named(event_type: str) -> str:
    return _KINDS.get(event_type, event_type)


def _journal_record(call: Call, entry: JournalEntry) -> dict[str, Any]:
    event = entry.event
    fact = event.payload if isinstance(event.payload, FactAsserted) else None
    attestation = None if fact is None else fact.attestation
    return {
        "seq": event.position,
        "id": id_text(event.event_id),
        "event_type": _TYPES.get(event.kind, event.kind),
        "entity_uri": event.header.actor,
        "oidc_sub": None,
        "fact_id": entry.fact_ids[0] if entry.fact_ids else None,
        "source": None if fact is None else fact.source,
        "attested_key_id": None if attestation is None else attestation.key_id,
        "ts": format_instant(event.header.recorded_at),
        "tenant_id": call.caller.tenant_id,
        "detail": entry.detail,
    }
