"""The fields of a recall that abmind's callers use besides a question (its seed, "CLI usage")."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.values import Flag, Instant, Model
from engramlog.projections.moment import parse_instant
from engramlog.projections.recall.filters import Filters, emotions_of
from engramlog.projections.recall.request import Intent, Situation

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
