"""Requests of recall and of the graph."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Fields, Flag, Instant, Model, QueryShare
from engramlog.projections.moment import parse_instant
from engramlog.projections.recall.filters import Filters, emotions_of
from engramlog.projections.recall.request import Intent, Situation

QUERY_LENGTH_MAX = 20_000
TOKEN_BUDGET_MAX = 200_000
DEPTH_MAX = 3
LIMIT_MAX = 500
CLASSIFICATION_MAX = 3
PROFILE_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
KEYWORDS_MAX = 64
KEYWORD_LENGTH_MAX = 1000
ORIGINAL_LENGTH_MAX = 20_000
STAGES_MAX = 16
TOPIC_LENGTH_MAX = 256
OFFSET_MAX = 14 * 60
"""The largest offset of any clock from UTC, minutes."""
EPOCH_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""

Keyword = Annotated[str, Field(min_length=1, max_length=KEYWORD_LENGTH_MAX)]
StageName = Annotated[str, Field(min_length=1, max_length=64)]
Topic = Annotated[str, Field(min_length=1, max_length=TOPIC_LENGTH_MAX)]
When = Annotated[int, Field(strict=True, ge=0, le=EPOCH_MS_MAX)] | Instant
"""Milliseconds since 1970, as abmind counts, or an RFC 3339 instant."""


class CurrentContext(Model, extra="forbid"):
    """The caller's time and place; hours and days are the caller's own. The node's clock is not
    used."""

    hour: Annotated[int, Field(strict=True, ge=0, le=23)] | None = None
    day_of_week: Annotated[int, Field(strict=True, ge=0, le=6)] | None = None
    topic: Topic | None = None
    utc_offset_minutes: Annotated[int, Field(strict=True, ge=-OFFSET_MAX, le=OFFSET_MAX)] = 0


class KeywordFields(Model):
    """Keywords, filters by attributes, and the stages to run."""

    translated: list[Keyword] | None = Field(default=None, min_length=1, max_length=KEYWORDS_MAX)
    original: str | None = Field(default=None, max_length=ORIGINAL_LENGTH_MAX)
    stages: list[StageName] | None = Field(default=None, min_length=1, max_length=STAGES_MAX)
    topic: Topic | None = None
    tier: Literal["core", "general"] | None = None
    emotion: str | None = Field(default=None, min_length=1, max_length=TOPIC_LENGTH_MAX)
    time_start: When | None = None
    time_end: When | None = None
    include_expired: Flag = False
    current_context: CurrentContext | None = None
    intent: Intent | None = None

    @model_validator(mode="after")
    def _interval(self) -> Self:
        start, end = instant_us(self.time_start), instant_us(self.time_end)
        if start is not None and end is not None and start > end:
            raise PydanticCustomError(
                "interval", "time_start must not be after time_end", {"field": "time_start"}
            )
        return self

    @property
    def filters(self) -> Filters:
        """The filters that facts must pass."""
        end = instant_us(self.time_end)
        return Filters(
            since_us=instant_us(self.time_start),
            # A millisecond includes all of its microseconds.
            until_us=end if end is None or not isinstance(self.time_end, int) else end + 999,
            topic=self.topic,
            tier=self.tier,
            emotions=() if self.emotion is None else emotions_of(self.emotion),
            expired=self.include_expired,
        )

    @property
    def situation(self) -> Situation:
        """The caller's situation."""
        return shaped(self.current_context, Situation)


def instant_us(when: int | str | None) -> int | None:
    """Microseconds since 1970."""
    if when is None:
        return None
    return when * 1000 if isinstance(when, int) else parse_instant(when)


Shape = Literal["full", "legacy", "facts", "compact"]
"""The forms of a recall's answer: ``Fields``, or ``legacy``: full without the channels."""


class RecallShapeQuery(Model, extra="allow"):
    """How much of an answer to send; see ``Fields``. ``legacy_format``: omit the content and
    instructions channels of a full one."""

    legacy_format: bool = False
    fields: Fields = "full"

    @property
    def shape(self) -> Shape:
        """The form that the query string requests."""
        return "legacy" if self.legacy_format and self.fields == "full" else self.fields


class RecallFields(MomentQuery):
    """A question, as a body and as a query string put it."""

    query: str = Field(min_length=1, max_length=QUERY_LENGTH_MAX)
    scope: str = "local"
    min_confidence: QueryShare | None = None
    include_neighbors: bool = True
    include_contradicted: bool | None = None
    include_low_trust: bool = False
    limit: int = Field(default=100, ge=1, le=LIMIT_MAX)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    relation: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    source: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    garden_id: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    lambda_mmr: QueryShare | None = None
    profile: str | None = Field(default=None, pattern=PROFILE_PATTERN)
    explain: bool = False
    force_refresh: bool = False
    debug: bool = False
    track: bool = True
    max_classification: int | None = Field(default=None, ge=0, le=CLASSIFICATION_MAX)


class RecallBody(KeywordFields, RecallFields, strict=True):
    """A question. Omitted fields use the profile's defaults."""

    token_budget: int = 4000
    depth: int | None = None
    weights: dict[str, Any] | None = None

    @field_validator("token_budget")
    @classmethod
    def _budget(cls, budget: int) -> int:
        return _within(budget, 1, TOKEN_BUDGET_MAX, "token_budget", "invalid_token_budget")

    @field_validator("depth")
    @classmethod
    def _depth(cls, depth: int | None) -> int | None:
        if depth is None:
            return None
        return _within(depth, 0, DEPTH_MAX, "depth", "recall_depth_exceeded")


def _within(number: int, least: int, most: int, name: str, code: str) -> int:
    if number < least:
        raise PydanticCustomError(
            "greater_than_equal",
            "{name} must be at least {ge}",
            {"name": name, "ge": least, "code": code},
        )
    if number > most:
        raise PydanticCustomError(
            "less_than_equal",
            "{name} must be at most {le}",
            {"name": name, "le": most, "code": code},
        )
    return number


class RecallQuery(RecallFields, RecallShapeQuery):
    """The same question in a query string, within the limits of a GET.

    ``weights`` is JSON, such as ``{"lex":0.3,"vec":0.5,"graph":0.2}``.
    """

    token_budget: int
    depth: int | None = None
    weights: str | None = None


class ReceiptsQuery(Model, extra="forbid"):
    """A filter of receipts: ``principal``, for auditors; by default the caller's."""

    principal: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = None


ANSWER_LENGTH_MAX = 200_000
FEEDBACK_FACTS_MAX = 500

FactIds = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)]],
    Field(max_length=FEEDBACK_FACTS_MAX),
]


class FeedbackRequest(Model, extra="forbid"):
    """The fate of recalled facts. ``answer``: the text written with them. The node searches it for
    the receipt's facts; then ``cited`` must name no others."""

    receipt_id: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    cited: FactIds = Field(default_factory=list)
    rejected: FactIds = Field(default_factory=list)
    answer: str | None = Field(default=None, min_length=1, max_length=ANSWER_LENGTH_MAX)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.answer is not None and self.receipt_id is None:
            raise PydanticCustomError("receipt_required", "answer needs receipt_id")
        if self.answer is not None and self.cited:
            raise PydanticCustomError("cited_and_answer", "give either cited or answer")
        if self.answer is None and not self.cited and not self.rejected:
            raise PydanticCustomError("feedback_empty", "give cited, rejected or answer")
        return self


class CardQuery(MomentQuery):
    """Which card of an entity. ``refresh``: rewrite it, even if it is fresh."""

    scope: str = "local"
    garden_id: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    refresh: bool = False


class NeighborsQuery(MomentQuery):
    """The neighbours' entity, distance and edges."""

    entity: str = Field(min_length=1, max_length=NAME_LENGTH_MAX)
    scope: str
    depth: int = Field(default=1, ge=1)
    relation_filter: str | None = Field(default=None, max_length=NAME_LENGTH_MAX)
    min_confidence: QueryShare = 0.1
    min_trust: QueryShare = 0.0
    page_size: int = Field(default=20, ge=1, le=200)
    cursor: str | None = None
