"""Requests about tombstones (wire 5.5)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.values import Flag

REASON_LENGTH_MAX = 2048


class TombstoneRequest(BaseModel):
    """An entity to hide from every answer. ``scope``: one scope, or ``all`` (``*`` is the same).

    ``erase``: also erase every fact about it, for good, as ``POST /v1/erasures`` does; ``wait``:
    answer when every file is clean, or after ``timeout_s``.
    """

    model_config = ConfigDict(extra="allow")

    entity_uri: str
    scope: str = "all"
    reason: str | None = Field(default=None, max_length=REASON_LENGTH_MAX)
    legal_hold: Flag = False
    erase: Flag = False
    wait: Flag = False
    timeout_s: float = Field(default=60.0, ge=0, le=600)


class RevokeRequest(BaseModel):
    """Why the entity may be seen again."""

    model_config = ConfigDict(extra="allow")

    reason: str = Field(min_length=1, max_length=REASON_LENGTH_MAX)


class TombstonesQuery(BaseModel):
    """``before``: a position; tombstones set before it."""

    before: int | None = Field(default=None, ge=0)
    limit: int = Field(default=50, ge=1, le=500)


class SharedQuery(BaseModel):
    """``cursor``: of the page before."""

    model_config = ConfigDict(extra="allow")

    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = None
    limit: int = Field(default=100, ge=1, le=500)


class SharedRecord(BaseModel):
    """A tombstone, or (with ``tombstone_id``) a revocation, as a peer signed it."""

    model_config = ConfigDict(extra="allow")

    id: str
