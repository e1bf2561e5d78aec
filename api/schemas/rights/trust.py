"""Requests about trust in sources."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import REASON_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.model import Model
from engramlog.api.schemas.values import Name, Share

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


class TrustPolicyRequest(Model, extra="forbid"):
    """The formula's parameters; omitted ones take their defaults. The weights sum to 1."""

    mode: Mode = "relaxed"
    identity_weight: Share = 0.35
    history_weight: Share = 0.30
    authority_weight: Share = 0.25
    attestation_weight: Share = 0.10
    identity_logged: Share = 1.0
    identity_manifest: Share = 0.7
    identity_key: Share = 0.4
    identity_bare: Share = 0.1
    history_new: Share = 0.5
    history_known: Share = 0.7
    history_failing: Share = 0.3
    history_proven: Share = 1.0
    history_known_from: Count = 10
    history_proven_from: Count = 100
    history_failing_share: Share = 0.05
    authority_self: Share = 0.9
    authority_own: Share = 0.7
    authority_shared: Share = 0.5
    authority_other: Share = 0.2
    attestation_signed: Share = 1.0
    attestation_default: Share = 0.2
    hidden_below: Share = 0.2
    strict_hidden_below: Share = 0.3

    @model_validator(mode="after")
    def _weights(self) -> Self:
        total = (
            self.identity_weight
            + self.history_weight
            + self.authority_weight
            + self.attestation_weight
        )
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise PydanticCustomError(
                "weights", "the four weights sum to {total}, must sum to 1", {"total": total}
            )
        return self
