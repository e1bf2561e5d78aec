"""Subscriptions over HTTP: make, list, end; their events by page and as a stream."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import msgspec
from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.asserting import stored_uri
from api.cursors import Cursor, filters_digest
from api.delivery.addresses import address_fault
from api.delivery.deliverer import CIRCUIT_FAILURES
from api.delivery.telling import event_record, rights_of, secret_of, told_after
from api.errors import coded
from api.schemas.subscriptions import EventsQuery, StreamQuery, SubscribeBody
from projections.intents import Subscribe, Unsubscribe
from projections.moment import format_instant
from projections.normalization import SCOPES
from projections.notices import EVENT_TYPES
from projections.subscriptions import SubscriptionRow

_KIND = "subscription-events"
HEARTBEAT_SECONDS = 15.0
STREAM_WRITE_SECONDS = 30.0
"""A reader that takes longer for one part is let go; it resumes with its last id."""


async def create(call: Call) -> web.Response:
    """Subscribe to a scope or an entity."""
    body = await call.body(SubscribeBody)
    kind = "scope" if body.target in SCOPES else "entity"
    target = body.target if kind == "scope" else stored_uri(body.target)
    if kind == "scope":
        call.check_scope(target)
    pushed = body.on_change == "webhook" or body.delivery_address.startswith("http")
    private = call.service.settings.webhooks_allow_private
    fault = address_fault(body.delivery_address, private=private) if pushed else None
    if fault is not None:
        raise coded("delivery_address_refused", fault)
    types = EVENT_TYPES if body.event_types is None else body.event_types
    done = await call.do(
        Subscribe(
            subscription_id=str(uuid4()),
            subscriber=call.caller.principal,
            target=target,
            target_kind="scope" if kind == "scope" else "entity",
            on_change=body.on_change,
            delivery_address=body.delivery_address,
            event_types=tuple(dict.fromkeys(types)),
            key_id=call.caller.key_id,
            idempotency_key=body.idempotency_key,
            most=call.service.settings.subscriptions_max,
        )
    )
    row = _find(call, str(done.detail["id"]))
    shown = {**_record(call, row), "signing_secret": secret_of(call.node, row.id)}
    return answer(warned(shown, body), 201)


async def list_own(call: Call) -> web.Response:
    """The caller's subscriptions."""
    own = [row for row in call.node.reader.subscriptions() if _is_own(call, row)]
    return answer({"subscriptions": [_record(call, row) for row in own], "total": len(own)})


async def get_one(call: Call) -> web.Response:
    """One of the caller's subscriptions."""
    return answer(_record(call, _find(call, call.segment("subscription_id"))))


async def delete(call: Call) -> web.Response:
    """End a subscription."""
    row = _find(call, call.segment("subscription_id"))
    await call.do(Unsubscribe(subscription_id=row.id, subscriber=row.subscriber))
    return web.Response(status=204)


def _is_own(call: Call, row: SubscriptionRow) -> bool:
    return row.subscriber == call.caller.principal


def _find(call: Call, name: str) -> SubscriptionRow:
    for row in call.node.reader.subscriptions():
        if row.id == name and _is_own(call, row):
            return row
    raise coded("subscription_not_found", "no such subscription")


def _record(call: Call, row: SubscriptionRow) -> dict[str, Any]:
    told = call.service.deliverer.told(row)
    return {
        "id": row.id,
        "subscriber_identity": row.subscriber,
        "target": row.target,
        "target_kind": row.target_kind,
        "on_change": row.on_change,
        "delivery_address": row.delivery_address,
        "idempotency_key": row.idempotency_key,
        "created_at": format_instant(row.created_at),
        "last_delivered_at": format_instant(told.last_at_us) if told.last_at_us else None,
        "circuit_open": told.failures >= CIRCUIT_FAILURES,
        "consecutive_failures": told.failures,
        "event_types": sorted(row.event_types),
    }


# -- events -------------------------------------------------------------------------------


async def list_events(call: Call) -> web.Response:
    """What there was to tell since the subscription began, or behind a cursor."""
    query = call.query(EventsQuery)
    row = _find(call, call.segment("subscription_id"))
    return answer(await call.in_pool(lambda: _page(call, row, query)))


def _page(call: Call, row: SubscriptionRow, query: EventsQuery) -> dict[str, Any]:
    after = row.position if query.cursor is None else _opened(call, row, query.cursor)
    rights = rights_of(call.node, call.service.settings, row)
    told_to = call.service.deliverer.told(row).position
    events: list[dict[str, Any]] = []
    head = call.node.reader.mirror.position
    while rights is not None and len(events) < query.limit and after < head:
        found, read_to = told_after(call.node, row, rights, after)
        for position in dict.fromkeys(position for position, _, _ in found):
            of_event = [(n, b) for p, n, b in found if p == position]
            events += [event_record(row, n, b, told_to, position) for n, b in of_event]
            after = position
            if len(events) >= query.limit:
                break
        else:
            if read_to == after:
                break
            after = read_to
    more = bool(events) and after < head
    return {
        "events": events,
        "total": len(events),
        "cursor": _sealed(call, row, after) if more else None,
    }


def _sealed(call: Call, row: SubscriptionRow, position: int) -> str:
    """Where a walk stands; never expires, and tells nobody how long the log is."""
    digest = filters_digest({"subscription": row.id})
    return call.service.cursors.seal(Cursor(_KIND, digest, 0, 0, 0, (position,)))


def _opened(call: Call, row: SubscriptionRow, text: str) -> int:
    digest = filters_digest({"subscription": row.id})
    now_us = call.node.clock.now_us()
    cursor = call.service.cursors.open(text, kind=_KIND, digest=digest, now_us=now_us)
    return int(cursor.place[0])


async def stream(call: Call) -> web.StreamResponse:
    """Server-sent events from here on, or behind ``Last-Event-ID``; at least once."""
    query = call.query(StreamQuery)
    row = _find(call, call.segment("subscription_id"))
    last = call.request.headers.get("Last-Event-ID") or query.cursor
    after = call.node.reader.mirror.position if last is None else _opened(call, row, last)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    await response.prepare(call.request)
    await _write(response, b": subscribed\n\n")
    node, commits = call.node, call.service.commits
    while not commits.ending:
        grown = await commits.wait(
            lambda at=after: node.reader.mirror.position > at, HEARTBEAT_SECONDS
        )
        if commits.ending or not await asyncio.to_thread(_stands, call, row):
            break
        rights = rights_of(node, call.service.settings, row)
        if rights is None:
            break
        if not grown:
            await _write(response, b": still here\n\n")
            continue
        found, after = await call.in_pool(
            lambda at=after, may=rights: told_after(node, row, may, at)
        )
        for position, notice, body in found:
            told = event_record(row, notice, body, 0, position)
            data = msgspec.json.encode(told).decode()
            # A part's id resumes before the events of its position, so none is skipped.
            name = _sealed(call, row, position - 1)
            if position == found[-1][0] and notice is found[-1][1]:
                name = _sealed(call, row, position)
            await _write(response, f"id: {name}\nevent: {notice.type}\ndata: {data}\n\n".encode())
    await response.write_eof()
    return response


def _stands(call: Call, row: SubscriptionRow) -> bool:
    return any(each.id == row.id for each in call.node.reader.subscriptions())


async def _write(response: web.StreamResponse, data: bytes) -> None:
    await asyncio.wait_for(response.write(data), STREAM_WRITE_SECONDS)
