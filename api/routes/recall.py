"""Recall over HTTP: POST as the protocol's clients speak it, GET as the seed wrote it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
from aiohttp import web

from api.bodies import answer
from api.call import Call, ignored
from api.commands.asking import Asked, ask
from api.commands.recalling import (
    body_of_query,
    explaining,
    hint_of,
    response_of,
    unexplained,
)
from api.commands.receipting import receipt_of
from api.errors import ApiError
from api.schemas.recall import LegacyQuery, RecallBody, RecallQuery
from api.screening import screen

SEED_MEDIA_TYPE = "application/vnd.stigmem.x11+json"
_SEED_CODES = frozenset({"invalid_token_budget", "recall_depth_exceeded", "invalid_weights"})


async def recall_by_post(call: Call) -> web.Response:
    """The facts that answer a question best within a token budget."""
    query = call.query(LegacyQuery)
    try:
        body = await call.body(RecallBody)
        return await _recall(call, body, ignored(query, body), legacy=query.legacy_format)
    except ApiError as fault:
        if SEED_MEDIA_TYPE in call.request.headers.get("Accept", ""):
            raise _as_seed(fault) from fault
        raise


async def recall_by_get(call: Call) -> web.Response:
    """The same with the seed's limits and its 400 codes."""
    query = call.query(RecallQuery)
    try:
        body = body_of_query(query)
        return await _recall(call, body, ignored(query), legacy=query.legacy_format)
    except ApiError as fault:
        raise _as_seed(fault) from fault


def _as_seed(fault: ApiError) -> ApiError:
    """400 with the seed's code, where a 422 entry carries one."""
    for item in fault.entries:
        code = item.get("ctx", {}).get("code")
        if code in _SEED_CODES:
            return ApiError(400, {"code": code, "message": item["msg"]})
    return fault


async def _recall(
    call: Call, body: RecallBody, warnings: list[str], *, legacy: bool
) -> web.Response:
    call.session()
    asked, extra = await call.in_pool(lambda: _answered(call, body))
    found = asked.found
    counted = body.track and body.as_of is None
    if counted:
        returned = (each.row.id for each in found.results if not each.from_card)
        call.service.tracker.note(returned, found.moment.instant_us)
    call.note_read(frozenset(each.row.scope for each in found.results))
    extra["recall_id"] = str(uuid4())
    extra["receipt_id"] = None
    if call.service.settings.recall_receipts and call.node.replica is None:
        receipt = receipt_of(call, body, asked, extra["recall_id"], counted=counted)
        call.service.tracker.keep(receipt)
        extra["receipt_id"] = receipt.receipt_id
    extra["warnings"] = warnings + unexplained(call, body)
    response = response_of(call, body, found, legacy=legacy, extra=extra)
    return answer(response, headers={"X-Total-Count": str(found.total_scored)})


def _answered(call: Call, body: RecallBody) -> tuple[Asked, dict[str, Any]]:
    settings = call.service.settings
    view = call.view()
    moment = call.moment(view, body, allowed=settings.time_travel_allow_recall_as_of)
    asked = ask(call, body, view, moment, explain=explaining(call, body))
    found, reader = asked.found, call.node.reader
    slots = np.asarray([each.slot for each in found.results], dtype=np.int32)
    extra: dict[str, Any] = {
        "hint": None,
        "chain_proof": None,
        "screen": screen(reader, view, slots, settings.sanitizer_mode, cleaned=True),
    }
    if not found.results:
        extra["hint"] = hint_of(view, asked.authorization, moment, asked.question.scopes)
    if call.request.headers.get("Stigmem-Verify", "").strip().lower() == "full":
        rights = call.caller.authorization  # the chain covers the record, not the serving
        extra["chain_proof"] = call.service.chains.proof(reader, view, rights, moment)
    return asked, extra
