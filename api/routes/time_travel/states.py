"""The state at a moment, the difference between two, SQL over the log, and forks of it."""

import numpy as np
from aiohttp import web
from msgspec import to_builtins

from engramlog.api.answers.fact_record import FactRecord, wire_moment
from engramlog.api.answers.time_travel import Column, Difference, ErasedFact, MomentState, SqlAnswer
from engramlog.api.commands.entity_names import entity_named, stored_uri
from engramlog.api.commands.fact_listing import listed
from engramlog.api.commands.fork import Fork, fork
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.http.table_files import records_as, table_as
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.time_travel import DiffQuery, ForkBody, SqlBody, StateQuery
from engramlog.projections.arrays import I32
from engramlog.projections.audit.changes import ChangeFilters, Changes, changes
from engramlog.projections.audit.sandbox import StatementRefused
from engramlog.projections.audit.statement_task import StatementLimits
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.erasures import erased_between

routes = Routes("time travel")

_KIND = "diff"
_UNBOUND = frozenset({"cursor", "limit", "format"})
CHANGES = ("added", "retracted", "decayed", "resolved")


@routes.add(
    "GET /v1/time-travel/state",
    permission="read",
    headers=("Stigmem-Session",),
    delegable=True,
)
def state(call: Call, query: StateQuery) -> MomentState:
    """The facts at a moment, with both sides of contradictions."""
    page, records, cursor, moment = listed(call, query)
    call.note_facts(records)
    return MomentState(records, page.total, cursor, wire_moment(moment))


@routes.add(
    "GET /v1/time-travel/diff",
    permission="read",
    answers={200: Difference},
    errors=(400, 501),
    long=True,
    headers=("Stigmem-Session",),
    delegable=True,
)
def diff(call: Call, query: DiffQuery) -> web.Response:
    """Facts added, retracted, decayed and resolved between two moments."""
    body = _diff(call, query)
    changed = [(change, record) for change in CHANGES for record in getattr(body, change) or ()]
    call.note_facts(record for _, record in changed)
    if query.format == "json":
        return answer(body)
    rows = [{"change": change, **to_builtins(record)} for change, record in changed]
    return records_as(query.format, "diff", "change", rows)


def _diff(call: Call, query: DiffQuery) -> Difference:
    view = call.view()
    before = call.moment(view, MomentQuery(as_of=query.from_))
    now = call.moment(view, MomentQuery(as_of=query.to))
    walk = call.walk(_KIND, query, now, unbound=_UNBOUND)
    after = walk.moment()
    if before.position > after.position:
        raise coded("moments_reversed", "from is after to")
    filters = ChangeFilters(
        entity=None if query.entity is None else entity_named(call, query.entity, after.position),
        relation=query.relation,
        scope=query.scope,
        source=None if query.source is None else stored_uri(query.source),
    )
    found = changes(view, call.narrowed(query.scope), before, after, filters)
    wanted = CHANGES if query.change is None else (query.change,)
    begin = int(walk.place[0]) if walk.place else -1
    body = Difference(
        from_=wire_moment(before),
        to=wire_moment(after),
        counts={name: len(getattr(found, name)) for name in CHANGES},
    )
    if call.authorization.may("admin"):
        reader = call.node.reader
        body.erased = [
            ErasedFact(fact, erasure, position)
            for fact, erasure, position in reader.ask(
                erased_between, before.position, after.position, query.limit
            )
        ]
    for name in wanted:
        slots: I32 = getattr(found, name)
        left = slots[slots > begin]
        shown = left[: query.limit]
        setattr(body, name, _records(call, view, shown, found, name, before, after))
        if query.change is not None and len(left) > len(shown):
            body.cursor = call.cursor_after(walk, (int(shown[-1]),))
    return body


def _records(
    call: Call,
    view: View,
    slots: I32,
    found: Changes,
    name: str,
    before: Moment,
    after: Moment,
) -> list[FactRecord]:
    """Records as of the last moment at which they were live."""
    moment = before if name == "retracted" else after
    records = call.records(view, slots, moment)
    if name == "decayed":
        places = np.searchsorted(found.decayed, slots)
        for record, place in zip(records, places.tolist(), strict=True):
            record.confidence_before = float(found.confidence_before[place])
            record.confidence_after = float(found.confidence_after[place])
    if name == "retracted":
        for record, slot in zip(records, slots.tolist(), strict=True):
            record.retracted_at_position = int(view.to_position[slot])
    return records


@routes.add(
    "POST /v1/time-travel/sql",
    permission="audit.read",
    answers={200: SqlAnswer},
    errors=(501, 503, 507),
)
async def sql(call: Call, body: SqlBody) -> web.Response:
    """One read-only SELECT over the events that the caller may read."""
    limits = StatementLimits(seconds=call.service.settings.audit_sql_timeout_s, rows=body.limit)
    view, moment = call.at(MomentQuery(as_of=body.as_of))
    try:
        table = await call.in_long_pool(
            lambda: call.service.desk.ask(
                view, call.authorization, moment, body.sql, limits, chains=call.sees_chains
            ),
            pool=call.service.statements,
        )
    except StatementRefused as fault:
        raise coded(fault.code, str(fault)) from fault
    if body.format != "json":
        return table_as(body.format, "answer", table.columns, table.rows)
    columns = [Column(*each) for each in zip(table.columns, table.types, strict=True)]
    return answer(SqlAnswer(columns, table.rows, table.truncated, wire_moment(moment)))


@routes.add(
    "POST /v1/time-travel/fork",
    permission="read",
    errors=(404, 409, 501, 503),
    headers=("Stigmem-Session",),
)
async def fork_moment(call: Call, body: ForkBody) -> Fork:
    """Recall in a fork with hypothetical facts; one at a time."""
    async with call.service.forking:
        return await call.in_long_pool(lambda: fork(call, body))
