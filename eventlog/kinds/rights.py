"""Rights: API keys, agents' keys, gardens, capabilities, organisations' manifests."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from engramlog.eventlog.kinds.payload import EntityUri, GardenId, Payload, Scope


class KeyIssued(Payload, frozen=True, tag="key_issued"):
    """An API key was issued; only its SHA-256 is kept. ``sources``: further sources that the key
    may write as (exact, or suffix-``*`` globs). ``max_classification``: 0 to 2; facts classified
    higher do not exist for it."""

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
    """An API key is revoked."""

    key_id: str
    reason: str = ""


class AgentKeySet(Payload, frozen=True, tag="agent_key_set"):
    """An agent's Ed25519 public key (base64url) is registered, or revoked from now on."""

    key_id: str
    entity_uri: str
    public_key: str
    description: str | None = None
    status: Literal["active", "revoked"] = "active"


GardenRole: TypeAlias = Literal["admin", "writer", "reader", "quarantine:moderator"]


class GardenCreated(Payload, frozen=True, tag="garden_created"):
    """A garden was created: only its members see its facts. Its creator is its first admin."""

    line: ClassVar[str] = "garden"
    garden_id: str
    slug: str
    name: str
    scope: Scope
    created_by: str
    description: str | None = None
    quarantine: bool = False


class GardenMemberSet(Payload, frozen=True, tag="garden_member_set"):
    """A member's role in a garden from now on; null ends the membership."""

    line: ClassVar[str] = "member"
    garden_id: GardenId
    entity_uri: EntityUri
    added_by: EntityUri
    role: GardenRole | None = None


class GardenDeleted(Payload, frozen=True, tag="garden_deleted"):
    """The garden is deleted, with every membership; its facts are hidden from every caller."""

    line: ClassVar[str] = "garden"
    garden_id: str


class CapabilityIssued(Payload, frozen=True, tag="capability_issued"):
    """A capability token was signed. Only the token's SHA-256 (hex) is kept. ``verb`` and
    ``object``: its rights in the protocol's words. ``key_id``: the API key that requested it;
    revoking the key revokes the token."""

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
    """A capability of this event's origin, and all derived from it, is revoked. Recorded once in
    the stream of each scope that the token covers, so that a replay of the scope shows it.
    ``revocation_id``: a token id, or the digest (hex) of a derived token's last block."""

    replicated: ClassVar[bool] = True
    revocation_id: str
    scope: Scope
    reason: str = ""


class OrgManifestSet(Payload, frozen=True, tag="org_manifest_set"):
    """An organisation's manifest (wire 3.8), ``document`` as signed; times in microseconds. It
    replaces the entity's last one."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    document: dict[str, Any]
