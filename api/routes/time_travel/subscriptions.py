"""Subscriptions over HTTP: make, list, end; their events in pages and as a stream."""

import asyncio
from time import monotonic, thread_time
from typing import Any, Literal
from uuid import uuid4

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType
from pydantic import Field

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.subscription_messages import (
    PAGE_EVENTS,
    SubscriptionEvent,
    event_record,
    is_still_due,
    notices_after,
    rights_of,
    secret_of,
)
from engramlog.api.client.webhook_addresses import address_fault
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.http.state.cursors import Cursor, filters_digest
from engramlog.api.node.tasks.webhook_delivery import CIRCUIT_FAILURES
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Instant, Model
from engramlog.eventlog.kinds import SubscriptionSet
from engramlog.projections.audit.subscription_events import EVENT_TYPES, EventType, Notice
from engramlog.projections.authorization import Authorization
from engramlog.projections.moment import format_instant, parse_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.subscriptions import (
    SubscriptionRow,
    is_pushed,
    subscription_named,
    subscriptions_of,
)
from engramlog.projections.writing.commands import Subscribe, Unsubscribe

routes = Routes("subscriptions")


class SubscribeBody(Model, extra="allow"):
    """``target``: a scope or an entity. ``delivery_address``: a URL; for ``wake`` any text, and the
    subscriber polls. ``event_types``: default all."""

    target: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    on_change: Literal["webhook", "wake"]
    delivery_address: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=255)
    event_types: list[EventType] | None = Field(default=None, min_length=1)


class SubscriptionEventsQuery(Model, extra="allow"):
    """``cursor``: of the previous page. ``since``: omit earlier events."""

    cursor: str | None = None
    since: Instant | None = None
    limit: int = Field(default=100, ge=1, le=500)


class StreamQuery(Model, extra="forbid"):
    """``cursor``: an event's id line, as in ``Last-Event-ID``."""

    cursor: str | None = None


class SubscriptionRecord(Warned):
    """A subscription; ``signing_secret`` only in the answer that creates it."""

    id: str
    subscriber_identity: str
    target: str
    target_kind: Literal["scope", "entity"]
    on_change: Literal["webhook", "wake"]
    delivery_address: str
    idempotency_key: str | None
    created_at: str
    last_delivered_at: str | None
    circuit_open: bool
    consecutive_failures: int
    event_types: list[str]
    signing_secret: str | UnsetType = UNSET


class Subscriptions(Struct):
    """A caller's subscriptions, oldest first."""

    subscriptions: list[SubscriptionRecord]
    total: int


class SubscriptionEvents(Struct):
    """Events, oldest first; the cursor resumes after the page."""

    events: list[SubscriptionEvent]
    total: int
    cursor: str | None


_KIND = "subscription-events"
HEARTBEAT_SECONDS = 15.0
STREAM_WRITE_SECONDS = 30.0
"""Longest time for a reader to take one part; a slower one is disconnected and can resume with its
last id."""


@routes.add("POST /v1/subscriptions", permission="read", status=201, errors=(409, 503, 507))
async def create(call: Call, body: SubscribeBody) -> SubscriptionRecord:
    """Subscribe to a scope or an entity."""
    kind = "scope" if body.target in SCOPES else "entity"
    target = body.target
    if kind == "scope":
        call.check_scope(target)
    else:
        target = entity_named(call, target, call.view().position)
    pushed = body.on_change == "webhook" or is_pushed(body.delivery_address)
    private = call.service.settings.webhooks_allow_private
    fault = address_fault(body.delivery_address, private=private) if pushed else None
    if fault is not None:
        raise coded("delivery_address_refused", fault)
    types = EVENT_TYPES if body.event_types is None else body.event_types
    subscription = SubscriptionSet(
        subscription_id=str(uuid4()),
        subscriber=call.caller.principal,
        target=target,
        target_kind="scope" if kind == "scope" else "entity",
        on_change=body.on_change,
        delivery_address=body.delivery_address,
        event_types=sorted(set(types)),
        key_id=call.caller.key_id,
        idempotency_key=body.idempotency_key,
    )
    most = call.service.settings.subscriptions_max
    done = await call.do(Subscribe(subscription=subscription, most=most))
    row = _find(call, str(done.detail["id"]))
    record = _record(call, row)
    record.signing_secret = secret_of(call.node, row.id)
    return record


@routes.add("GET /v1/subscriptions", permission="read")
async def list_own(call: Call) -> Subscriptions:
    """The caller's subscriptions."""
    own = call.node.reader.ask(subscriptions_of, call.caller.principal)
    return Subscriptions([_record(call, row) for row in own], len(own))


@routes.add("GET /v1/subscriptions/{subscription_id}", permission="read")
async def get_one(call: Call) -> SubscriptionRecord:
    """One of the caller's subscriptions."""
    return _record(call, _find(call, call.segment("subscription_id")))


@routes.add(
    "DELETE /v1/subscriptions/{subscription_id}",
    permission="read",
    status=204,
    errors=(503, 507),
)
async def delete(call: Call) -> None:
    """End a subscription."""
    row = _find(call, call.segment("subscription_id"))
    await call.do(Unsubscribe(subscription_id=row.id, subscriber=row.subscriber))


def _find(call: Call, name: str) -> SubscriptionRow:
    found = call.node.reader.ask(subscription_named, name, call.caller.principal)
    if found is None:
        raise coded("subscription_not_found", "no such subscription")
    return found


def _found_for_reading(call: Call) -> SubscriptionRow:
    """The subscription with the rights of the key that asks."""
    row = _find(call, call.segment("subscription_id"))
    return msgspec.structs.replace(row, key_id=call.caller.key_id)


def _record(call: Call, row: SubscriptionRow) -> SubscriptionRecord:
    delivered = call.service.deliverer.delivered(row)
    return shaped(
        row,
        SubscriptionRecord,
        subscriber_identity=row.subscriber,
        last_delivered_at=format_instant(delivered.last_at_us) if delivered.last_at_us else None,
        circuit_open=delivered.failures >= CIRCUIT_FAILURES,
        consecutive_failures=delivered.failures,
        event_types=sorted(row.event_types),
    )


@routes.add("GET /v1/subscriptions/{subscription_id}/events", permission="read", errors=(400,))
def list_events(call: Call, query: SubscriptionEventsQuery) -> SubscriptionEvents:
    """Events since the subscription began, since an instant, or after a cursor."""
    row = _found_for_reading(call)
    after = row.position if query.cursor is None else _opened(call, row, query.cursor)
    if query.since is not None:
        before = parse_instant(query.since) - 1
        after = max(after, call.node.log.position_at(before))
    rights = rights_of(call.node, call.service.settings, row)
    delivered_to = call.service.deliverer.delivered(row).position
    events: list[SubscriptionEvent] = []
    head = call.node.reader.image.position
    while rights is not None and len(events) < query.limit and after < head:
        found, read_to = notices_after(call.node, row, rights, after)
        for position in dict.fromkeys(position for position, _, _ in found):
            of_event = [(n, b) for p, n, b in found if p == position]
            events += [event_record(row, n, b, delivered_to, position) for n, b in of_event]
            after = position
            if len(events) >= query.limit:
                break
        else:
            if read_to == after:
                break
            after = read_to
    more = bool(events) and after < head
    cursor = _sealed(call, row, after) if more else None
    return SubscriptionEvents(events, len(events), cursor)


def _sealed(call: Call, row: SubscriptionRow, position: int) -> str:
    """The sealed state of a walk; never expires, and hides the log's length."""
    digest = filters_digest({"subscription": row.id})
    return call.service.cursors.seal(Cursor(_KIND, digest, 0, 0, 0, (position,)))


def _opened(call: Call, row: SubscriptionRow, text: str) -> int:
    digest = filters_digest({"subscription": row.id})
    now_us = call.node.clock.now_us()
    cursor = call.service.cursors.open(text, kind=_KIND, digest=digest, now_us=now_us)
    return int(cursor.place[0])


@routes.add(
    "GET /v1/subscriptions/{subscription_id}/stream",
    permission="read",
    answers={200: Media("text/event-stream", "server-sent events")},
    errors=(400,),
    headers=("Last-Event-ID",),
)
async def stream(call: Call, query: StreamQuery) -> web.StreamResponse:
    """Server-sent events from now on, or after ``Last-Event-ID``; at least once."""
    row = _found_for_reading(call)
    last = call.request.headers.get("Last-Event-ID") or query.cursor
    after = call.node.reader.image.position if last is None else _opened(call, row, last)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    await response.prepare(call.request)
    await _write(response, b": subscribed\n\n")
    with call.service.streams.opened(call.caller.principal):
        await _follow(call, row, after, response)
    await response.write_eof()
    return response


async def _follow(
    call: Call, row: SubscriptionRow, after: int, response: web.StreamResponse
) -> None:
    """Send the events after a position until the subscription, the key or the node ends."""
    node, commits, streams = call.node, call.service.commits, call.service.streams
    principal = call.caller.principal
    told = monotonic()
    while not commits.ending:
        due = told + HEARTBEAT_SECONDS - monotonic()
        grown = await commits.wait(lambda at=after: node.reader.image.position > at, due)
        page = streams.events_max(principal, PAGE_EVENTS)
        looked = await call.in_pool(lambda at=after, most=page: _look(call, row, at, most))
        if commits.ending or looked is None:
            break
        rights, found, after, busy_seconds = looked
        # Also between events that are not for this reader: they neither delay the comment nor show
        # by its absence.
        if monotonic() >= told + HEARTBEAT_SECONDS:
            await _write(response, b": still here\n\n")
            told = monotonic()
        for position, notice, body in found:
            if not is_still_due(node, call.service.settings, row, rights, notice):
                after = position - 1
                break
            delivered = event_record(row, notice, body, 0, position)
            data = msgspec.json.encode(delivered).decode()
            # A part's id resumes before the events of its position, so none is skipped.
            name = _sealed(call, row, position - 1)
            if position == found[-1][0] and notice is found[-1][1]:
                name = _sealed(call, row, position)
            await _write(response, f"id: {name}\nevent: {notice.type}\ndata: {data}\n\n".encode())
            told = monotonic()
        if grown:
            await asyncio.sleep(streams.rest_seconds(principal, busy_seconds))


def _look(
    call: Call, row: SubscriptionRow, after: int, events_max: int
) -> tuple[Authorization, list[tuple[int, Notice, dict[str, Any]]], int, float] | None:
    """The reader's present rights, ``notices_after`` a position, and the seconds that this took a
    thread; None if the subscription or the key has ended."""
    began = thread_time()
    if call.node.reader.ask(subscription_named, row.id, row.subscriber) is None:
        return None
    rights = rights_of(call.node, call.service.settings, row)
    if rights is None:
        return None
    found, read_to = notices_after(call.node, row, rights, after, events_max)
    return rights, found, read_to, thread_time() - began


async def _write(response: web.StreamResponse, data: bytes) -> None:
    await asyncio.wait_for(response.write(data), STREAM_WRITE_SECONDS)
