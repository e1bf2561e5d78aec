"""Erasures and legal holds over HTTP: for admins only."""

from aiohttp import web
from msgspec import Struct

from engramlog.api.answers.erasure_records import (
    ErasureBegun,
    ErasureRecord,
    HoldRecord,
    hold_record,
)
from engramlog.api.commands.assertions import stored_uri
from engramlog.api.commands.erasures import erase, erasure_record, known_erasure
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.erasures import ErasureRequest, ErasuresQuery, HoldRequest, HoldsQuery
from engramlog.eventlog.kinds import LegalHoldSet
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.facts.erasures import legal_holds
from engramlog.projections.tables.facts.erasures import list_erasures as erasures_before

routes = Routes("erasure")


class ErasurePage(Struct):
    """``before``: requests the next page; null on the last one."""

    erasures: list[ErasureRecord]
    before: int | None


class HoldPage(Struct):
    """Legal holds in force. ``cursor``: requests the next page; null on the last one."""

    holds: list[HoldRecord]
    cursor: int | None


@routes.add(
    "POST /v1/erasures",
    permission="admin",
    summary="Erase facts for good",
    body=ErasureRequest,
    answers={202: ErasureBegun},
    errors=(404, 423, 503, 507),
)
async def begin_erasure(call: Call) -> web.Response:
    """Erase facts: at once from every answer; from every file once the status says so."""
    return answer(await erase(call, await call.body(ErasureRequest)), 202)


@routes.add(
    "GET /v1/erasures",
    permission="admin",
    summary="Erasures, newest first",
    query=ErasuresQuery,
    answers={200: ErasurePage},
)
async def list_erasures(call: Call) -> web.Response:
    """Erasures, newest first."""
    query = call.query(ErasuresQuery)
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(erasures_before, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return answer(ErasurePage([erasure_record(call, row) for row in shown], more))


@routes.add(
    "GET /v1/erasures/{erasure_id}",
    permission="admin",
    summary="The state of an erasure, and its receipt",
    answers={200: ErasureRecord},
)
async def get_erasure(call: Call) -> web.Response:
    """The state of an erasure, with its receipt once every file is clean."""
    return answer(erasure_record(call, known_erasure(call, call.segment("erasure_id"))))


@routes.add(
    "GET /v1/legal-holds",
    permission="admin",
    summary="Legal holds, newest first",
    query=HoldsQuery,
    answers={200: HoldPage},
)
async def list_holds(call: Call) -> web.Response:
    """Legal holds in force, newest first."""
    return answer(_holds(call, call.query(HoldsQuery)))


def _holds(call: Call, query: HoldsQuery) -> HoldPage:
    before = LIVE if query.cursor is None else query.cursor
    rows = call.node.reader.ask(legal_holds, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return HoldPage([hold_record(hold) for hold in shown], more)


@routes.add(
    "PUT /v1/legal-holds",
    permission="admin",
    summary="Hold a fact or entity, or let it go",
    body=HoldRequest,
    answers={200: HoldPage},
    errors=(404, 503, 507),
)
async def put_hold(call: Call) -> web.Response:
    """Set or release the legal hold of a fact or an entity, with the reason; answers the newest
    holds."""
    request = await call.body(HoldRequest)
    held, reason = request.held, request.reason
    if request.fact_id is not None:
        command = LegalHoldSet("fact", request.fact_id, held, reason)
    else:
        assert request.entity is not None
        command = LegalHoldSet("entity", stored_uri(request.entity), held, reason)
    await call.do(command)
    return answer(_holds(call, HoldsQuery()))
