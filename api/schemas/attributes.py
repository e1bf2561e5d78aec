"""Attributes in requests: the numbers and labels by which the abmind profiles rank facts."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.values import Model
from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.memories.attribute_rules import (
    CONTEXT_LENGTH_MAX,
    KEYWORDS_LENGTH_MAX,
    LABEL_LENGTH_MAX,
    LABELS_MAX,
    LANGUAGE_LENGTH_MAX,
    ORIGINAL_LENGTH_MAX,
    PLAIN,
    RELEVANCE_MAX,
    RELEVANCE_STEP,
    settled,
)
from engramlog.projections.memories.memory_types import MemoryType
from engramlog.projections.text.sanitizing import NOTICES, scan

_LISTS = ("emotion_tags", "importance_flags")
_TOPIC = re.compile(r"[^\W_][\w.:/-]{0,63}")


def listed(given: Any) -> Any:
    """A list, or a comma-separated text of its members."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return given


def _harmless(text: str) -> str:
    """Models see labels verbatim, so labels must not contain instructions."""
    if scan(re.sub(r"[\W_]+", " ", text)) - NOTICES:
        raise PydanticCustomError("label", "must not read as an instruction to a model")
    return text


def _topic(text: str) -> str:
    if _TOPIC.fullmatch(text) is None:
        raise PydanticCustomError(
            "label", "must be one word of up to 64 letters, digits and any of . : / - _"
        )
    return _harmless(text)


def _distinct(labels: list[str]) -> list[str]:
    return list(dict.fromkeys(labels))


def _steps(relevance: int) -> int:
    if relevance % RELEVANCE_STEP:
        raise PydanticCustomError("multiple_of", "must be a multiple of 10")
    return relevance


Label = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9]*([-_][a-z0-9]+)*$", max_length=LABEL_LENGTH_MAX),
    AfterValidator(_harmless),
]
"""One lower-case word, such as ``joy`` or ``turning-point``."""
Labels = Annotated[
    list[Label], Field(max_length=LABELS_MAX), BeforeValidator(listed), AfterValidator(_distinct)
]
Whole = Annotated[int, Field(strict=True)]


class Rankable(Model, extra="forbid"):
    """The numbers and labels, which may also be set later."""

    memory_type: MemoryType = "fact"
    emotion_score: Annotated[Whole, Field(ge=-5, le=5)] = 0
    emotion_tags: Labels = Field(default_factory=list)
    importance_flags: Labels = Field(default_factory=list)
    relevance: Annotated[
        Whole, Field(ge=-RELEVANCE_MAX, le=RELEVANCE_MAX), AfterValidator(_steps)
    ] = 0
    classification: Annotated[Whole, Field(ge=0, le=3)] = 1
    trust: Annotated[Whole, Field(ge=0, le=3)] = 0
    integrity: Annotated[Whole, Field(ge=0, le=3)] = 2
    credibility: Annotated[Whole, Field(ge=1, le=6)] = 6
    topic: Annotated[str, AfterValidator(_topic)] = "general"
    tier: Literal["general", "core"] = "general"


class Attributes(Rankable):
    """All attributes of a new fact."""

    emotion_context: str = Field(default="", max_length=CONTEXT_LENGTH_MAX)
    original: str = Field(default="", max_length=ORIGINAL_LENGTH_MAX)
    language: str = Field(
        default="",
        max_length=LANGUAGE_LENGTH_MAX,
        pattern=r"^$|^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$",
    )
    keywords: str = Field(default="", max_length=KEYWORDS_LENGTH_MAX)

    def stated(self) -> FactAttributes:
        """In the form of events, as given."""
        fields = self.model_dump()
        for name in _LISTS:
            fields[name] = tuple(fields[name])
        return FactAttributes(**fields)

    def stored(self) -> FactAttributes | None:
        """In the form of a new fact's event; None if all are defaults."""
        made = settled(self.stated())
        return None if made == PLAIN else made


class AttributesPatch(Rankable):
    """Attributes to set; omitted ones stay. ``relevance_change`` is added to the present relevance,
    within its bounds."""

    relevance_change: Annotated[
        Whole, Field(ge=-2 * RELEVANCE_MAX, le=2 * RELEVANCE_MAX), AfterValidator(_steps)
    ] = 0

    @model_validator(mode="after")
    def _one_relevance(self) -> Self:
        if {"relevance", "relevance_change"} <= self.model_fields_set:
            raise PydanticCustomError(
                "relevance", "name either relevance or relevance_change, not both"
            )
        return self

    def changes(self) -> dict[str, Any]:
        """By field, in the form of events."""
        given = self.model_dump(exclude_unset=True, exclude={"relevance_change"})
        for name in _LISTS:
            if name in given:
                given[name] = tuple(given[name])
        return given
