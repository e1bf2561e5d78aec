"""Requests of the time-travel and audit routes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.facts import FactsQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX

Format = Literal["json", "csv", "parquet"]
Change = Literal["added", "retracted", "decayed", "resolved"]
SQL_LENGTH_MAX = 100_000


class StateQuery(FactsQuery):
    """The state of the memory at a moment: the fact list, with both sides of contradictions."""

    include_contradicted: bool = True


class DiffQuery(BaseModel):
    """Two moments, and which facts to compare. ``change`` asks for one kind of change alone,
    a page at a time."""

    model_config = ConfigDict(extra="forbid")

    from_: str = Field(alias="from", min_length=1)
    to: str | None = Field(default=None, min_length=1)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    relation: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    scope: str | None = None
    source: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    change: Change | None = None
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=500)
    format: Format = "json"


class LifeQuery(BaseModel):
    """``as_of``: the life up to then. ``scope``: only facts of it."""

    model_config = ConfigDict(extra="forbid")

    as_of: str | None = None
    limit: int = Field(default=200, ge=1, le=1000)
    format: Format = "json"


class SqlBody(BaseModel):
    """One SELECT over the views that ``docs/audit.md`` describes."""

    model_config = ConfigDict(extra="forbid")

    sql: Annotated[str, Field(min_length=1, max_length=SQL_LENGTH_MAX)]
    as_of: str | None = None
    limit: int = Field(default=1000, strict=True, ge=1, le=10_000)
    format: Format = "json"
