"""Arguments of the tools: the very models of the HTTP routes, with nothing unknown allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.conflicts import ConflictsQuery, ResolveRequest
from engramlog.api.schemas.facts import ID_LENGTH_MAX, AssertRequest, FactsQuery, RetractRequest
from engramlog.api.schemas.memory import EpisodeRequest, Part
from engramlog.api.schemas.recall import CardQuery, NeighborsQuery, RecallBody
from engramlog.api.schemas.scopes import LintBody
from engramlog.api.schemas.time_travel import DiffQuery, LifeQuery, StateQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Scope

Model = TypeVar("Model", bound=BaseModel)

_STRICT = ConfigDict(extra="forbid")
_Id = Field(min_length=1, max_length=ID_LENGTH_MAX)
_Uri = Field(min_length=1, max_length=NAME_LENGTH_MAX)


Detail = Literal["compact", "full"]


class Recall(RecallBody):
    """POST /v1/recall."""

    model_config = _STRICT

    detail: Detail = "compact"


class Remember(BaseModel):
    """POST /v1/memories, in fewer words."""

    model_config = _STRICT

    text: str = Field(min_length=1)
    user: str | None = Field(default=None, min_length=1, max_length=256)
    session: str | None = Field(default=None, min_length=1, max_length=80)
    scope: Scope = "local"


class RecordEpisode(EpisodeRequest):
    """POST /v1/episodes."""

    session: Part = "mcp"
    agent: Part = "mcp"


class Assert(AssertRequest):
    """POST /v1/facts."""

    model_config = _STRICT


class Retract(RetractRequest):
    """POST /v1/facts/{fact_id}/retract."""

    fact_id: str = _Id


class QueryFacts(FactsQuery):
    """GET /v1/facts."""

    model_config = _STRICT

    detail: Detail = "compact"


class Neighbors(NeighborsQuery):
    """GET /v1/graph/neighbors."""

    model_config = _STRICT

    scope: str = "local"


class GetCard(CardQuery):
    """GET /v1/cards/{entity}."""

    model_config = _STRICT

    entity: str = _Uri


class ListConflicts(ConflictsQuery):
    """GET /v1/conflicts."""

    model_config = _STRICT


class Resolve(ResolveRequest):
    """POST /v1/conflicts/{conflict_id}/resolve."""

    model_config = _STRICT

    conflict_id: str = _Id


class LintScope(LintBody):
    """POST /v1/lint."""

    model_config = _STRICT


class Poll(BaseModel):
    """One look at what a scope holds, from where the last one ended."""

    model_config = _STRICT

    scope: str = "local"
    cursor: str | None = None
    limit: int | None = Field(default=None, ge=1, le=500)
    tail: bool = False


class StateArguments(StateQuery):
    """GET /v1/time-travel/state."""

    model_config = _STRICT

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

MEANINGS: dict[str, str] = {
    "query": "The question, in plain words.",
    "text": "What to remember, in plain words, so that it can be understood alone.",
    "user": "Whose memory it is, such as ann.",
    "session": "The conversation's name.",
    "agent": "Who took part, such as the assistant's name.",
    "content": "What was said or done.",
    "scope": "Where it is kept (* for all).",
    "entity": "What it is about: a URI such as user:ann.",
    "relation": "Such as memory:role.",
    "source": "Who states it: a URI.",
    "value": 'A plain value ("green tea", 42, true), or typed: {"type": "ref", "v": "user:bob"}.',
    "confidence": "0 to 1. 0 retracts.",
    "valid_from": "RFC 3339 instant from which it holds.",
    "valid_until": "RFC 3339 instant at which it ends.",
    "derived_from": "Content ids of the facts it rests on.",
    "as_of": "As the memory was: an RFC 3339 instant or position:N.",
    "valid_at": "As the world was at this instant.",
    "token_budget": "Most tokens of the answer.",
    "detail": "compact: lines within the budget. full: whole records.",
    "depth": "Hops, 1 to 3.",
    "limit": "Most items.",
    "cursor": "Where the last page ended.",
    "fact_id": "A fact's id.",
    "reason": "Why, for the record.",
    "include_contradicted": "Also facts that others contradict.",
    "include_retracted": "Also facts that were retracted.",
    "min_confidence": "Leave out facts below this.",
    "relation_filter": "Relations to follow, comma-separated; * ends a prefix.",
    "what": "The memory at a moment, what changed between two, or one life.",
    "from": "The earlier moment of a diff.",
    "to": "The later moment (default: now).",
    "status": "Only those.",
    "conflict_id": "From list_conflicts.",
    "winning_fact_id": "Which of the two holds.",
    "new_value": "A plain or typed value that replaces both.",
    "resolution_note": "Why, for the record.",
    "tail": "Answer with a cursor on the last page too.",
    "timestamp": "When it happened (default: now).",
}
"""What an argument is for, as the model reads it."""


def checked(model: type[Model], given: Mapping[str, Any]) -> Model:
    """The arguments as ``model``, types taken strictly. Raises pydantic's ValidationError."""
    return model.model_validate(dict(given), strict=True)
