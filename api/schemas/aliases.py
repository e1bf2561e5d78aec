"""Requests and answers about aliases, and about which entity a name means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.facts import MomentQuery
from api.schemas.values import NAME_LENGTH_MAX, Name, QueryShare

ALIASES_PAGE_MAX = 10_000


class AliasRequest(BaseModel):
    """Another name of an entity. ``kind`` ``migration`` is for admins, and only they undo it."""

    model_config = ConfigDict(extra="allow")

    raw_uri: Name
    canonical_uri: Name
    kind: Literal["user", "migration"] = "user"


class AliasRecord(BaseModel):
    """An alias. ``warnings`` only in the answer to POST, where there is something to say."""

    raw_uri: str
    canonical_uri: str
    kind: Literal["user", "migration"]
    created_at: str
    warnings: list[str] | None = None


class AliasesQuery(MomentQuery):
    """Aliases by name, from behind ``after``."""

    after: str = Field(default="", max_length=NAME_LENGTH_MAX)
    limit: int = Field(default=1000, ge=1, le=ALIASES_PAGE_MAX)


class ResolveQuery(MomentQuery):
    """Which name, and how like it others must be to be named."""

    uri: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)]
    top_k: int = Field(default=5, ge=0, le=50)
    threshold: QueryShare = 0.5


class LikeName(BaseModel):
    """An entity with a name like the one asked about; ``score`` from 0 to 1."""

    uri: str
    score: float


class ResolvedName(BaseModel):
    """``canonical``: the entity that the name means; ``best``: the best guess at what is meant.
    Layers: 1 the name as it is, 2 its alias, 3 names like it."""

    query: str
    canonical: str
    best: str
    resolution_layer: Literal[1, 2, 3] | None
    layer1_match: bool
    layer2_match: str | None
    layer3_candidates: list[LikeName]
