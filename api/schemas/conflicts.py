"""Requests about contradictions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.facts import ID_LENGTH_MAX, REASON_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.values import FactValue


class ConflictsQuery(MomentQuery):
    """Which contradictions to list."""

    status: Literal["unresolved", "resolved"] | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class ResolveRequest(BaseModel):
    """The winner: one of the two facts, or a new value."""

    model_config = ConfigDict(extra="allow")

    winning_fact_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    resolution_note: str = Field(default="", max_length=REASON_LENGTH_MAX)
    new_value: FactValue | None = None
