"""Requests of peering and of the replay of streams."""

from typing import Literal

from pydantic import Field

from engramlog.api.schemas.model import Model
from engramlog.replay.federation.page import PAGE_EVENTS_MAX

WAIT_SECONDS_MAX = 30.0
TEXT_MAX = 2_048


class DeclarationBody(Model, extra="allow"):
    """A node's signed declaration (wire 3.1)."""

    node_id: str = Field(min_length=1, max_length=200)
    node_url: str = Field(min_length=1, max_length=TEXT_MAX)
    federation_pubkey: str = Field(min_length=1, max_length=200)
    allowed_scopes: list[str] = Field(min_length=1, max_length=4)
    signed_at: str = Field(min_length=1, max_length=64)
    declaration_sig: str = Field(min_length=1, max_length=200)


class GrantsBody(Model, extra="forbid"):
    """The rights of a peer here. ``scopes``: by default those of its declaration."""

    scopes: list[Literal["local", "team", "company", "public"]] | None = None
    gardens: list[str] = Field(default=[], max_length=1_000)
    wire: Literal["events", "facts"] | None = None
    pull: bool = True
    serve: bool = True
    retract_foreign: bool = False
    resolve_foreign: bool = False
    erase_foreign: bool = False
    instructions: bool = False


class ApproveBody(Model, extra="allow"):
    """The fingerprint from the peer's operator, and the peer's grants."""

    pubkey_fingerprint: str = Field(min_length=1, max_length=100)
    grants: GrantsBody = GrantsBody()


class ReasonBody(Model, extra="forbid"):
    """The reason."""

    reason: str = Field(default="", max_length=1_000)


class ReleaseBody(Model, extra="forbid"):
    """The stream to resume; ``reason`` for the log."""

    stream: str = Field(min_length=1, max_length=TEXT_MAX)
    reason: str = Field(default="", max_length=1_000)


class StreamsQuery(Model, extra="forbid"):
    """``seen``: the ETag of the known heads; ``wait_s``: how long to wait for others."""

    seen: str = Field(default="", max_length=100)
    wait_s: float = Field(default=0.0, ge=0.0, le=WAIT_SECONDS_MAX)


class StreamEventsQuery(Model, extra="forbid"):
    """Events of ``stream`` after the sequence ``after``."""

    stream: str = Field(min_length=1, max_length=TEXT_MAX)
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=PAGE_EVENTS_MAX, ge=1, le=PAGE_EVENTS_MAX)
