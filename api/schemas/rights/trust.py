"""Requests about trust in sources."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from msgspec.structs import fields
from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import REASON_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.values import Model, Name, Share
from engramlog.eventlog.kinds import TrustPolicy

Mode: TypeAlias = Literal["strict", "relaxed", "off"]
SUM_TOLERANCE = 0.001
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]


class TrustQuery(MomentQuery):
    """``source``: only this one, with or without a setting."""

    source: str | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class TrustRequest(Model, extra="forbid"):
    """The trust in a source from now on; 0 blocks it."""

    source: Name
    trust: Share
    reason: str = Field(default="", max_length=REASON_LENGTH_MAX)


class _Weighted(Model, extra="forbid"):
    @model_validator(mode="after")
    def _weights(self) -> Self:
        parts = ("identity", "history", "authority", "attestation")
        total = sum(getattr(self, f"{part}_weight") for part in parts)
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise PydanticCustomError(
                "weights", "the four weights sum to {total}, must sum to 1", {"total": total}
            )
        return self


_CHECKED: dict[Any, Any] = {float: Share, int: Count}
_FIELDS: dict[str, Any] = {
    each.name: (_CHECKED.get(each.type, each.type), each.default) for each in fields(TrustPolicy)
}
TrustPolicyRequest = create_model(
    "TrustPolicyRequest",
    __base__=_Weighted,
    __doc__="The formula's parameters; omitted ones take their defaults. The weights sum to 1.",
    **_FIELDS,
)
