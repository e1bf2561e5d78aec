"""Capability tokens in the protocol's form (wire 3.8): plain JSON."""

import msgspec
from msgspec import UNSET, Struct, UnsetType
from pydantic import Field

from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.http.routing import Routes
from engramlog.api.routes.rights.capabilities import (
    LIFETIME_SECONDS,
    LIFETIME_SECONDS_MAX,
    TEXT_LENGTH_MAX,
    RevokedCapability,
    fault_here,
    issued,
    revoked,
)
from engramlog.api.schemas.values import Model, Name
from engramlog.projections.moment import SECOND_US
from engramlog.projections.rights.capability_grant import GrantError, parse_grant
from engramlog.projections.rights.capability_token import BEARER_LENGTH_MAX, Root
from engramlog.projections.tables.declared.manifests import load_manifest

routes = Routes("capabilities")


class ProtocolTokenRequest(Model, extra="allow"):
    """The protocol's request: one verb, one object, no narrowing."""

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


class ProtocolToken(Struct):
    """The protocol's answer to a new token."""

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    issued_at: str
    expiry: str
    nonce: str
    token_json: str


class ProtocolVerified(Struct):
    """The protocol's answer to a verification."""

    valid: bool
    reason: str | UnsetType = UNSET


@routes.add(
    "POST /v1/federation/capability-tokens",
    permission="any",
    status=201,
    errors=(403, 503, 507),
)
async def protocol_issue(call: Call, request: ProtocolTokenRequest) -> ProtocolToken:
    """Sign a token in plain JSON: its holder cannot narrow it."""
    if stored_uri(request.issuer) != call.caller.principal:
        raise ApiError(403, "issuer must be the caller")
    try:
        grant = parse_grant(request.verb, request.object)
    except GrantError as fault:
        raise coded("invalid_capability", str(fault)) from fault
    now_us = call.node.clock.now_us()
    _check_manifest(call, stored_uri(request.subject), now_us)
    expires_us = now_us + request.ttl_seconds * SECOND_US
    _, token = await issued(
        call, request.subject, grant, now_us, expires_us, None, narrowable=False
    )
    root = msgspec.json.decode(token.root, type=Root)
    return shaped(root, ProtocolToken, token_json=token.root)


def _check_manifest(call: Call, subject: str, now_us: int) -> None:
    """Raises ApiError 403 if the issuer's manifest, if any, leaves out the subject."""
    issuer = call.caller.principal
    manifest = call.node.reader.ask(load_manifest, issuer)
    if manifest is None or manifest.expires_at_us <= now_us or subject == issuer:
        return
    if subject not in {stored_uri(entity) for entity in manifest.entities}:
        raise ApiError(403, "subject is not in the issuer's manifest")


@routes.add("POST /v1/federation/capability-tokens/verify", permission="any", delegable=True)
async def protocol_verify(call: Call, request: ProtocolVerifyRequest) -> ProtocolVerified:
    """Whether a JSON token is valid here and now."""
    reason = fault_here(call, request.token_json)
    if reason is None:
        return ProtocolVerified(valid=True)
    known = ("token_revoked", "token_expired")
    return ProtocolVerified(valid=False, reason=reason if reason in known else "token_invalid")


@routes.add(
    "POST /v1/federation/capability-tokens/{token_id}/revoke",
    permission="any",
    body_required=False,
    errors=(403, 409, 503, 507),
)
async def protocol_revoke(call: Call, request: ProtocolRevokeRequest) -> RevokedCapability:
    """Revoke a token: it allows nothing from now on."""
    return await revoked(call, call.segment("token_id"), request.reason, "")
