"""Subscriptions (wire 5.6)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.values import NAME_LENGTH_MAX

EventType = Literal[
    "fact_asserted", "fact_retracted", "contradiction_detected", "contradiction_resolved",
    "facts_decayed", "card_refreshed",
]  # fmt: skip


class SubscribeBody(BaseModel):
    """``target``: a scope or an entity. ``delivery_address``: a URL; for ``wake`` it may be
    anything, and the subscriber looks for events themselves. ``event_types``: all without it."""

    model_config = ConfigDict(extra="allow")

    target: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    on_change: Literal["webhook", "wake"]
    delivery_address: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=255)
    event_types: list[EventType] | None = Field(default=None, min_length=1)


class EventsQuery(BaseModel):
    """``cursor``: of the page before."""

    model_config = ConfigDict(extra="allow")

    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=500)


class StreamQuery(BaseModel):
    """``cursor``: an event's id line, as ``Last-Event-ID`` carries it."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = None


class SubscriptionRecord(BaseModel):
    """A subscription; ``signing_secret`` only in the answer that made it."""

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
    signing_secret: str | None = None


class Subscriptions(BaseModel):
    """A caller's subscriptions, oldest first."""

    subscriptions: list[SubscriptionRecord]
    total: int


class SubscriptionEvents(BaseModel):
    """What there was to tell, oldest first; the cursor resumes behind the page."""

    events: list[dict[str, Any]]
    total: int
    cursor: str | None
