"""Requests and answers about episodes, deltas and consolidation. Unknown fields are refused."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.values import Flag, Instant, Name, Scope, Share
from engramlog.projections.episodes.delta import REPLACES_MAX, SOURCES_MAX
from engramlog.projections.memories.place import MemoryScopeError, name_part

EPISODES_MAX = 1_000
DELTAS_MAX = 1_000
TRIPLES_MAX = 1_000
CONTENT_LENGTH_MAX = 65_536
METADATA_FIELDS_MAX = 64
PAYLOAD_FIELDS_MAX = 32
PAGE_MAX = 1_000
_ID_BYTES_MAX = 256
_STRICT = ConfigDict(extra="forbid")


def _part(text: str) -> str:
    try:
        return name_part("name", text)
    except MemoryScopeError as fault:
        raise PydanticCustomError("memory_scope", "{reason}", {"reason": fault.reason}) from fault


def _plain(value: Any) -> Any:
    """JSON that a log can hold for ever: no NaN or infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("finite_number", "must be a finite number")
    if isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType]
            _plain(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _plain(item)
    return value  # pyright: ignore[reportUnknownVariableType]


Part = Annotated[str, AfterValidator(_part)]
"""A user, session or agent: not empty, at most 256 bytes, no control characters; NFC."""
Identifier = Annotated[str, Field(min_length=1, max_length=_ID_BYTES_MAX), AfterValidator(_part)]
Metadata = Annotated[dict[str, Any], Field(max_length=METADATA_FIELDS_MAX), AfterValidator(_plain)]
Payload = Annotated[dict[str, Any], Field(max_length=PAYLOAD_FIELDS_MAX), AfterValidator(_plain)]
Identifiers = Annotated[list[Identifier], Field(max_length=SOURCES_MAX)]


class EpisodeBody(BaseModel):
    """Something that happened in a session of an agent with a user.

    ``timestamp`` is when (by default now); ``id`` the caller's name for it. Consolidation
    reads ``metadata``: ``intent``, ``replaces``, ``subject``, ``predicate``, ``object``.
    """

    model_config = _STRICT

    user: Part
    session: Part
    agent: Part
    content: str = Field(min_length=1, max_length=CONTENT_LENGTH_MAX)
    timestamp: Instant | None = None
    id: Identifier | None = None
    source_node: str = Field(default="", max_length=_ID_BYTES_MAX)
    metadata: Metadata = Field(default_factory=dict)
    run_id: Identifier | None = None
    step: int | None = Field(default=None, ge=0, le=2**53)


class EpisodeRequest(EpisodeBody):
    """One episode, and where it lies."""

    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)


class EpisodesRequest(BaseModel):
    """Several episodes of one scope or garden, oldest first."""

    model_config = _STRICT

    episodes: list[EpisodeBody] = Field(min_length=1, max_length=EPISODES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)


class EpisodesQuery(MomentQuery):
    """Whose episodes. What is left out widens the answer; ``user`` cannot be."""

    model_config = _STRICT

    user: Part
    session: Part | None = None
    agent: Part | None = None
    scope: Scope | None = None
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    limit: int = Field(default=50, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class AccessRequest(BaseModel):
    """Episodes, by id or key, that were read."""

    model_config = _STRICT

    episodes: list[Identifier] = Field(min_length=1, max_length=EPISODES_MAX)


class _DeltaBody(BaseModel):
    """What every delta must say."""

    model_config = _STRICT

    source_episode_ids: Identifiers
    promotion_ts: Instant
    rule_id: str = Field(max_length=_ID_BYTES_MAX)
    confidence: Share


class AddBody(_DeltaBody):
    """State a fact."""

    kind: Literal["add"]
    fact_payload: Payload


class UpdateBody(_DeltaBody):
    """Replace facts by one."""

    kind: Literal["update"]
    replaces: list[Identifier] = Field(max_length=REPLACES_MAX)
    fact_payload: Payload
    expected_version: int | None = Field(default=None, ge=1)


class DeleteBody(_DeltaBody):
    """End facts."""

    kind: Literal["delete"]
    replaces: list[Identifier] = Field(max_length=REPLACES_MAX)
    expected_version: int | None = Field(default=None, ge=1)


class NoopBody(_DeltaBody):
    """Change nothing, on record."""

    kind: Literal["noop"]


DeltaBody: TypeAlias = Annotated[
    AddBody | UpdateBody | DeleteBody | NoopBody, Field(discriminator="kind")
]


class DeltasRequest(BaseModel):
    """Deltas for the facts of one user and agent, applied together or not at all.

    ``strict: false`` applies what it can. ``source`` is who states the facts, by default the
    caller; ``single_valued`` relations refuse a second value.
    """

    model_config = _STRICT

    user: Part
    agent: Part
    deltas: list[DeltaBody] = Field(min_length=1, max_length=DELTAS_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    source: Name | None = None
    run_id: Identifier | None = None
    step: int | None = Field(default=None, ge=0, le=2**53)
    strict: Flag = True
    single_valued: list[Name] = Field(default_factory=list, max_length=100)


class DeltasQuery(MomentQuery):
    """Which deltas to show, newest first. ``name``: the id that a payload gave its fact."""

    model_config = _STRICT

    user: Part | None = None
    agent: Part | None = None
    name: Identifier | None = None
    rule_id: str | None = Field(default=None, max_length=_ID_BYTES_MAX)
    run_id: str | None = Field(default=None, max_length=_ID_BYTES_MAX)
    fact_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    episode_id: str | None = Field(default=None, max_length=_ID_BYTES_MAX)
    status: Literal["applied", "rejected"] = "applied"
    limit: int = Field(default=50, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class MemoryFactsQuery(MomentQuery):
    """Which facts that deltas wrote; each given field must be equal."""

    model_config = _STRICT

    user: Part
    agent: Part | None = None
    subject: str | None = Field(default=None, max_length=2048)
    predicate: str | None = Field(default=None, max_length=2048)
    object: str | None = Field(default=None, max_length=CONTENT_LENGTH_MAX)
    limit: int = Field(default=100, ge=1, le=PAGE_MAX)


class RuleDocument(BaseModel):
    """A consolidation rule; ``docs/episodes.md`` describes its fields."""

    model_config = ConfigDict(extra="allow")


class RunRequest(BaseModel):
    """Run a rule now. ``from_position`` reads again from there on; ``dry_run`` writes nothing;
    ``limit`` is how many episodes to read at most."""

    model_config = _STRICT

    dry_run: Flag = False
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    from_position: int | None = Field(default=None, ge=1, le=2**62)


class RunsQuery(MomentQuery):
    """As of which moment."""

    model_config = _STRICT


class Triple(BaseModel):
    """One row of a knowledge graph; ``triple_id`` by default ``s|p|o``."""

    model_config = _STRICT

    subject: Name
    predicate: Name
    object: str = Field(min_length=1, max_length=CONTENT_LENGTH_MAX)
    confidence: Share = 1.0
    triple_id: Identifier | None = None


class TriplesRequest(BaseModel):
    """Triples to promote to facts of a user and agent. One way: a triple that goes away later
    takes no fact with it."""

    model_config = _STRICT

    rule_id: str = Field(min_length=1, max_length=_ID_BYTES_MAX)
    user: Part
    agent: Part
    triples: list[Triple] = Field(min_length=1, max_length=TRIPLES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    source: Name | None = None
    promotion_ts: Instant | None = None


# -- answers ------------------------------------------------------------------------------


class EpisodeRecord(BaseModel):
    """An episode as the asked moment knew it."""

    id: str
    key: str
    user: str
    session: str
    agent: str
    scope_key: str
    content: str
    timestamp: str
    scope: Scope
    garden_id: str | None
    source_node: str
    metadata: dict[str, Any]
    run_id: str | None
    step: int | None
    recorded_by: str
    position: int
    hash: str
    access_count: int
    last_accessed_at: str | None


class EpisodePage(BaseModel):
    episodes: list[EpisodeRecord]
    cursor: str | None


class EpisodeDetail(EpisodeRecord):
    """With the deltas that came of it."""

    deltas: list[DeltaRecord]


class EpisodeOutcome(BaseModel):
    id: str
    key: str
    created: bool


class EpisodesAnswer(BaseModel):
    recorded: int
    known: int
    episodes: list[EpisodeOutcome]
    position: int


class AccessAnswer(BaseModel):
    accessed: list[str]


class DeltaOutcome(BaseModel):
    """``applied``, ``known`` (it was applied before) or ``rejected``."""

    delta_id: str
    kind: Literal["add", "update", "delete", "noop"]
    status: Literal["applied", "known", "rejected"]
    fact_id: str | None
    retracted: list[str]
    warnings: list[str]


class DeltasAnswer(BaseModel):
    results: list[DeltaOutcome]
    position: int


class DeltaRecord(BaseModel):
    delta_id: str
    kind: Literal["add", "update", "delete", "noop"]
    status: Literal["applied", "rejected"]
    user: str
    agent: str
    scope: Scope
    garden_id: str | None
    rule_id: str
    run_id: str | None
    source_episode_ids: list[str]
    replaces: list[str]
    promotion_ts: str | None = None
    confidence: float | None = None
    name: str | None = None
    fact_id: str | None = None
    retracted: list[str] = []
    provenance: dict[str, str] = {}
    reason: str | None = None
    message: str | None = None
    applied_by: str
    position: int


class DeltaPage(BaseModel):
    deltas: list[DeltaRecord]
    cursor: str | None


class MemoryFactRecord(BaseModel):
    """``id`` as deltas name it, ``fact_id`` as the node does; ``lineage`` leads to episodes and
    run."""

    id: str
    fact_id: str
    user: str
    agent: str
    scope: Scope
    garden_id: str | None
    payload: dict[str, Any]
    lineage: list[dict[str, Any]]
    provenance: dict[str, str]
    confidence: float
    pinned_at: str
    version: int
    delta_id: str


class MemoryFactPage(BaseModel):
    facts: list[MemoryFactRecord]


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


EpisodeDetail.model_rebuild()
