"""Requests about deltas, triples and facts. Unknown fields are rejected."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from engramlog.api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.memory.parts import (
    CONTENT_LENGTH_MAX,
    ID_BYTES_MAX,
    PAGE_MAX,
    Identifier,
    Identifiers,
    Part,
    Payload,
)
from engramlog.api.schemas.values import Flag, Instant, Model, Name, Share
from engramlog.eventlog.kinds import Scope
from engramlog.projections.episodes.delta import REPLACES_MAX

DELTAS_MAX = 1_000
TRIPLES_MAX = 1_000


class _DeltaBody(Model, extra="forbid"):
    """The fields of every delta."""

    source_episode_ids: Identifiers
    promotion_ts: Instant
    rule_id: str = Field(max_length=ID_BYTES_MAX)
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
    expected_version: int | None = Field(default=None, ge=1, le=2**53)


class DeleteBody(_DeltaBody):
    """End facts."""

    kind: Literal["delete"]
    replaces: list[Identifier] = Field(max_length=REPLACES_MAX)
    expected_version: int | None = Field(default=None, ge=1, le=2**53)


class NoopBody(_DeltaBody):
    """Change nothing, but record the delta."""

    kind: Literal["noop"]


DeltaBody: TypeAlias = Annotated[
    AddBody | UpdateBody | DeleteBody | NoopBody, Field(discriminator="kind")
]


class DeltasRequest(Model, extra="forbid"):
    """Deltas for the facts of one user and agent, all or none.

    ``strict: false`` applies those that it can. ``source``: the source of the facts, by default the
    caller; ``single_valued`` relations refuse a second value.
    """

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


class DeltasQuery(MomentQuery, extra="forbid"):
    """A filter of deltas, newest first. ``name``: the fact's id in the payload."""

    user: Part | None = None
    agent: Part | None = None
    name: Identifier | None = None
    rule_id: str | None = Field(default=None, max_length=ID_BYTES_MAX)
    run_id: str | None = Field(default=None, max_length=ID_BYTES_MAX)
    fact_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    episode_id: str | None = Field(default=None, max_length=ID_BYTES_MAX)
    status: Literal["applied", "rejected"] = "applied"
    limit: int = Field(default=50, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class MemoryFactsQuery(MomentQuery, extra="forbid"):
    """A filter of facts that deltas wrote; each given field must be equal."""

    user: Part
    agent: Part | None = None
    subject: str | None = Field(default=None, max_length=2048)
    predicate: str | None = Field(default=None, max_length=2048)
    object: str | None = Field(default=None, max_length=CONTENT_LENGTH_MAX)
    scope: Scope | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class Triple(Model, extra="forbid"):
    """One row of a knowledge graph; ``triple_id`` by default ``s|p|o``."""

    subject: Name
    predicate: Name
    object: str = Field(min_length=1, max_length=CONTENT_LENGTH_MAX)
    confidence: Share = 1.0
    triple_id: Identifier | None = None


class TriplesRequest(Model, extra="forbid"):
    """Triples to promote to facts of a user and agent. One way: removing the triple later does not
    remove its fact."""

    rule_id: str = Field(min_length=1, max_length=ID_BYTES_MAX)
    user: Part
    agent: Part
    triples: list[Triple] = Field(min_length=1, max_length=TRIPLES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    source: Name | None = None
    promotion_ts: Instant | None = None
