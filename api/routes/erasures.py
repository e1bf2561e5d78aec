"""Erasures and legal holds over HTTP: for admins alone."""

from __future__ import annotations

from aiohttp import web

from api.bodies import answer
from api.call import Call
from api.commands.asserting import stored_uri
from api.commands.erasing import erase, erasure_record, hold_record, known_erasure
from api.schemas.erasures import ErasureRequest, ErasuresQuery, HoldRequest
from projections.intents import SetLegalHold


async def begin_erasure(call: Call) -> web.Response:
    """Erase facts: gone from every answer at once, from every file when the status says so."""
    return answer(await erase(call, await call.body(ErasureRequest)), 202)


async def list_erasures(call: Call) -> web.Response:
    """Erasures, newest first."""
    query = call.query(ErasuresQuery)
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.erasures(before, query.limit + 1)
    shown = rows[: query.limit]
    more = shown[-1].position if len(rows) > len(shown) else None
    return answer({"erasures": [erasure_record(call, row) for row in shown], "before": more})


async def get_erasure(call: Call) -> web.Response:
    """Where an erasure stands, and its receipt once everything is clean."""
    return answer(erasure_record(call, known_erasure(call, call.segment("erasure_id"))))


async def list_holds(call: Call) -> web.Response:
    """What may not be erased."""
    return answer({"holds": [hold_record(hold) for hold in call.node.reader.legal_holds()]})


async def put_hold(call: Call) -> web.Response:
    """Hold a fact or an entity, or let it go; answers with all that is held."""
    request = await call.body(HoldRequest)
    if request.fact_id is not None:
        intent = SetLegalHold(target_kind="fact", target=request.fact_id, held=request.held)
    else:
        assert request.entity is not None
        entity = stored_uri(request.entity)
        intent = SetLegalHold(target_kind="entity", target=entity, held=request.held)
    await call.do(intent)
    return await list_holds(call)
