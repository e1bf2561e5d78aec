"""Requests about capability tokens."""

from typing import Annotated, Literal

from pydantic import Field

from engramlog.api.schemas.model import Model
from engramlog.api.schemas.values import Instant, Name, Scope
from engramlog.projections.rights.capability_token import BEARER_LENGTH_MAX

LIFETIME_SECONDS_MAX = 90 * 86_400
LIFETIME_SECONDS = 3600
TEXT_LENGTH_MAX = 1000

Verb = Literal["read", "write"]


class CapabilityRequest(Model, extra="forbid"):
    """A capability to sign: with at most the caller's rights.

    ``scopes``: by default all of the caller's. ``entity``: a prefix of the covered entities.
    ``expires_at`` or ``ttl_seconds`` (one hour), at most 90 days.
    """

    subject: Name
    verbs: list[Verb] = Field(default=["read"], min_length=1, max_length=2)
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=4)
    entity: str | None = Field(default=None, min_length=1, max_length=2048)
    ttl_seconds: Annotated[int, Field(ge=1, le=LIFETIME_SECONDS_MAX)] | None = None
    expires_at: Instant | None = None
    description: str | None = Field(default=None, max_length=TEXT_LENGTH_MAX)


class CapabilitiesQuery(Model, extra="forbid"):
    """``all``: every issuer's tokens (admin only)."""

    all: bool = False


class TokenBody(Model, extra="forbid"):
    """A token to inspect."""

    token: str = Field(min_length=1, max_length=BEARER_LENGTH_MAX)


class RevokeBody(Model, extra="forbid"):
    """The reason; and the derived token, if only that one is to end."""

    reason: str = Field(default="", max_length=TEXT_LENGTH_MAX)
    token: str | None = Field(default=None, max_length=BEARER_LENGTH_MAX)


class ProtocolTokenRequest(Model, extra="allow"):
    """The protocol's request (wire 3.8): one verb, one object, no narrowing."""

    issuer: Name
    subject: Name
    verb: str = Field(max_length=100)
    object: str = Field(max_length=4096)
    ttl_seconds: int = Field(default=LIFETIME_SECONDS, ge=1, le=LIFETIME_SECONDS_MAX)


class ProtocolVerifyRequest(Model, extra="allow"):
    """A token's JSON."""

    token_json: str = Field(max_length=BEARER_LENGTH_MAX)


class ProtocolRevokeRequest(Model, extra="allow"):
    """The reason."""

    reason: str = Field(default="", max_length=TEXT_LENGTH_MAX)
