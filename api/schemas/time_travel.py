"""Requests of the time-travel and audit routes, including forks."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import (
    ID_LENGTH_MAX,
    BatchAssert,
    BatchRetract,
    FactsQuery,
    ResolveRequest,
    Seconds,
)
from engramlog.api.schemas.recall import RecallBody
from engramlog.api.schemas.rights import TrustRequest
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Instant, Model, Position, Share

Format = Literal["json", "csv", "parquet"]
Change = Literal["added", "retracted", "decayed", "resolved"]
SQL_LENGTH_MAX = 100_000


class StateQuery(FactsQuery):
    """The memory's state at a moment: the fact list, with both sides of contradictions."""

    include_contradicted: bool = True


class DiffQuery(Model, extra="forbid"):
    """Two moments, and a filter of facts to compare. ``change``: one kind of change only, in
    pages."""

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


class LifeQuery(Model, extra="forbid"):
    """``as_of``: the life up to this moment; ``after``: its events behind this position; ``only``:
    leave out recalls, or all else."""

    as_of: str | None = None
    after: Position = 0
    only: Literal["changes", "recalls"] | None = None
    limit: int = Field(default=200, ge=1, le=1000)
    format: Format = "json"


class SqlBody(Model, extra="forbid"):
    """One SELECT over the views that ``docs/audit.md`` describes."""

    sql: Annotated[str, Field(min_length=1, max_length=SQL_LENGTH_MAX)]
    as_of: str | None = None
    limit: int = Field(default=1000, strict=True, ge=1, le=10_000)
    format: Format = "json"


SUPPOSED_MAX = 200


class SupposeResolve(ResolveRequest, extra="forbid"):
    """Settle the contradiction ``conflict_id``, as ``POST /v1/conflicts/{conflict_id}/resolve``."""

    op: Literal["resolve"]
    conflict_id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)


class SupposeTrust(TrustRequest):
    """Trust in a source, as ``PUT /v1/trust/sources``."""

    op: Literal["trust"]


class SupposeSweep(Model, extra="forbid"):
    """Run decay, as ``POST /v1/decay/sweep``."""

    op: Literal["sweep"]
    scope: str | None = None
    ttl_seconds: Seconds | None = None
    min_confidence: Share | None = None


Supposed = Annotated[
    BatchAssert | BatchRetract | SupposeResolve | SupposeTrust | SupposeSweep,
    Field(discriminator="op"),
]


class ForkState(StateQuery, extra="forbid"):
    """The state of an entity, relation or scope, as ``GET /v1/time-travel/state``."""


class ForkRecall(RecallBody, extra="forbid"):
    """A question, as ``POST /v1/recall``; without counts or receipts."""


class ForkBody(Model, extra="forbid"):
    """``suppose`` in order, from ``as_of`` on, and the question: ``recall`` or ``state`` without
    ``as_of`` and ``valid_at``."""

    as_of: str | None = None
    valid_at: Instant | None = None
    suppose: Annotated[list[Supposed], Field(min_length=1, max_length=SUPPOSED_MAX)]
    recall: ForkRecall | None = None
    state: ForkState | None = None

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.recall is None) == (self.state is None):
            raise PydanticCustomError("fork_question", "give recall or state, and not both")
        question: Any = self.recall or self.state
        if question.as_of is not None or question.valid_at is not None:
            raise PydanticCustomError(
                "fork_moment", "as_of and valid_at belong next to the question"
            )
        if self.state is not None and (self.state.cursor is not None or self.state.tail):
            raise PydanticCustomError(
                "fork_cursor", "a fork's state is one page: no cursor, no tail"
            )
        return self
