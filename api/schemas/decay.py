"""Requests about decay and declared cardinality."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.values import Model, Name
from engramlog.eventlog.kinds import Scope

PolicyId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}$")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
RELATIONS_MAX = 1000


class PolicyRequest(Model, extra="forbid"):
    """A decay policy. ``*`` covers every relation or scope; a label may end in ``*``."""

    relation: Name = "*"
    scope: Scope | Literal["*"] = "*"
    mode: Literal["retract", "confidence"] = "retract"
    ttl_s: Seconds | None = None
    half_life_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    exempt_relations: list[Name] = Field(default_factory=list, max_length=RELATIONS_MAX)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "confidence" and self.half_life_s is None:
            raise PydanticCustomError("missing", "mode 'confidence' needs half_life_s")
        if self.mode == "retract" and self.ttl_s is None and self.min_confidence is None:
            raise PydanticCustomError("missing", "mode 'retract' needs ttl_s or min_confidence")
        return self


class SweepRequest(Model, extra="allow"):
    """A sweep. Without ``ttl_seconds`` and ``min_confidence`` the stored policies apply."""

    dry_run: bool = False
    scope: str | None = None
    ttl_seconds: Seconds | None = None
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class SetValuedRequest(Model, extra="forbid"):
    """The relations that may have several values: labels, or globs ending in ``*``."""

    relations: list[Name] = Field(max_length=RELATIONS_MAX)
