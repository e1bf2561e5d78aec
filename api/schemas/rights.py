"""Requests about rights: gardens and quarantine, API keys, trust in sources."""

import re
from typing import Annotated, Any, Literal, Self, TypeAlias

from msgspec.structs import fields
from pydantic import AfterValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import ID_LENGTH_MAX, REASON_LENGTH_MAX, MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Flag, Instant, Model, Share, Uri
from engramlog.eventlog.kinds import GardenRole, Scope, TrustPolicy
from engramlog.projections.authorization import CEILING

DESCRIPTION_LENGTH_MAX = 4096
KEY_NOTE_LENGTH_MAX = 1000
SOURCES_MAX = 100
SUM_TOLERANCE = 0.001
TENANT = "default"
"""The only tenant: use separate nodes or gardens for others."""
SLUG = re.compile(r"[a-z0-9][a-z0-9\-]{0,62}")


def _slug(text: str) -> str:
    slug = text.strip().lower()
    if SLUG.fullmatch(slug) is None:
        raise PydanticCustomError("slug", r"slug must match ^[a-z0-9][a-z0-9\-]{0,62}$")
    return slug


Slug = Annotated[str, AfterValidator(_slug)]
Reason = Annotated[str, Field(max_length=REASON_LENGTH_MAX)]
GardenName = Annotated[str, Field(max_length=NAME_LENGTH_MAX)]
"""A garden by slug, uuid or URI."""
Mode: TypeAlias = Literal["strict", "relaxed", "off"]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]


class GardenRequest(Model, extra="allow"):
    """A garden to create; the caller becomes its admin."""

    slug: Slug
    name: str = Field(min_length=1, max_length=200)
    description: str | None = Field(default=None, max_length=DESCRIPTION_LENGTH_MAX)
    scope: Scope = "company"
    quarantine: Flag = False


class MemberRequest(Model, extra="allow"):
    """A new member of a garden, and its role."""

    entity_uri: Uri
    role: GardenRole = "reader"


class RoleRequest(Model, extra="allow"):
    """A member's new role."""

    role: GardenRole


class PromoteRequest(Model, extra="allow"):
    """A pending fact to admit: to the named garden, or outside all gardens."""

    fact_id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)
    target_garden_id: GardenName | None = None
    reason: Reason = ""


class RejectRequest(Model, extra="allow"):
    """A pending fact to reject."""

    fact_id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)
    reason: Reason = ""


class ReviewQuery(Model, extra="allow"):
    """A review of a pending fact by query parameters, as the protocol does."""

    target_garden_id: GardenName | None = None
    reason: Reason = ""


class QuarantineReviewRequest(ReviewQuery, extra="allow"):
    """A review of a pending fact in the body, which the protocol does not have. It counts: ignored,
    a fact for the named garden would be stated outside gardens."""

    def over(self, query: ReviewQuery) -> ReviewQuery:
        """The query with what this body names."""
        return query.model_copy(
            update=self.model_dump(include={*ReviewQuery.model_fields}, exclude_unset=True)
        )


class QuarantineQuery(Model, extra="allow"):
    """A filter of quarantined facts."""

    garden_id: GardenName | None = None
    quarantine_status: Literal["pending", "promoted", "admitted", "rejected"] | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=1_000_000_000)


class KeyRequest(Model, extra="allow"):
    """A key to make. The caller chooses the secret; the node keeps only its SHA-256.

    ``sources``: further sources to write as, apart from its own entity: exact, or globs ending in
    ``*``. Default: all for admins, none for others. ``max_classification``: the key does not see
    facts with a higher one.
    """

    raw_key: str = Field(min_length=32, max_length=512, pattern=r"^[\x21-\x7e]+$")
    entity_uri: Uri
    permissions: list[str] = Field(max_length=20)
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=4)
    sources: list[Uri] | None = Field(default=None, max_length=SOURCES_MAX)
    description: str | None = Field(default=None, max_length=KEY_NOTE_LENGTH_MAX)
    expires_at: Instant | None = None
    max_classification: Annotated[int, Field(strict=True, ge=0, le=CEILING)] = CEILING
    tenant_id: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")


class AgentKeyRequest(Model, extra="allow"):
    """An Ed25519 public key for signatures of the caller's entity."""

    public_key: str = Field(min_length=1, max_length=100)
    description: str | None = Field(default=None, max_length=KEY_NOTE_LENGTH_MAX)


class KeysQuery(Model, extra="allow"):
    """``all``: every entity's keys (admin only)."""

    all: bool = False


class ExpiringQuery(Model, extra="allow"):
    """``within_days``: how far to look ahead."""

    within_days: Annotated[int, Field(ge=0, le=3650)] = 30


class TrustQuery(MomentQuery):
    """``source``: only this one, with or without a setting."""

    source: str | None = None
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


class TrustRequest(Model, extra="forbid"):
    """The trust in a source from now on; 0 blocks it."""

    source: Uri
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
