"""Requests of replicas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from replay.replication.page import PAGE_EVENTS_MAX

WAIT_SECONDS_MAX = 30.0


class EventsQuery(BaseModel):
    """``after``: the last position the replica has; ``hash``: that event's hash in hex;
    ``wait_s``: how long to wait for the first event behind it."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(default=0, ge=0)
    hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    limit: int = Field(default=PAGE_EVENTS_MAX, ge=1, le=PAGE_EVENTS_MAX)
    wait_s: float = Field(default=0.0, ge=0.0, le=WAIT_SECONDS_MAX)


class ReplicationStatus(BaseModel):
    """What the node is: ``primary``, or ``replica`` with how it stands."""

    role: str
    node_id: str
    position: int
    replica: dict[str, Any] | None = None


class Promoted(BaseModel):
    """The new origin."""

    node_id: str
    was_replica_of: str
    position: int
