"""The protocol's federation: pulls and pushes (wire 3.3, 3.4)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

PUSHED_FACTS_MAX = 1000


class PullQuery(BaseModel):
    """``cursor``: the ``hlc`` of the last record fetched."""

    model_config = ConfigDict(extra="allow")

    scope: str | None = None
    cursor: str | None = Field(default=None, max_length=100)
    limit: int = Field(default=100, ge=1, le=500)


class PushBody(BaseModel):
    """Records to take."""

    model_config = ConfigDict(extra="allow")

    facts: list[Any] = Field(max_length=PUSHED_FACTS_MAX)


class PullPage(BaseModel):
    """Records in the order of their clock readings."""

    facts: list[dict[str, Any]]
    cursor: str | None
    has_more: bool


class PushError(BaseModel):
    """A record that was not taken."""

    fact_id: str
    error: str


class PushAnswer(BaseModel):
    """What became of the records; known ones count as accepted."""

    accepted: int
    rejected: int
    errors: list[PushError]


class PulledPeer(BaseModel):
    """How pulling a peer stands."""

    node_id: str
    active: bool
    cursor: str | None
    received: int
    accepted: int
    refused: int
    rounds: int
    held: str | None
    fault: str | None
    refusals: list[dict[str, Any]]


class PulledPeers(BaseModel):
    """Every peer that is pulled by the protocol's federation."""

    pulls: list[PulledPeer]
