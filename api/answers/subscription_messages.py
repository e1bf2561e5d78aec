"""Messages to subscribers as JSON: present rights, facts, signatures."""

import hashlib
import hmac
import time
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.api.answers.sanitizer_modes import model_rights
from engramlog.api.http.auth import ANONYMOUS, caller_of_key
from engramlog.api.node.node import Node
from engramlog.api.settings import Settings
from engramlog.projections.arrays import I32
from engramlog.projections.audit.subscription_events import Notice, notices_of
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import ATTEMPTS_MAX, PAUSE_SECONDS, ErasedMeanwhile
from engramlog.projections.image.view import View
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.declared.subscriptions import SubscriptionRow

PAGE_EVENTS = 500


class SubscriptionEvent(Struct):
    """A change for a subscriber, and the state of its delivery."""

    id: str
    subscription_id: str
    event_type: str
    entity_uri: str
    fact_id: str | None
    payload: dict[str, Any]
    created_at: str
    delivered_at: str | None
    delivery_status: Literal["delivered", "pending"]
    delivery_attempts: int


def rights_of(
    node: Node, settings: Settings, subscription: SubscriptionRow
) -> Authorization | None:
    """The subscriber's present rights to read; None if their key is no longer valid."""
    now_us = node.clock.now_us()
    gardens = node.reader.gardens.of_member(subscription.subscriber)
    if subscription.key_id is None:
        if settings.auth_required:
            return None
        rights = msgspec.structs.replace(ANONYMOUS, gardens=gardens)
    else:
        row = node.reader.keys.get(subscription.key_id)
        if row is None or (row.expires_at_us is not None and row.expires_at_us <= now_us):
            return None
        rights = caller_of_key(row, gardens).authorization
    if not rights.may("read"):
        return None
    return model_rights(settings.sanitizer_mode, rights)


def is_still_due(
    node: Node,
    settings: Settings,
    subscription: SubscriptionRow,
    rights: Authorization,
    notice: Notice,
) -> bool:
    """Whether the subscriber has the same rights as when the notice was read, and may still read
    its fact. A page of notices may take long to go out."""
    if rights_of(node, settings, subscription) != rights:
        return False
    slots: I32 = np.array([notice.slot], dtype=np.int32)
    return bool(rights.mask(node.reader.pin(), slots)[0])


def notices_after(
    node: Node,
    subscription: SubscriptionRow,
    rights: Authorization,
    after: int,
    events_max: int = PAGE_EVENTS,
) -> tuple[list[tuple[int, Notice, dict[str, Any]]], int]:
    """(position, notice, body) of each change after a position, and the last position read. Looks
    again if an erasure takes facts away: a stream that has begun cannot start over."""
    for _ in range(ATTEMPTS_MAX):
        try:
            return _look(node, subscription, rights, after, events_max)
        except ErasedMeanwhile:
            time.sleep(PAUSE_SECONDS)
    return _look(node, subscription, rights, after, events_max)


def _look(
    node: Node, subscription: SubscriptionRow, rights: Authorization, after: int, events_max: int
) -> tuple[list[tuple[int, Notice, dict[str, Any]]], int]:
    view = node.reader.pin()
    found: list[tuple[int, Notice, dict[str, Any]]] = []
    read_to = after
    for event in node.log.read(after, events_max):
        if event.position > view.position:
            break
        read_to = event.position
        for notice in notices_of(event, subscription, node.reader, view, rights):
            found.append((event.position, notice, _fact(node, view, notice)))
    return found, read_to


def _fact(node: Node, view: View, notice: Notice) -> dict[str, Any]:
    row = node.reader.row(view, notice.slot)
    if notice.fact_id is None:
        return {"entity": row.entity, "scope": row.scope, "garden_id": row.garden_id,
                **notice.detail}  # fmt: skip
    return {
        "id": row.id,
        "entity": row.entity,
        "relation": row.relation,
        "value_type": row.value_type,
        "value_v": row.value_v,
        "source": row.source,
        "timestamp": format_instant(row.recorded_at),
        "scope": row.scope,
        "confidence": row.base_confidence,
        "garden_id": row.garden_id,
        **notice.detail,
    }


def event_record(
    subscription: SubscriptionRow,
    notice: Notice,
    body: dict[str, Any],
    delivered_to: int,
    position: int,
) -> SubscriptionEvent:
    """A notice in the protocol's form (wire 5.6)."""
    delivered = position <= delivered_to
    return SubscriptionEvent(
        id=notice.id,
        subscription_id=subscription.id,
        event_type=notice.type,
        entity_uri=notice.entity,
        fact_id=notice.fact_id,
        payload=body,
        created_at=format_instant(notice.at_us),
        delivered_at=None,
        delivery_status="delivered" if delivered else "pending",
        delivery_attempts=int(delivered),
    )


def webhook_body(subscription: SubscriptionRow, notice: Notice, body: dict[str, Any]) -> bytes:
    """The body to post: the change, or for ``wake`` only that one exists."""
    message: dict[str, Any] = {
        "event_id": notice.id,
        "idempotency_key": notice.id,
        "subscription_id": subscription.id,
        "event_type": notice.type,
    }
    if subscription.on_change == "webhook":
        message["fact"] = body
    return msgspec.json.encode(message)


def secret_of(node: Node, subscription_id: str) -> str:
    """The subscription's signing secret, derived from the node's own and stored nowhere."""
    return hmac.new(
        node.cursor_key, f"webhook {subscription_id}".encode(), hashlib.sha256
    ).hexdigest()


def signature_of(secret: str, body: bytes) -> str:
    """``sha256=`` and the HMAC of a webhook's body, for its receiver to verify."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
