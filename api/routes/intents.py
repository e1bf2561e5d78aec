"""Intents over HTTP: an envelope becomes facts about the intent, and is read back from them.

The goal, the sender and the recipients are facts (and edges) of their own, so that recall and the
graph find them; the envelope itself is one more, and is what GET answers with.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

import msgspec
from aiohttp import web

from api.bodies import answer, parse_body, parse_json
from api.call import Call, ignored
from api.commands.asserting import assertion_of
from api.commands.naming import entity_named, stored_uri
from api.errors import plain, refused
from api.schemas.facts import AssertRequest, MomentQuery
from api.schemas.intents import Constraint, IntentRequest
from projections.intents import Refused
from projections.moment import Moment, format_instant
from projections.normalization import normalize_ref
from projections.selection import live
from projections.view import View

ENVELOPE = "intent:envelope"
RECIPIENT = "rel:intent-to"
"""``rel:*`` may hold several values, so that several recipients are no contradiction."""
RELATIONS = frozenset({ENVELOPE, RECIPIENT, "intent:goal", "intent:from"})


async def create_intent(call: Call) -> web.Response:
    """State an intent: all of its facts or none."""
    data = await call.raw()
    request = parse_body(IntentRequest, data)
    sent = cast("dict[str, Any]", parse_json(data))
    name = entity_named(call, request.id or f"intent:{uuid4()}", call.view().position)
    before = call.view()
    if await call.in_pool(lambda: _found(call, before, name, call.moment(before))) is not None:
        raise plain("intent_exists")
    envelope = _envelope(request, sent, name)
    assertions = [assertion_of(call, each) for each in _facts(request, name, envelope)]
    written = await call.submit(
        [each.intent for each in assertions], idempotency=call.idempotency(data), atomic=True
    )
    ids: list[str] = []
    for outcome in written.outcomes:
        if isinstance(outcome, Refused):
            raise refused(outcome)
        ids.append(str(outcome.fact_id))
    view = call.view()
    moment = call.moment(view)
    record = await call.in_pool(lambda: _found(call, view, name, moment))
    if record is None:  # the sanitizer holds it back: who wrote it is told all the same
        record = _record(envelope, format_instant(moment.instant_us), ids)
    warnings = ignored(request)
    return answer(record | ({"warnings": warnings} if warnings else {}), 201)


async def get_intent(call: Call) -> web.Response:
    """An intent, as far as the caller may read it."""
    query = call.query(MomentQuery)
    call.session()
    body = await call.in_pool(lambda: _read(call, query))
    call.note_facts([body])
    return answer(body)


def _read(call: Call, query: MomentQuery) -> dict[str, Any]:
    view = call.view()
    moment = call.moment(view, query)
    name = entity_named(call, call.segment("intent_id"), moment.position)
    record = _found(call, view, name, moment)
    if record is None:
        raise plain("intent_not_found")
    return record


def _found(call: Call, view: View, name: str, moment: Moment) -> dict[str, Any] | None:
    """The newest envelope under this name that the caller may read."""
    number = view.entities.number(name)
    if number is None:
        return None
    slots = live(view, call.authorization, moment, view.entity_slots(number), include_expired=True)
    records = [
        record
        for record in call.records(view, slots, moment)
        if record["relation"] in RELATIONS and not record["sanitizer_redacted"]
    ]
    for record in reversed(records):
        if record["relation"] == ENVELOPE:
            envelope = _decoded(record["value"]["v"])
            if envelope is not None:
                own = [each["id"] for each in records if each["source"] == record["source"]]
                return _record(envelope, record["timestamp"], own)
    return None


def _decoded(text: object) -> dict[str, Any] | None:
    """The envelope, unless somebody wrote something else under its relation."""
    try:
        found = msgspec.json.decode(str(text), type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    return found if set(_FIELDS) <= found.keys() else None


_FIELDS = ("id", "from", "to", "goal", "scope", "expires_at", "constraint", "preference",
           "deference", "escalation", "handoff")  # fmt: skip


def _record(envelope: dict[str, Any], created_at: str, fact_ids: list[str]) -> dict[str, Any]:
    told = {name: envelope[name] for name in _FIELDS}
    ordered = {name: told.pop(name) for name in ("id", "from", "to", "goal", "scope")}
    return {**ordered, "created_at": created_at, **told, "fact_ids": fact_ids}


def _envelope(request: IntentRequest, sent: dict[str, Any], name: str) -> dict[str, Any]:
    """What GET answers with; values of limits stay as they were sent."""
    dumped = request.model_dump(include=set(IntentRequest.model_fields), by_alias=True)
    return {
        **{field: dumped[field] for field in _FIELDS},
        "id": name,
        "from": stored_uri(request.from_),
        "to": [stored_uri(each) for each in request.to],
        "constraint": [
            _constraint(each, given["limit"].get("v"))
            for each, given in zip(request.constraint, sent.get("constraint", ()), strict=True)
        ],
    }


def _constraint(given: Constraint, v: object) -> dict[str, Any]:
    limit = {"type": given.limit.type, "v": v, "interpret_as": given.limit.interpret_as}
    return {"kind": given.kind, "limit": limit, "unit": given.unit}


def _facts(request: IntentRequest, name: str, envelope: dict[str, Any]) -> list[AssertRequest]:
    values: list[tuple[str, dict[str, Any]]] = [
        ("intent:goal", {"type": "text", "v": request.goal}),
        ("intent:from", _ref(envelope["from"])),
        *((RECIPIENT, _ref(each)) for each in dict.fromkeys(envelope["to"])),
        (ENVELOPE, {"type": "text", "v": msgspec.json.encode(envelope).decode()}),
    ]
    return [
        AssertRequest.model_validate(
            {
                "entity": name,
                "relation": relation,
                "value": value,
                "source": request.from_,
                "scope": request.scope,
                "valid_until": request.expires_at,
            }
        )
        for relation, value in values
    ]


def _ref(name: str) -> dict[str, str]:
    """An edge where the name is a URI, else the name itself."""
    try:
        return {"type": "ref", "v": normalize_ref(name)}
    except ValueError:
        return {"type": "string", "v": name}
