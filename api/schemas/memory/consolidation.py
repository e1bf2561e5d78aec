"""Requests about consolidation rules and their runs."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.memory.parts import (
    STRICT,
)
from engramlog.api.schemas.model import Model
from engramlog.api.schemas.values import Flag


class RuleDocument(Model):
    """A consolidation rule; ``docs/consolidation.md`` describes its fields."""

    model_config = ConfigDict(extra="allow")


class RunRequest(Model):
    """Run a rule now. ``from_position`` reads again from there; ``dry_run`` writes nothing;
    ``limit``: episodes to read at most."""

    model_config = STRICT

    dry_run: Flag = False
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    from_position: int | None = Field(default=None, ge=1, le=2**62)


class RunsQuery(MomentQuery):
    """The moment to read."""

    model_config = STRICT
