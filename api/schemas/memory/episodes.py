"""Requests about episodes. Unknown fields are rejected."""

from pydantic import Field

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.memory.parts import (
    CONTENT_LENGTH_MAX,
    ID_BYTES_MAX,
    PAGE_MAX,
    Identifier,
    Metadata,
    Part,
)
from engramlog.api.schemas.values import Instant, Model
from engramlog.eventlog.kinds import EpisodeRecorded, Scope

EPISODES_MAX = 1_000


class EpisodeBody(Model, extra="forbid"):
    """Something that happened in a session of an agent with a user.

    ``timestamp`` is when (by default now); ``id`` is the caller's name for it. Consolidation reads
    ``metadata``: ``intent``, ``replaces``, ``subject``, ``predicate``, ``object``.
    """

    user: Part
    session: Part
    agent: Part
    content: str = Field(min_length=1, max_length=CONTENT_LENGTH_MAX)
    timestamp: Instant | None = None
    id: Identifier | None = None
    source_node: str = Field(default="", max_length=ID_BYTES_MAX)
    metadata: Metadata = Field(default_factory=dict)
    run_id: Identifier | None = None
    step: int | None = Field(default=None, ge=0, le=2**53)

    def recorded(self, at_us: int, scope: Scope, garden_id: str | None) -> EpisodeRecorded:
        """Its event. ``at_us``: when it happened."""
        return shaped(self, EpisodeRecorded, at_us=at_us, scope=scope, garden_id=garden_id)


class EpisodeRequest(EpisodeBody):
    """One episode, and its scope or garden."""

    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)


class EpisodesRequest(Model, extra="forbid"):
    """Several episodes of one scope or garden, oldest first."""

    episodes: list[EpisodeBody] = Field(min_length=1, max_length=EPISODES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)


class EpisodesQuery(MomentQuery, extra="forbid"):
    """A filter of episodes. Omitted fields widen the answer; only ``user`` is required."""

    user: Part
    session: Part | None = None
    agent: Part | None = None
    scope: Scope | None = None
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    limit: int = Field(default=50, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class AccessRequest(Model, extra="forbid"):
    """Episodes that were read, by id or key."""

    episodes: list[Identifier] = Field(min_length=1, max_length=EPISODES_MAX)


class RunsQuery(MomentQuery, extra="forbid"):
    """The moment to read."""
