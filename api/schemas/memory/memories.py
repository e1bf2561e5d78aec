"""Requests about memories: facts written in abmind's manner."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.attributes import Attributes, listed
from engramlog.api.schemas.facts import ID_LENGTH_MAX, AssertRequest
from engramlog.api.schemas.values import FactValue, Flag, Instant, Model, Name, User
from engramlog.eventlog.kinds import Scope
from engramlog.projections.memories.attribute_rules import KEYWORDS_LENGTH_MAX
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION

TAGS_MAX = 100
TAG_LENGTH_MAX = 100

Tag = Annotated[str, Field(min_length=1, max_length=TAG_LENGTH_MAX)]


class MemoryRequest(Attributes, extra="forbid"):
    """A memory to store: its words, its owner and place, and all attributes of a fact.

    ``content`` is in the language of the searches, ``original`` is verbatim. ``tags`` join
    ``keywords``. The owner is ``source``, or ``user:USER_ID``, else the caller.
    """

    content: str
    tags: Annotated[list[Tag], Field(max_length=TAGS_MAX), BeforeValidator(listed)] = Field(
        default_factory=list
    )
    source: Name | None = None
    user_id: User | None = None
    entity: Name | None = None
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
