"""Arguments of the tools: the very models of the HTTP routes, with nothing unknown allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engramlog.api.schemas.conflicts import ConflictsQuery, ResolveRequest
from engramlog.api.schemas.facts import ID_LENGTH_MAX, AssertRequest, FactsQuery, RetractRequest
from engramlog.api.schemas.recall import CardQuery, NeighborsQuery, RecallBody
from engramlog.api.schemas.scopes import LintBody
from engramlog.api.schemas.time_travel import DiffQuery, LifeQuery, StateQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX

Model = TypeVar("Model", bound=BaseModel)

_STRICT = ConfigDict(extra="forbid")
_Id = Field(min_length=1, max_length=ID_LENGTH_MAX)
_Uri = Field(min_length=1, max_length=NAME_LENGTH_MAX)


class Recall(RecallBody):
    """POST /v1/recall."""

    model_config = _STRICT


class Assert(AssertRequest):
    """POST /v1/facts."""

    model_config = _STRICT


class Retract(RetractRequest):
    """POST /v1/facts/{fact_id}/retract."""

    fact_id: str = _Id


class QueryFacts(FactsQuery):
    """GET /v1/facts."""

    model_config = _STRICT


class Neighbors(NeighborsQuery):
    """GET /v1/graph/neighbors."""

    model_config = _STRICT


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

    scope: str
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
    "scope": "local, team, company or public. What is asserted in one scope is found in it.",
    "entity": "What the fact is about: a URI such as user:ann or stigmem://acme.example/user/ann.",
    "relation": "The fact's relation, such as memory:role.",
    "source": "Who states the fact: a URI.",
    "value": 'A typed value: {"type": "string", "v": "CEO"}, {"type": "number", "v": 42}.',
    "confidence": "From 0 to 1. 0 retracts what was stated before.",
    "valid_from": "RFC 3339 instant from which the fact holds in the world.",
    "valid_until": "RFC 3339 instant at which it ceases to hold.",
    "derived_from": 'The facts it rests on: hashes, or [{"hash": "sha256:…"}].',
    "write_mode": "summarize_with_provenance where the session has read this scope.",
    "garden_id": "A garden (private group of facts): slug, id or URI.",
    "attestation": "The source's signature, where the node asks for one.",
    "attributes": 'What abmind ranks by, such as {"emotion_score": 3, "topic": "work"}.',
    "as_of": "As the memory was at this moment: an RFC 3339 instant, position:N, or an HLC.",
    "valid_at": "As the world was at this instant, by what is known.",
    "token_budget": "Most tokens the facts may take together.",
    "depth": "How many hops of the graph to follow.",
    "limit": "Most items to answer with.",
    "cursor": "Where the last page ended.",
    "fact_id": "A fact's id.",
    "reason": "Why, for the record.",
    "include_contradicted": "Also facts that others contradict.",
    "include_expired": "Also facts whose validity is over.",
    "include_retracted": "Also facts that were retracted.",
    "include_low_trust": "Also facts of sources with little trust.",
    "min_confidence": "Leave out facts below this confidence.",
    "max_classification": "Leave out facts classified higher: 0 public, 1 internal, 2 all.",
    "track": "false: do not count this recall as a use of the facts.",
    "relation_filter": "Relations to follow, comma-separated; * at the end of one is a wildcard.",
    "what": "state: the memory at a moment. diff: what changed between two moments. "
    "fact, entity: the whole life of one.",
    "from": "The earlier moment of a diff.",
    "to": "The later moment of a diff (default: now).",
    "change": "Only changes of this kind.",
    "conflict_id": "A contradiction's id, from list_conflicts.",
    "winning_fact_id": "Which of the two facts holds.",
    "new_value": "A value that replaces both.",
    "resolution_note": "Why, for the record.",
    "tail": "true: answer with a cursor on the last page too, to go on from later.",
    "checks": "Which checks to run (default: all).",
    "translated": "Keywords to search for, in English; one of several words is a phrase.",
    "original": "The question in the user's own words, in any language.",
    "stages": "Only these stages of the profile, by name or label.",
    "topic": "Only facts of this topic.",
    "tier": "Only facts of this tier.",
    "emotion": "Only facts with one of these tags; or positive, negative, high-energy.",
    "time_start": "Recorded at or after: milliseconds since 1970, or RFC 3339.",
    "time_end": "Recorded at or before: milliseconds since 1970, or RFC 3339.",
    "intent": "explicit: take the words exactly as they are. ambient: drop words that most facts "
    "hold, and do not search where no other is left (profiles that have it only).",
    "current_context": "The user's hour, weekday (0 is Sunday), topic and offset from UTC.",
}
"""What an argument is for, as the model reads it."""


def checked(model: type[Model], given: Mapping[str, Any]) -> Model:
    """The arguments as ``model``, types taken strictly. Raises pydantic's ValidationError."""
    return model.model_validate(dict(given), strict=True)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, each with its meaning."""
    schema = model.model_json_schema()
    for noise in ("title", "description"):
        schema.pop(noise, None)
    for name, part in schema["properties"].items():
        part.pop("title", None)
        if name in MEANINGS:
            part["description"] = MEANINGS[name]
    return schema


def assert_schema() -> dict[str, Any]:
    """As ``Assert``, but ``source`` may be left out: it is filled in before anything is checked."""
    schema = schema_of(Assert)
    schema["required"] = [name for name in schema["required"] if name != "source"]
    return schema


def time_travel_schema() -> dict[str, Any]:
    """One flat schema for all of time_travel: many clients cannot show a union."""
    properties: dict[str, Any] = {}
    for model in TIME_TRAVEL.values():
        for name, part in schema_of(model)["properties"].items():
            if name != "format":
                properties.setdefault(name, part)
    properties["what"] = {
        "type": "string",
        "enum": list(TIME_TRAVEL),
        "description": MEANINGS["what"],
    }
    properties["limit"] = {"type": "integer", "minimum": 1, "description": MEANINGS["limit"]}
    return {
        "type": "object",
        "properties": properties,
        "required": ["what"],
        "additionalProperties": False,
    }
