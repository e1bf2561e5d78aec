"""Requests about gardens, their members and quarantine."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engramlog.api.schemas.facts import ID_LENGTH_MAX, REASON_LENGTH_MAX
from engramlog.api.schemas.model import Model
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Flag, Name, Scope
from engramlog.projections.tables.declared.garden_directory import Role

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


class GardenRequest(Model):
    """A garden to create; the caller becomes its admin."""

    model_config = ConfigDict(extra="allow")

    slug: Slug
    name: str = Field(min_length=1, max_length=200)
    description: str | None = Field(default=None, max_length=DESCRIPTION_LENGTH_MAX)
    scope: Scope = "company"
    quarantine: Flag = False


class MemberRequest(Model):
    """A new member of a garden, and its role."""

    model_config = ConfigDict(extra="allow")

    entity_uri: Name
    role: Role = "reader"


class RoleRequest(Model):
    """A member's new role."""

    model_config = ConfigDict(extra="allow")

    role: Role


class PromoteRequest(Model):
    """A pending fact to admit: to the named garden, or outside all gardens."""

    model_config = ConfigDict(extra="allow")

    fact_id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)
    target_garden_id: GardenName | None = None
    reason: Reason = ""


class RejectRequest(Model):
    """A pending fact to reject."""

    model_config = ConfigDict(extra="allow")

    fact_id: str = Field(min_length=1, max_length=ID_LENGTH_MAX)
    reason: Reason = ""


class ReviewQuery(Model):
    """The same by query parameters."""

    model_config = ConfigDict(extra="allow")

    target_garden_id: GardenName | None = None
    reason: Reason = ""


class QuarantineQuery(Model):
    """A filter of quarantined facts."""

    model_config = ConfigDict(extra="allow")

    garden_id: GardenName | None = None
    quarantine_status: Literal["pending", "promoted", "admitted", "rejected"] | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=1_000_000_000)
