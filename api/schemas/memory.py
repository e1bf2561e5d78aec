"""Requests about episodes, deltas and memories. Unknown fields are rejected."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.attributes import Attributes, listed
from engramlog.api.schemas.facts import ID_LENGTH_MAX, AssertRequest, MomentQuery
from engramlog.api.schemas.values import FactValue, Flag, Instant, Model, Name, Share, Uri, User
from engramlog.eventlog.kinds import EpisodeRecorded, Scope
from engramlog.projections.episodes.delta import REPLACES_MAX, SOURCES_MAX
from engramlog.projections.memories.attribute_rules import KEYWORDS_LENGTH_MAX
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION
from engramlog.projections.memories.place import MemoryScopeError, name_part

CONTENT_LENGTH_MAX = 65_536
METADATA_FIELDS_MAX = 64
PAYLOAD_FIELDS_MAX = 32
PAGE_MAX = 1_000
ID_BYTES_MAX = 256
EPISODES_MAX = 1_000
DELTAS_MAX = 1_000
TRIPLES_MAX = 1_000
TAGS_MAX = 100
TAG_LENGTH_MAX = 100


def _part(text: str) -> str:
    try:
        return name_part("name", text)
    except MemoryScopeError as fault:
        raise PydanticCustomError("memory_scope", "{reason}", {"reason": fault.reason}) from fault


Part = Annotated[str, AfterValidator(_part)]
"""A user, session or agent: not empty, at most 256 bytes, no control characters; NFC."""
Identifier = Annotated[str, Field(min_length=1, max_length=ID_BYTES_MAX), AfterValidator(_part)]
Metadata = Annotated[dict[str, Any], Field(max_length=METADATA_FIELDS_MAX)]
Payload = Annotated[dict[str, Any], Field(max_length=PAYLOAD_FIELDS_MAX)]
Identifiers = Annotated[list[Identifier], Field(max_length=SOURCES_MAX)]
Tag = Annotated[str, Field(min_length=1, max_length=TAG_LENGTH_MAX)]


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
    source: Uri | None = None
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

    subject: Uri
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
    source: Uri | None = None
    promotion_ts: Instant | None = None


class MemoryRequest(Attributes, extra="forbid"):
    """A memory to store: its words, its owner and place, and all attributes of a fact.

    ``content`` is in the language of the searches, ``original`` is verbatim. ``tags`` join
    ``keywords``. The owner is ``source``, or ``user:USER_ID``, else the caller.
    """

    content: str
    tags: Annotated[list[Tag], Field(max_length=TAGS_MAX), BeforeValidator(listed)] = Field(
        default_factory=list
    )
    source: Uri | None = None
    user_id: User | None = None
    entity: Uri | None = None
    relation: Name = MEMORY_RELATION
    scope: Scope = "local"
    garden_id: str | None = None
    confidence: float = Field(default=1.0, strict=True, gt=0, le=1, allow_inf_nan=False)
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    supersede: Flag = True

    @model_validator(mode="after")
    def _one_owner(self) -> Self:
        if self.source is not None and self.user_id is not None:
            raise PydanticCustomError("owner", "name either source or user_id, not both")
        return self

    @model_validator(mode="after")
    def _tagged(self) -> Self:
        words = ", ".join([self.keywords, *self.tags] if self.keywords else self.tags)
        if len(words) > KEYWORDS_LENGTH_MAX:
            raise PydanticCustomError(
                "too_long", "keywords and tags have over {most} characters together",
                {"most": KEYWORDS_LENGTH_MAX},
            )  # fmt: skip
        return self

    def owner(self, caller: str) -> str:
        """The memory's source, as given."""
        if self.user_id is not None:
            return self.user_id
        return caller if self.source is None else self.source

    def fact(self, owner: str) -> AssertRequest:
        """The fact that holds the memory."""
        words = ", ".join([self.keywords, *self.tags] if self.keywords else self.tags)
        own: dict[str, Any] = {name: getattr(self, name) for name in Attributes.model_fields}
        return AssertRequest(
            entity=owner if self.entity is None else self.entity,
            relation=self.relation,
            value=FactValue.model_validate({"type": "text", "v": self.content.strip()}),
            source=owner,
            scope=self.scope,
            garden_id=self.garden_id,
            confidence=self.confidence,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
            attributes=Attributes.model_validate(own | {"keywords": words}),
        )


def _distinct(ids: list[str]) -> list[str]:
    if len(set(ids)) < len(ids):
        raise PydanticCustomError("distinct", "name two different memories")
    return ids


class MergeRequest(Model, extra="forbid"):
    """Two memories, in any order; the newer one remains."""

    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=ID_LENGTH_MAX)]],
        Field(min_length=2, max_length=2),
        AfterValidator(_distinct),
    ]
