"""Requests about flagged content."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.facts import REASON_LENGTH_MAX

PAGE_FACTS_MAX = 200


class FlaggedQuery(BaseModel):
    """``before``: a position, from ``next_before`` of the page before."""

    model_config = ConfigDict(extra="allow")

    status: Literal["pending", "released", "kept", "all"] = "pending"
    limit: int = Field(default=50, ge=1, le=PAGE_FACTS_MAX)
    before: int | None = Field(default=None, ge=1)


class ReviewRequest(BaseModel):
    """``release``: serve the fact again. ``keep``: it stays held back, and is done with."""

    model_config = ConfigDict(extra="allow")

    decision: Literal["release", "keep"]
    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)
