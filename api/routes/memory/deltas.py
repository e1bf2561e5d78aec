"""Deltas and the facts they wrote, over HTTP."""

from typing import Any

import msgspec
from msgspec import Struct

from engramlog.api.answers.memory_records import (
    DeltaOutcome,
    DeltaRecord,
    applied_record,
    rejected_record,
)
from engramlog.api.commands.episodes import application_of, memory_facts, promotion_of
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.memory import (
    DeltasQuery,
    DeltasRequest,
    MemoryFactsQuery,
    TriplesRequest,
)
from engramlog.projections.episodes import reading_deltas
from engramlog.projections.episodes.episode import FactPattern, MemoryFact
from engramlog.projections.episodes.reading_deltas import DeltaFilter
from engramlog.projections.writing.commands import Done
from engramlog.projections.writing.memory_commands import ApplyDeltas

routes = Routes("episodes")


class DeltasAnswer(Struct):
    """The outcome of each delta."""

    results: list[DeltaOutcome]
    position: int


class DeltaPage(Struct):
    """Deltas, newest first."""

    deltas: list[DeltaRecord]
    cursor: str | None


class MemoryFactPage(Struct):
    """Facts that deltas wrote, oldest first."""

    facts: list[MemoryFact]
    cursor: str | None


_KIND = "deltas"
_FACTS_KIND = "memory-facts"


@routes.add("POST /v1/deltas", permission="write", errors=(404,))
async def apply_deltas(call: Call, request: DeltasRequest) -> DeltasAnswer:
    """Apply deltas together. A conflict answers 409 ``fact_conflict`` with its reason."""
    return await _applied(call, application_of(call, request))


@routes.add("POST /v1/consolidation/triples", permission="write", errors=(404,))
async def promote_triples(call: Call, request: TriplesRequest) -> DeltasAnswer:
    """Promote triples of a knowledge graph to facts; once each, and one way."""
    return await _applied(call, promotion_of(call, request))


async def _applied(call: Call, command: ApplyDeltas) -> DeltasAnswer:
    call.charge(len(command.proposals))
    done: Done = await call.do(command)
    conflict: dict[str, Any] | None = done.detail.get("conflict")
    if conflict is not None:
        raise coded(
            "fact_conflict",
            conflict["message"],
            reason=conflict["reason"],
            delta=conflict["index"],
            delta_id=conflict["delta_id"],
        )
    position = done.position or call.node.reader.image.position
    results = msgspec.convert(done.detail["results"], list[DeltaOutcome])
    return DeltasAnswer(results, position)


@routes.add("GET /v1/deltas", permission="read")
def list_deltas(call: Call, query: DeltasQuery) -> DeltaPage:
    """Deltas, newest first: applied ones, or rejected ones (``status=rejected``)."""
    wanted = msgspec.convert(query, DeltaFilter, from_attributes=True)
    walk = call.walk(_KIND, query, call.moment(call.view(), query))
    moment = walk.moment()
    place = (int(walk.place[0]), int(walk.place[1])) if walk.place else None
    rejected = query.status == "rejected"
    rows = call.node.reader.ask(
        reading_deltas.rejections_at if rejected else reading_deltas.deltas_at,
        call.authorization,
        moment.position,
        wanted,
        limit=query.limit + 1,
        before=place,
        shown=call.shown(call.view()),
    )
    shown, text = call.page(
        walk, rows, query.limit, lambda row: (row["position"], row.get("number", 0))
    )
    record = rejected_record if rejected else applied_record
    return DeltaPage([record(row) for row in shown], text)


@routes.add("GET /v1/deltas/facts", permission="read", headers=("Stigmem-Session",))
def list_facts(call: Call, query: MemoryFactsQuery) -> MemoryFactPage:
    """A user's current facts that deltas wrote, with their lineage."""
    view = call.view()
    walk = call.walk(_FACTS_KIND, query, call.moment(view, query))
    pattern = msgspec.convert(query, FactPattern, from_attributes=True)
    found = memory_facts(
        call,
        view,
        call.authorization,
        walk.moment(),
        pattern,
        scope=query.scope,
        after=int(walk.place[0]) if walk.place else 0,
        limit=query.limit + 1,
    )
    shown, cursor = call.page(walk, found, query.limit, lambda each: (each[0],))
    facts = [fact for _, fact in shown]
    call.note_read(frozenset(fact.scope for fact in facts))
    return MemoryFactPage(facts, cursor)
