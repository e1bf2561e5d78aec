"""Arguments of the tools: the models of the HTTP routes, without unknown fields."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from engramlog.api.schemas.facts import (
    ID_LENGTH_MAX,
    AssertRequest,
    ConflictsQuery,
    FactsQuery,
    LintBody,
    ResolveRequest,
    RetractRequest,
)
from engramlog.api.schemas.memory import EpisodeRequest, Part
from engramlog.api.schemas.recall import CardQuery, NeighborsQuery, RecallBody
from engramlog.api.schemas.time_travel import DiffQuery, LifeQuery, StateQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, User
from engramlog.eventlog.kinds import Scope

Model = TypeVar("Model", bound=BaseModel)

_Id = Field(min_length=1, max_length=ID_LENGTH_MAX)
_Uri = Field(min_length=1, max_length=NAME_LENGTH_MAX)

Detail = Literal["compact", "full"]


class Recall(RecallBody, extra="forbid"):
    """POST /v1/recall."""

    detail: Detail = "compact"


class Remember(BaseModel, extra="forbid"):
    """POST /v1/memories, in fewer words."""

    text: str = Field(min_length=1)
    user: User | None = None
    session: str | None = Field(default=None, min_length=1, max_length=80)
    topic: str | None = None
    scope: Scope = "local"


class RecordEpisode(EpisodeRequest):
    """POST /v1/episodes."""

    session: Part = "mcp"
    agent: Part = "mcp"


class Assert(AssertRequest, extra="forbid"):
    """POST /v1/facts."""


class Retract(RetractRequest):
    """POST /v1/facts/{fact_id}/retract."""

    fact_id: str = _Id


class QueryFacts(FactsQuery, extra="forbid"):
    """GET /v1/facts."""

    detail: Detail = "compact"


class Neighbors(NeighborsQuery, extra="forbid"):
    """GET /v1/graph/neighbors."""

    scope: str = "local"


class GetCard(CardQuery, extra="forbid"):
    """GET /v1/cards/{entity}."""

    entity: str = _Uri


class ListConflicts(ConflictsQuery, extra="forbid"):
    """GET /v1/conflicts."""


class Resolve(ResolveRequest, extra="forbid"):
    """POST /v1/conflicts/{conflict_id}/resolve."""

    conflict_id: str = _Id


class LintScope(LintBody, extra="forbid"):
    """POST /v1/lint."""


class Poll(BaseModel, extra="forbid"):
    """A look at a scope's facts, from the end of the last one."""

    scope: str = "local"
    cursor: str | None = None
    limit: int | None = Field(default=None, ge=1, le=500)
    tail: bool = False


class StateArguments(StateQuery, extra="forbid"):
    """GET /v1/time-travel/state."""

    what: Literal["state"]


class Diff(DiffQuery):
    """GET /v1/time-travel/diff."""

    what: Literal["diff"]


class FactLifeArguments(LifeQuery):
    """GET /v1/time-travel/facts/{fact_id}."""

    what: Literal["fact"]
    fact_id: str = _Id


class EntityLifeArguments(LifeQuery):
    """GET /v1/time-travel/entities/{entity}."""

    what: Literal["entity"]
    entity: str = _Uri


TIME_TRAVEL: dict[str, type[BaseModel]] = {
    "state": StateArguments,
    "diff": Diff,
    "fact": FactLifeArguments,
    "entity": EntityLifeArguments,
}
"""``what`` of the tool time_travel → its arguments."""


def checked(model: type[Model], given: Mapping[str, Any]) -> Model:
    """The arguments as ``model``, with strict types. Raises pydantic's ValidationError."""
    return model.model_validate(dict(given), strict=True)
