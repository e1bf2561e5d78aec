"""Requests and answers of the protocol's audit routes (wire 2.2 and 5.8)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from api.schemas.values import NAME_LENGTH_MAX, Instant

EXPORT_ROWS_MAX = 100_000


class TrailQuery(MomentQuery):
    """Whose entries (``entity_uri``: who wrote), of which facts. ``oidc_sub`` matches nobody."""

    entity_uri: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    oidc_sub: str | None = None
    source: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    fact_id: str | None = Field(default=None, min_length=1, max_length=ID_LENGTH_MAX)
    attested: bool | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class TrailExportQuery(TrailQuery):
    """The same as CSV, in one go."""

    limit: int = Field(default=10_000, ge=1, le=EXPORT_ROWS_MAX)


class TrailEntry(BaseModel):
    """Who did what to a fact. ``event_type``: ``fact_write``, ``fact_retract`` or
    ``fact_decay``; ``fact_value_v`` is the stored text."""

    id: str
    fact_id: str | None
    event_type: str
    entity_uri: str
    oidc_sub: str | None
    source: str | None
    attested_key_id: str | None
    ts: str
    attested_key_entity_uri: str | None
    attested_key_description: str | None
    fact_entity: str | None
    fact_relation: str | None
    fact_value_type: str | None
    fact_value_v: str | None
    fact_scope: str | None
    position: int
    reason: str | None


class TrailPage(BaseModel):
    """Entries, newest first; ``total`` counts all that match."""

    entries: list[TrailEntry]
    total: int
    cursor: str | None


class JournalRequest(BaseModel):
    """Which events of the log; ``cursor`` is the ``seq`` behind which to go on."""

    model_config = ConfigDict(extra="allow")

    since: Instant | None = None
    until: Instant | None = None
    principal: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    event_type: str | None = Field(default=None, min_length=1, max_length=100)
    cursor: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=1000)


class JournalRecord(BaseModel):
    """An event of the log. ``seq`` is its position, ``detail`` its payload where it is not
    about facts."""

    seq: int
    id: str
    event_type: str
    entity_uri: str
    oidc_sub: str | None
    fact_id: str | None
    source: str | None
    attested_key_id: str | None
    ts: str
    tenant_id: str
    detail: dict[str, Any] | None


class JournalAnswer(BaseModel):
    """Oldest first. ``total`` counts this page; a page may be short and yet not the last."""

    entries: list[JournalRecord]
    total: int
    next_cursor: int | None
