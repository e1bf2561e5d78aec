"""Requests about gardens, their members and quarantine."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import ID_LENGTH_MAX, REASON_LENGTH_MAX
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Flag, Model, Name
from engramlog.eventlog.kinds import GardenRole, Scope

DESCRIPTION_LENGTH_MAX = 4096
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


class GardenRequest(Model, extra="allow"):
    """A garden to create; the caller becomes its admin."""

    slug: Slug
    name: str = Field(min_length=1, max_length=200)
    description: str | None = Field(default=None, max_length=DESCRIPTION_LENGTH_MAX)
    scope: Scope = "company"
    quarantine: Flag = False


class MemberRequest(Model, extra="allow"):
    """A new member of a garden, and its role."""

    entity_uri: Name
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
    """The same by query parameters, as the protocol does."""

    target_garden_id: GardenName | None = None
    reason: Reason = ""


class QuarantineReviewRequest(ReviewQuery, extra="allow"):
    """The same in the body: ignored, the named garden's fact would be stated outside gardens."""

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
