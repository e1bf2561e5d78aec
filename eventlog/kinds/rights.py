"""Who may do what: API keys, agents' keys, gardens, capabilities, organisations' manifests."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from engramlog.eventlog.kinds.payload import EntityUri, GardenId, Payload, Scope


class KeyIssued(Payload, frozen=True, tag="key_issued"):
    """An API key exists; only its SHA-256 is kept.

    ``sources``: what the key may write as ``source`` (exact, or suffix-``*`` globs) besides
    its own entity. ``max_classification``: 0 to 2; facts classified higher do not exist for it.
    """

    version: ClassVar[int] = 3
    key_id: str
    entity_uri: str
    permissions: list[str]
    key_sha256: str
    scopes: list[str] = field(default_factory=lambda: ["local", "team", "company", "public"])
    description: str | None = None
    expires_at_us: int | None = None
    tenant_id: str = "default"
    sources: list[str] = field(default_factory=list)
    max_classification: int = 2


class KeyRevoked(Payload, frozen=True, tag="key_revoked"):
    """An API key no longer opens anything."""

    key_id: str
    reason: str = ""


class AgentKeySet(Payload, frozen=True, tag="agent_key_set"):
    """An agent's Ed25519 public key (base64url) is registered, or revoked from here on."""

    key_id: str
    entity_uri: str
    public_key: str
    description: str | None = None
    status: Literal["active", "revoked"] = "active"


GardenRole: TypeAlias = Literal["admin", "writer", "reader", "quarantine:moderator"]


class GardenCreated(Payload, frozen=True, tag="garden_created"):
    """A garden exists: facts in it are its members' alone. Its creator is its first admin."""

    line: ClassVar[str] = "garden"
    garden_id: str
    slug: str
    name: str
    scope: Scope
    created_by: str
    description: str | None = None
    quarantine: bool = False


class GardenMemberSet(Payload, frozen=True, tag="garden_member_set"):
    """A member's role in a garden from here on; null ends the membership."""

    line: ClassVar[str] = "member"
    garden_id: GardenId
    entity_uri: EntityUri
    added_by: EntityUri
    role: GardenRole | None = None


class GardenDeleted(Payload, frozen=True, tag="garden_deleted"):
    """The garden is gone, and with it every membership; its facts are hidden from every caller."""

    line: ClassVar[str] = "garden"
    garden_id: str


class CapabilityIssued(Payload, frozen=True, tag="capability_issued"):
    """A capability token was signed. The token itself is not kept, only its SHA-256 (hex).

    ``verb`` and ``object`` are the protocol's words for what it allows; ``key_id`` is the API
    key that requested it; the key's revocation ends it.
    """

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    expires_at_us: int
    token_sha256: str
    key_id: str | None = None
    description: str | None = None


class CapabilityRevoked(Payload, frozen=True, tag="capability_revoked"):
    """A capability of this event's origin allows nothing from here on, nor does what was
        derived from it. Recorded once in the stream of each scope that the token covers, so that
    a replay of the scope shows it.

        ``revocation_id`` is a token id, or the digest (hex) of a derived token's last block.
    """

    replicated: ClassVar[bool] = True
    revocation_id: str
    scope: Scope
    reason: str = ""


class OrgManifestSet(Payload, frozen=True, tag="org_manifest_set"):
    """An organisation's manifest (wire 3.8), ``document`` as it was signed; times in
    microseconds. It takes the place of the entity's last one."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    document: dict[str, Any]


RightsPayload: TypeAlias = (
    KeyIssued
    | KeyRevoked
    | AgentKeySet
    | GardenCreated
    | GardenMemberSet
    | GardenDeleted
    | CapabilityIssued
    | CapabilityRevoked
    | OrgManifestSet
)
