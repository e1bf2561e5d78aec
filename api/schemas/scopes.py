"""A whole scope: requests and answers of lint and synthesis."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Scope

LOOKAHEAD_S_MAX = 3_155_760_000
"""A hundred years."""


class LintBody(MomentQuery):
    """What to check in which scope; every check where none is named.
    ``stale_lookahead_s``: also report what will have ended by then, seconds."""

    scope: str
    checks: (
        list[Literal["contradiction", "stale", "orphan", "broken_ref", "namespacing"]] | None
    ) = Field(default=None, max_length=5)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    relation: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    stale_lookahead_s: Annotated[float, Field(ge=0, le=LOOKAHEAD_S_MAX, allow_inf_nan=False)] = 0


class SynthesisQuery(MomentQuery):
    """Whether facts whose validity is over count, and how many facts to list."""

    include_expired: bool = False
    limit: int = Field(default=200, ge=1, le=1000)


class LintFinding(BaseModel):
    """``relation`` is null where the finding is about the whole entity."""

    check: Literal["contradiction", "stale", "orphan", "broken_ref", "namespacing"]
    severity: Literal["error", "warning", "info"]
    entity: str
    relation: str | None
    fact_ids: list[str]
    detail: str


class LintReport(BaseModel):
    """``fact_count``: facts that hold; ``truncated``: a check found over 1,000."""

    findings: list[LintFinding]
    checked_at: str
    scope: Scope
    checks_run: list[str]
    fact_count: int
    truncated: bool


class SynthesisValue(BaseModel):
    """``v`` is the text under which the value is stored."""

    type: Literal["string", "text", "number", "boolean", "datetime", "ref", "null"]
    v: str


class SynthesisFact(BaseModel):
    """A fact in brief."""

    id: str
    entity: str
    relation: str
    value: SynthesisValue
    confidence: float
    timestamp: str
    valid_until: str | None
    is_expired: bool
    age_seconds: float
    contradicted: bool
    source: str


class Synthesis(BaseModel):
    """``fact_count``: facts listed, the most confident first; ``total_count``: facts that hold,
    over which all other numbers are taken. ``contradiction_count``: facts in an unresolved
    contradiction."""

    scope: Scope
    fact_count: int
    facts: list[SynthesisFact]
    contradiction_count: int
    mean_confidence: float
    freshest_timestamp: str | None
    oldest_timestamp: str | None
    expired_fact_count: int
    synthesized_at: str
    total_count: int
