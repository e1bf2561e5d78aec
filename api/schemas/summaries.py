"""Requests and answers about summaries. Unknown fields are refused."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from api.schemas.facts import ID_LENGTH_MAX, MomentQuery
from api.schemas.values import Scope
from projections.normalization import URI_LENGTH_MAX
from projections.summaries.naming import NAME_LENGTH_MAX, Tier, period_of_name

SUMMARIES_MAX = 200
PAGE_MAX = 200
_STRICT = ConfigDict(extra="forbid")


def _name(text: str) -> str:
    if period_of_name(text) is None:
        raise PydanticCustomError(
            "invalid_summary", "must be a summary's path, such as weekly/weekly_2026-W25.md"
        )
    return text


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as fault:
        raise PydanticCustomError("invalid_date", "must be a day, such as 2026-06-15") from fault


Day = Annotated[str, Field(max_length=10), AfterValidator(_day)]


class SummaryBody(BaseModel):
    """A summary by its path, and its Markdown; without ``text`` it is gone."""

    model_config = _STRICT

    name: Annotated[str, Field(max_length=NAME_LENGTH_MAX), AfterValidator(_name)]
    text: str | None


class SummariesRequest(BaseModel):
    """Summaries of one scope or garden; of the caller, unless ``source`` says otherwise."""

    model_config = _STRICT

    summaries: list[SummaryBody] = Field(min_length=1, max_length=SUMMARIES_MAX)
    scope: Scope = "local"
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    source: str | None = Field(default=None, min_length=1, max_length=URI_LENGTH_MAX)


class SummariesQuery(MomentQuery):
    """Which summaries; ``since`` and ``until`` are days, both inclusive."""

    model_config = _STRICT

    tier: Tier | None = None
    since: Day | None = None
    until: Day | None = None
    source: str | None = Field(default=None, min_length=1, max_length=URI_LENGTH_MAX)
    scope: Scope | None = None
    garden_id: str | None = Field(default=None, max_length=ID_LENGTH_MAX)
    limit: int = Field(default=20, ge=1, le=PAGE_MAX)
    cursor: str | None = Field(default=None, max_length=4096)


class RecordedSummary(BaseModel):
    name: str
    tier: Tier
    period_start: str
    paragraphs: int
    asserted: int
    retracted: int
    changed: bool


class SummariesAnswer(BaseModel):
    recorded: int
    unchanged: int
    summaries: list[RecordedSummary]
    position: int


class ParagraphRecord(BaseModel):
    fact_id: str
    text: str
    confidence: float


class SummaryRecord(BaseModel):
    name: str
    tier: Tier
    period_start: str
    source: str
    scope: Scope
    garden_id: str | None
    recorded_at: str
    paragraphs: list[ParagraphRecord]


class SummaryPage(BaseModel):
    summaries: list[SummaryRecord]
    cursor: str | None
