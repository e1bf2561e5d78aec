"""A whole scope: requests of lint and synthesis."""

from typing import Annotated

from pydantic import Field

from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX
from engramlog.projections.graph.lint import Check

LOOKAHEAD_S_MAX = 3_155_760_000
"""A hundred years."""


class LintBody(MomentQuery):
    """The checks to run in a scope; by default all. ``stale_lookahead_s``: also report facts that
    will have ended by then, seconds."""

    scope: str
    checks: list[Check] | None = Field(default=None, max_length=5)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    relation: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    stale_lookahead_s: Annotated[float, Field(ge=0, le=LOOKAHEAD_S_MAX, allow_inf_nan=False)] = 0


class SynthesisQuery(MomentQuery):
    """Whether expired facts count, and how many facts to list."""

    include_expired: bool = False
    limit: int = Field(default=200, ge=1, le=1000)
