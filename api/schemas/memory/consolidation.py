"""Requests about consolidation rules and their runs."""

from pydantic import Field

from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.model import Model
from engramlog.api.schemas.values import Flag


class RuleDocument(Model, extra="allow"):
    """A consolidation rule; ``docs/consolidation.md`` describes its fields."""


class RunRequest(Model, extra="forbid"):
    """Run a rule now. ``from_position`` reads again from there; ``dry_run`` writes nothing;
    ``limit``: episodes to read at most."""

    dry_run: Flag = False
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    from_position: int | None = Field(default=None, ge=1, le=2**62)


class RunsQuery(MomentQuery, extra="forbid"):
    """The moment to read."""
