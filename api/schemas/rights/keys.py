"""Requests about API keys."""

from typing import Annotated

from pydantic import Field

from engramlog.api.schemas.values import Instant, Model, Name
from engramlog.eventlog.kinds import Scope
from engramlog.projections.authorization import CEILING

DESCRIPTION_LENGTH_MAX = 1000
SOURCES_MAX = 100
TENANT = "default"
"""The only tenant: use separate nodes or gardens for others."""


class KeyRequest(Model, extra="allow"):
    """A key to make. The caller chooses the secret; the node keeps only its SHA-256.

    ``sources``: further sources to write as, apart from its own entity: exact, or globs ending in
    ``*``. Default: all for admins, none for others. ``max_classification``: the key does not see
    facts with a higher one.
    """

    raw_key: str = Field(min_length=32, max_length=512, pattern=r"^[\x21-\x7e]+$")
    entity_uri: Name
    permissions: list[str] = Field(max_length=20)
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=4)
    sources: list[Name] | None = Field(default=None, max_length=SOURCES_MAX)
    description: str | None = Field(default=None, max_length=DESCRIPTION_LENGTH_MAX)
    expires_at: Instant | None = None
    max_classification: Annotated[int, Field(strict=True, ge=0, le=CEILING)] = CEILING
    tenant_id: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")


class AgentKeyRequest(Model, extra="allow"):
    """An Ed25519 public key for signatures of the caller's entity."""

    public_key: str = Field(min_length=1, max_length=100)
    description: str | None = Field(default=None, max_length=DESCRIPTION_LENGTH_MAX)


class KeysQuery(Model, extra="allow"):
    """``all``: every entity's keys (admin only)."""

    all: bool = False


class ExpiringQuery(Model, extra="allow"):
    """``within_days``: how far to look ahead."""

    within_days: Annotated[int, Field(ge=0, le=3650)] = 30
