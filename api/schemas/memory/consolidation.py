"""Requests and answers about consolidation rules and their runs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.memory.parts import (
    STRICT,
)
from engramlog.api.schemas.values import Flag


class RuleDocument(BaseModel):
    """A consolidation rule; ``docs/consolidation.md`` describes its fields."""

    model_config = ConfigDict(extra="allow")


class RunRequest(BaseModel):
    """Run a rule now. ``from_position`` reads again from there on; ``dry_run`` writes nothing;
    ``limit`` is how many episodes to read at most."""

    model_config = STRICT

    dry_run: Flag = False
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    from_position: int | None = Field(default=None, ge=1, le=2**62)


class RunsQuery(MomentQuery):
    """As of which moment."""

    model_config = STRICT


class RuleRecord(BaseModel):
    rule_id: str
    version: str
    document: dict[str, Any]
    set_by: str
    set_at: str


class RulePage(BaseModel):
    rules: list[RuleRecord]


class RunAnswer(BaseModel):
    rule_id: str
    run_id: str
    dry_run: bool
    replay: bool
    from_position: int
    to_position: int
    episodes: int
    applied: int
    known: int
    rejected: int
    gated: int
    quarantined: list[dict[str, str]]
    kinds: dict[str, int]
    deltas: list[dict[str, Any]]
    raced: bool
    more: bool


class RuleStatus(BaseModel):
    rule_id: str
    enabled: bool
    cadence: dict[str, Any]
    watermark: int
    read: int
    pending: int
    next_fire: str | None
    runs: list[dict[str, Any]]
    quarantined: list[dict[str, Any]]


class ConsolidationStatus(BaseModel):
    scheduler: bool
    rules: list[RuleStatus]
