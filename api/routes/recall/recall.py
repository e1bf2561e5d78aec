"""Recall over HTTP: POST for the protocol's clients, and GET."""

from aiohttp import web

from engramlog.api.answers.recall.recall_answer import RecalledLines, RecallResponse, ShortRecords
from engramlog.api.commands.recall.answering import answered
from engramlog.api.commands.recall.shapes import body_of_query
from engramlog.api.http.bodies import json_answer
from engramlog.api.http.call import Call, ignored, warnings_of
from engramlog.api.http.errors import ApiError
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.recall import RecallBody, RecallQuery, RecallShapeQuery, Shape
from engramlog.projections.recall.request import KNOWN_WEIGHTS

routes = Routes("recall")

SEED_MEDIA_TYPE = "application/vnd.stigmem.x11+json"
_SEED_CODES = frozenset({"invalid_token_budget", "recall_depth_exceeded", "invalid_weights"})


@routes.add(
    "POST /v1/recall",
    permission="read",
    body=RecallBody,
    answers={200: RecallResponse | ShortRecords | RecalledLines},
    errors=(409, 501),
    headers=("Stigmem-Session", "Stigmem-Verify", "Accept"),
    delegable=True,
)
async def recall_by_post(call: Call, query: RecallShapeQuery) -> web.Response:
    """The facts that answer a question best within a token budget."""
    try:
        body = await call.body(RecallBody)
        return await _recall(call, body, ignored(query, body), query.shape)
    except ApiError as fault:
        if SEED_MEDIA_TYPE in call.request.headers.get("Accept", ""):
            raise _as_seed(fault) from fault
        raise


@routes.add(
    "GET /v1/recall",
    permission="read",
    answers={200: RecallResponse | ShortRecords | RecalledLines},
    errors=(409,),
    headers=("Stigmem-Session", "Stigmem-Verify"),
    delegable=True,
)
async def recall_by_get(call: Call, query: RecallQuery) -> web.Response:
    """Recall for a short question; limits and codes differ (400 instead of 422)."""
    try:
        body = body_of_query(query)
        return await _recall(call, body, ignored(query), query.shape)
    except ApiError as fault:
        raise _as_seed(fault) from fault


def _as_seed(fault: ApiError) -> ApiError:
    """400 with the seed's code, if a 422 entry has one."""
    for item in fault.entries:
        code = item.get("ctx", {}).get("code")
        if code in _SEED_CODES:
            return ApiError(400, {"code": code, "message": item["msg"]})
    return fault


async def _recall(call: Call, body: RecallBody, warnings: list[str], shape: Shape) -> web.Response:
    unused = [key for key in body.weights or () if key not in KNOWN_WEIGHTS]
    warnings = warnings + warnings_of([(key, KNOWN_WEIGHTS) for key in unused])
    verify = call.request.headers.get("Stigmem-Verify", "").strip().lower() == "full"
    outcome = await call.service.recalls.answer(
        call.caller,
        body,
        warnings,
        shape=shape,
        verify=verify,
        check=call.check_rights,
        here=lambda: call.read(lambda: answered(call, body, warnings, shape=shape, verify=verify)),
    )
    call.service.tracker.note(outcome.used, outcome.at_us)
    if outcome.receipt is not None:
        call.service.tracker.keep(outcome.receipt)
    call.note_read(outcome.scopes)
    headers = {"X-Total-Count": str(outcome.total)}
    return json_answer(outcome.data, headers=headers)
