"""Capability tokens: signed for a holder, with at most the caller's rights."""

from typing import Annotated, Literal
from uuid import uuid4

from msgspec import UNSET, Struct, UnsetType
from pydantic import Field

from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import check_source
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.auth import require
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, coded, existing, invalid
from engramlog.api.http.routing import Routes
from engramlog.api.node.issuers import issuers_of
from engramlog.api.schemas.values import Instant, Model, Name, Position
from engramlog.eventlog.kinds import CapabilityIssued, Scope
from engramlog.projections.authorization import CEILING
from engramlog.projections.moment import LIVE, SECOND_US, format_instant, parse_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.rights.capability_grant import VERBS, Grant, GrantError, stored_prefix
from engramlog.projections.rights.capability_token import (
    BEARER_LENGTH_MAX,
    LIFETIME_US_MAX,
    Capability,
    CapabilityInvalid,
    encode_bearer,
    issue,
)
from engramlog.projections.rights.capability_verification import VerifiedToken
from engramlog.projections.tables.declared.capabilities import CapabilityRow, capabilities_before
from engramlog.projections.writing.commands import RevokeCapability

routes = Routes("capabilities")


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
    """``all``: every issuer's tokens (admin only); ``cursor``: of the page before."""

    all: bool = False
    cursor: Position | None = None
    limit: int = Field(default=500, ge=1, le=500)


class TokenBody(Model, extra="forbid"):
    """A token to inspect."""

    token: str = Field(min_length=1, max_length=BEARER_LENGTH_MAX)


class RevokeBody(Model, extra="forbid"):
    """The reason; and the derived token, if only that one is to end."""

    reason: str = Field(default="", max_length=TEXT_LENGTH_MAX)
    token: str | None = Field(default=None, max_length=BEARER_LENGTH_MAX)


class CapabilityRecord(Struct):
    """A token as listed. ``status``: active, expired or revoked."""

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    issued_at: str
    expiry: str
    status: str
    description: str | None


class IssuedCapability(CapabilityRecord):
    """A new token; ``token`` appears only here."""

    token: str


class CapabilityPage(Struct):
    """Tokens of the caller, or of all callers. ``cursor``: requests the next page; null on the last
    one."""

    capabilities: list[CapabilityRecord]
    cursor: int | None


class CapabilityClaims(Struct):
    """A token's readable claims, and whether this node accepts it now (``reason`` if not)."""

    valid: bool
    reason: str | None
    token_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET
    issuer: str | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    verbs: list[str] | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    entities: list[str] | UnsetType = UNSET
    issued_at: str | UnsetType = UNSET
    expiry: str | UnsetType = UNSET
    blocks: int | UnsetType = UNSET


class RevokedCapability(Struct):
    """The revocation of a token."""

    token_id: str
    revoked_at: str
    status: str = "revoked"


@routes.add("POST /v1/capabilities", permission="any", status=201, errors=(403, 503, 507))
async def issue_capability(call: Call, request: CapabilityRequest) -> IssuedCapability:
    """Sign a token that its holder can narrow without this node."""
    own = call.authorization
    scopes = own.scopes if request.scopes is None else frozenset(request.scopes)
    try:
        entities = () if request.entity is None else (stored_prefix(request.entity),)
    except GrantError as fault:
        raise invalid("entity_prefix", ["body", "entity"], str(fault), request.entity) from fault
    grant = Grant(frozenset(request.verbs), scopes, entities)
    now_us = call.node.clock.now_us()
    expires_us = _expiry(request, now_us)
    row, token = await issued(
        call, request.subject, grant, now_us, expires_us, request.description, narrowable=True
    )
    return shaped(_listed(call, row), IssuedCapability, token=encode_bearer(token))


def _expiry(request: CapabilityRequest, now_us: int) -> int:
    if request.expires_at is None:
        return now_us + (request.ttl_seconds or LIFETIME_SECONDS) * SECOND_US
    if request.ttl_seconds is not None:
        raise invalid("one_of", ["body", "expires_at"], "give expires_at or ttl_seconds, not both")
    expires_us = parse_instant(request.expires_at)
    if not now_us < expires_us <= now_us + LIFETIME_US_MAX:
        raise invalid("lifetime", ["body", "expires_at"], "must be within the next 90 days")
    return expires_us


async def issued(
    call: Call,
    subject_text: str,
    grant: Grant,
    now_us: int,
    expires_us: int,
    description: str | None,
    *,
    narrowable: bool,
) -> tuple[CapabilityRow, Capability]:
    """A new token, recorded. Raises ApiError 403 if the caller may not issue it."""
    subject = stored_uri(subject_text)
    _check_rights(call, subject, grant)
    key = call.node.reader.keys.get(call.caller.key_id or "")
    if key is not None and key.expires_at_us is not None:
        expires_us = min(expires_us, key.expires_at_us)
    token = issue(
        call.node.identity,
        issuer=call.caller.principal,
        subject=subject,
        grant=grant,
        issued_at_us=now_us,
        expires_at_us=expires_us,
        narrowable=narrowable,
        token_id=str(uuid4()),
    )
    verified = call.node.reader.capabilities.read(encode_bearer(token))
    await call.do(
        CapabilityIssued(
            token_id=verified.token_id,
            issuer=verified.issuer,
            subject=subject,
            verb=grant.verb,
            object=grant.object,
            expires_at_us=expires_us,
            token_sha256=verified.digest.hex(),
            key_id=call.caller.key_id,
            description=description,
        )
    )
    row = existing(call.node.reader.capabilities.get(verified.token_id), "capability_not_found")
    return row, token


def _check_rights(call: Call, subject: str, grant: Grant) -> None:
    """Raises ApiError 403 if the token would exceed its issuer's rights."""
    own = call.authorization
    beyond = sorted({f"verb {verb!r}" for verb in grant.verbs if not own.may(verb)})
    beyond += [f"scope {scope!r}" for scope in SCOPES if scope in grant.scopes - own.scopes]
    if own.ceiling < CEILING:  # tokens do not limit classifications
        beyond.append("every classification that its holder would read")
    if beyond:
        raise coded("capability_exceeds_rights", f"you do not have {', '.join(beyond)} yourself")
    if "write" in grant.verbs:
        check_source(call, subject)  # its holder will write as this subject


@routes.add("GET /v1/capabilities", permission="any", errors=(403,))
async def list_capabilities(call: Call, query: CapabilitiesQuery) -> CapabilityPage:
    """The tokens that the caller issued, newest first; ``all=true`` lists all issuers' for
    admins."""
    if query.all:
        require(call.caller, "admin")
    issuer = None if query.all else call.caller.principal
    before = LIVE if query.cursor is None else query.cursor
    rows = call.node.reader.ask(capabilities_before, before, query.limit + 1, issuer)
    shown = rows[: query.limit]
    more = shown[-1].from_position if len(rows) > len(shown) else None
    return CapabilityPage([_listed(call, row) for row in shown], more)


@routes.add(
    "POST /v1/capabilities/{token_id}/revoke",
    permission="any",
    body_required=False,
    errors=(403, 409, 503, 507),
)
async def revoke_capability(call: Call, request: RevokeBody) -> RevokedCapability:
    """Revoke a token, or one derived from it: it allows nothing from now on, at any node."""
    token_id = call.segment("token_id")
    revocation_id = ""
    if request.token is not None:
        verified = _read(call, request.token)
        if verified.token_id != token_id:
            raise coded("invalid_capability", "the token is not derived from this capability")
        revocation_id = verified.revocation_ids[-1]
    return await revoked(call, token_id, request.reason, revocation_id)


async def revoked(call: Call, token_id: str, reason: str, revocation_id: str) -> RevokedCapability:
    """Revoke a token, or the derived one that ``revocation_id`` names. Raises ApiError 403, 404."""
    row = call.node.reader.capabilities.get(token_id)
    if row is None:
        raise coded("capability_not_found", "capability not found")
    is_party = call.caller.principal in (row.issuer, row.subject)
    if not is_party and not call.authorization.may("admin"):
        refused = "not authorized to revoke this token: caller is not the issuer or subject"
        raise ApiError(403, refused)
    await call.do(
        RevokeCapability(
            token_id=token_id,
            node_id=call.node.identity.node_id,
            revocation_id=revocation_id,
            reason=reason,
        )
    )
    return RevokedCapability(token_id, format_instant(call.node.clock.now_us()))


@routes.add("POST /v1/capabilities/inspect", permission="any", delegable=True)
async def inspect_capability(call: Call, request: TokenBody) -> CapabilityClaims:
    """A token's claims after all narrowing, and whether it is valid here and now."""
    ring = call.node.reader.capabilities
    try:
        verified = ring.read(request.token)
    except CapabilityInvalid as fault:
        return CapabilityClaims(valid=False, reason=str(fault.args[-1]))
    return claims(verified, fault_here(call, request.token))


def claims(verified: VerifiedToken, fault: str | None) -> CapabilityClaims:
    """The claims of a verified token; ``fault``: why it is not valid."""
    grant = verified.grant
    return shaped(
        verified,
        CapabilityClaims,
        valid=fault is None,
        reason=fault,
        verbs=[verb for verb in VERBS if verb in grant.verbs],
        scopes=[scope for scope in SCOPES if scope in grant.scopes],
        entities=list(grant.entities),
        expiry=format_instant(verified.expires_at_us),
        blocks=len(verified.revocation_ids) - 1,
    )


def fault_here(call: Call, text: str) -> str | None:
    """Why this node does not accept the token now, in the protocol's words."""
    try:
        call.node.reader.capabilities.accept(text, issuers_of(call.node), call.node.clock.now_us())
    except CapabilityInvalid as fault:
        return str(fault.args[0])
    return None


def _read(call: Call, text: str) -> VerifiedToken:
    try:
        return call.node.reader.capabilities.read(text)
    except CapabilityInvalid as fault:
        raise coded("invalid_capability", str(fault.args[-1])) from fault


def _listed(call: Call, row: CapabilityRow) -> CapabilityRecord:
    node_id = call.node.identity.node_id
    status = "active"
    if row.token_id in call.node.reader.capabilities.revoked(node_id):
        status = "revoked"
    elif row.expires_at_us <= call.node.clock.now_us():
        status = "expired"
    return shaped(row, CapabilityRecord, expiry=format_instant(row.expires_at_us), status=status)
