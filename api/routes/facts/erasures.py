"""Erasures and legal holds over HTTP: for admins only."""

from msgspec import Struct

from engramlog.api.answers.erasure_records import ErasureBegun, ErasureRecord, HoldRecord
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import stored_uri
from engramlog.api.commands.erasures import erase, erasure_record, known_erasure
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.erasures import BeforeQuery, ErasureRequest, HoldRequest, HoldsQuery
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


@routes.add("POST /v1/erasures", permission="admin", status=202, errors=(404, 423))
async def begin_erasure(call: Call, body: ErasureRequest) -> ErasureBegun:
    """Erase facts: at once from every answer; from every file once the status says so."""
    return await erase(call, body)


@routes.add("GET /v1/erasures", permission="admin")
async def list_erasures(call: Call, query: BeforeQuery) -> ErasurePage:
    """Erasures, newest first."""
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(erasures_before, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return ErasurePage([erasure_record(call, row) for row in shown], more)


@routes.add("GET /v1/erasures/{erasure_id}", permission="admin")
async def get_erasure(call: Call) -> ErasureRecord:
    """The state of an erasure, with its receipt once every file is clean."""
    return erasure_record(call, known_erasure(call, call.segment("erasure_id")))


@routes.add("GET /v1/legal-holds", permission="admin")
async def list_holds(call: Call, query: HoldsQuery) -> HoldPage:
    """Legal holds in force, newest first."""
    return _holds(call, query)


def _holds(call: Call, query: HoldsQuery) -> HoldPage:
    before = LIVE if query.cursor is None else query.cursor
    rows = call.node.reader.ask(legal_holds, before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return HoldPage([shaped(hold, HoldRecord) for hold in shown], more)


@routes.add("PUT /v1/legal-holds", permission="admin", errors=(404,))
async def put_hold(call: Call, request: HoldRequest) -> HoldPage:
    """Set or release the legal hold of a fact or an entity, with the reason. Answers the newest
    holds."""
    held, reason = request.held, request.reason
    if request.fact_id is not None:
        command = LegalHoldSet("fact", request.fact_id, held, reason)
    else:
        assert request.entity is not None
        command = LegalHoldSet("entity", stored_uri(request.entity), held, reason)
    await call.do(command)
    return _holds(call, HoldsQuery())
