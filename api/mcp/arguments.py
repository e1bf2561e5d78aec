"""Arguments of the tools: the models of the HTTP routes, without unknown fields."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, create_model

from engramlog.api.schemas.facts import ID_LENGTH_MAX, FactsQuery
from engramlog.api.schemas.memory import EpisodeRequest, Part
from engramlog.api.schemas.recall import RecallBody
from engramlog.api.schemas.time_travel import DiffQuery, LifeQuery, StateQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, User
from engramlog.eventlog.kinds import Scope

Model = TypeVar("Model", bound=BaseModel)

ID = (str, Field(min_length=1, max_length=ID_LENGTH_MAX))
URI = (str, Field(min_length=1, max_length=NAME_LENGTH_MAX))

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


class QueryFacts(FactsQuery, extra="forbid"):
    """GET /v1/facts."""

    detail: Detail = "compact"


class Poll(BaseModel, extra="forbid"):
    """A look at a scope's facts, from the end of the last one."""

    scope: str = "local"
    cursor: str | None = None
    limit: int | None = Field(default=None, ge=1, le=500)
    tail: bool = False


def alone(route: type[BaseModel], **more: Any) -> type[BaseModel]:
    """A route's model without unknown fields. ``more``: further arguments, such as the names in its
    path, with type and default."""
    kind: dict[str, Any] = {"extra": "forbid"}
    return create_model(route.__name__, __base__=route, __cls_kwargs__=kind, **more)


TIME_TRAVEL: dict[str, type[BaseModel]] = {
    "state": alone(StateQuery, what=(Literal["state"], ...)),
    "diff": alone(DiffQuery, what=(Literal["diff"], ...)),
    "fact": alone(LifeQuery, what=(Literal["fact"], ...), fact_id=ID),
    "entity": alone(LifeQuery, what=(Literal["entity"], ...), entity=URI),
}
"""``what`` of the tool time_travel → its arguments."""


def checked(model: type[Model], given: Mapping[str, Any]) -> Model:
    """The arguments as ``model``, with strict types. Raises pydantic's ValidationError."""
    return model.model_validate(dict(given), strict=True)
