"""API keys: admins make them; their owner or an admin revokes them."""

import hashlib
import math
from typing import Literal
from uuid import uuid4

from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import Warned, Warnings
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.attestations import PUBLIC_KEY_BYTES, decoded
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.auth import require
from engramlog.api.http.call import Call, ignored
from engramlog.api.http.errors import ApiError, coded, existing, invalid
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.rights import (
    TENANT,
    AgentKeyRequest,
    ExpiringQuery,
    KeyRequest,
    KeysQuery,
)
from engramlog.api.schemas.values import ScopeText
from engramlog.eventlog.kinds import AgentKeySet, KeyIssued, KeyRevoked
from engramlog.projections.authorization import PERMISSIONS
from engramlog.projections.moment import DAY_US, SECOND_US, format_instant, parse_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.agent_keys import AgentKeyRow
from engramlog.projections.tables.declared.keys import KeyRow
from engramlog.projections.writing.commands import RevokeAgentKey

routes = Routes("keys")

LIFETIME_DAYS = 90


class KeyRecord(Struct, kw_only=True):
    """A key without its secret. ``days_remaining``, of keys that expire soon: whole days, rounded
    up."""

    id: str
    entity_uri: str
    permissions: list[str]
    description: str | None
    created_at: str
    expires_at: str | None
    oidc_sub: UnsetType | None = UNSET
    tenant_id: str | UnsetType = UNSET
    scopes: list[ScopeText]
    sources: list[str]
    max_classification: int
    days_remaining: int | UnsetType = UNSET
    warnings: Warnings = UNSET


@routes.add("POST /v1/auth/keys", permission="admin", status=201)
async def create_key(call: Call, request: KeyRequest) -> KeyRecord:
    """Make an API key. The node keeps only its SHA-256."""
    if not request.permissions:
        raise ApiError(400, "permissions must name at least one permission")
    unknown = sorted(set(request.permissions) - set(PERMISSIONS))
    if unknown:
        raise ApiError(400, f"unknown permissions: {unknown}; known: {sorted(PERMISSIONS)}")
    if "replicate" in request.permissions and not call.authorization.every_garden:
        # Replicas read gardens too, which admins of the node may not.
        raise ApiError(403, "only the machine's own command line can grant replicate")
    scopes = _scopes(call, request)
    now_us = call.node.clock.now_us()
    expires_us = now_us - now_us % SECOND_US + LIFETIME_DAYS * DAY_US
    if request.expires_at is not None:
        expires_us = parse_instant(request.expires_at)
        if expires_us <= now_us:
            raise invalid("lifetime", ["body", "expires_at"], "must be in the future")
        if expires_us > now_us + LIFETIME_DAYS * DAY_US:
            raise ApiError(400, f"expires_at exceeds the keys' max age of {LIFETIME_DAYS} days")
    command = KeyIssued(
        key_id=str(uuid4()),
        entity_uri=stored_uri(request.entity_uri),
        permissions=sorted(set(request.permissions)),
        key_sha256=hashlib.sha256(request.raw_key.encode()).hexdigest(),
        scopes=list(scopes),
        description=request.description,
        expires_at_us=expires_us,
        sources=list(_sources(call, request)),
        max_classification=min(request.max_classification, call.authorization.ceiling),
    )
    done = await call.do(command)
    row = existing(call.node.reader.keys.get(done.detail["key_id"]), "key_not_found")
    record = _listed(row)
    record.oidc_sub, record.tenant_id = UNSET, TENANT
    record.warnings = _warnings(request) or UNSET
    return record


def _warnings(request: KeyRequest) -> list[str]:
    """The parts of the request that the key will not have."""
    if request.tenant_id in (None, TENANT):
        return ignored(request)
    warning = (
        f"tenant_id {request.tenant_id!r} is ignored: scopes and gardens limit a key; for "
        "tenants, use separate nodes or gardens"
    )
    return [*ignored(request), warning]


def _scopes(call: Call, request: KeyRequest) -> tuple[str, ...]:
    """The new key's scopes: at most the caller's own."""
    own = call.authorization.scopes
    wanted = own if request.scopes is None else frozenset(request.scopes)
    call.check_scopes(wanted)
    return tuple(scope for scope in SCOPES if scope in wanted)


def _sources(call: Call, request: KeyRequest) -> tuple[str, ...]:
    """The further sources that the new key may write as: at most the caller's."""
    if request.sources is None:
        wanted = call.authorization.sources if "admin" in request.permissions else ()
        return tuple(sorted(set(wanted)))
    wanted = tuple(sorted({_source(text) for text in request.sources}))
    beyond = [text for text in wanted if not call.authorization.writes_as(text)]
    if beyond:
        raise coded("source_forbidden", f"this key may not write as {beyond}")
    return wanted


def _source(text: str) -> str:
    """A source, or a glob of sources, in stored form. Raises ApiError 400 or 422."""
    if "*" in text[:-1]:
        raise invalid("source_glob", ["body", "sources"], "'*' may only end a source", text)
    return text.strip().lower() if text.endswith("*") else stored_uri(text)


@routes.add("GET /v1/auth/keys", permission="any", errors=(403,))
async def list_keys(call: Call, query: KeysQuery) -> list[KeyRecord]:
    """The caller's own keys; ``all=true`` lists all owners' for admins."""
    if query.all:
        require(call.caller, "admin")
    rows = call.node.reader.keys.list(None if query.all else call.caller.principal)
    return [_listed(row) for row in rows]


@routes.add("GET /v1/auth/keys/expiring-soon", permission="admin")
async def expiring_keys(call: Call, query: ExpiringQuery) -> list[KeyRecord]:
    """Every key that expires within ``within_days``, soonest first."""
    now_us = call.node.clock.now_us()
    horizon_us = now_us + query.within_days * DAY_US
    due = [
        (row.expires_at_us, row)
        for row in call.node.reader.keys.list()
        if row.expires_at_us is not None and now_us < row.expires_at_us <= horizon_us
    ]
    return [
        _listed(row, math.ceil((expires_us - now_us) / DAY_US))
        for expires_us, row in sorted(due, key=lambda each: each[0])
    ]


@routes.add("DELETE /v1/auth/keys/{key_id}", permission="any", status=204, errors=(403, 503, 507))
async def revoke_key(call: Call) -> None:
    """Revoke a key: it opens nothing from now on."""
    key_id = call.segment("key_id")
    row = existing(call.node.reader.keys.get(key_id), "key_not_found")
    if row.entity_uri != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "Cannot revoke another entity's key")
    await call.do(KeyRevoked(key_id=key_id))


def _listed(row: KeyRow, days_remaining: int | None = None) -> KeyRecord:
    return shaped(
        row,
        KeyRecord,
        id=row.key_id,
        created_at=_seconds(row.created_at_us),
        expires_at=None if row.expires_at_us is None else _isoformat(row.expires_at_us),
        oidc_sub=None,
        tenant_id=UNSET if days_remaining is None else TENANT,
        sources=[row.entity_uri, *row.sources],
        days_remaining=UNSET if days_remaining is None else days_remaining,
    )


def _isoformat(instant_us: int) -> str:
    """An instant in Python's form: microseconds only if not zero."""
    return format_instant(instant_us) if instant_us % 1_000_000 else _seconds(instant_us)


def _seconds(instant_us: int) -> str:
    """``2026-11-20T20:33:17+00:00``: the protocol writes keys' times in whole seconds."""
    text = format_instant(instant_us)
    return text[:19] + text[26:]


class AgentKey(Warned):
    """An agent's public key."""

    id: str
    entity_uri: str
    public_key: str
    description: str | None
    registered_at: str
    status: Literal["active", "revoked"]


@routes.add("POST /v1/auth/agent-keys", permission="write", status=201)
async def register(call: Call, request: AgentKeyRequest) -> AgentKey:
    """Register an Ed25519 public key for the caller's entity."""
    try:
        size = len(decoded(request.public_key))
    except ValueError as fault:
        raise ApiError(400, f"invalid Ed25519 public key: {fault}") from fault
    if size != PUBLIC_KEY_BYTES:
        raise ApiError(400, f"invalid Ed25519 public key: {size} bytes, must be 32")
    command = AgentKeySet(
        key_id=str(uuid4()),
        entity_uri=call.caller.principal,
        public_key=request.public_key.rstrip("="),
        description=request.description,
    )
    await call.do(command)
    row = call.node.reader.agent_keys[command.key_id]
    return _wire(row)


@routes.add("GET /v1/auth/agent-keys", permission="any")
async def list_own(call: Call) -> list[AgentKey]:
    """The keys of the caller's entity, active and revoked, newest first."""
    rows = call.node.reader.agent_keys.values()
    return [_wire(row) for row in rows if row.entity_uri == call.caller.principal]


@routes.add(
    "DELETE /v1/auth/agent-keys/{key_id}",
    permission="any",
    status=204,
    errors=(403, 409, 503, 507),
)
async def revoke(call: Call) -> None:
    """Revoke a key: it attests nothing from now on."""
    key_id = call.segment("key_id")
    row = existing(call.node.reader.agent_keys.get(key_id), "agent_key_not_found")
    if row.entity_uri != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "cannot revoke another entity's key")
    await call.do(RevokeAgentKey(key_id=key_id))


def _wire(row: AgentKeyRow) -> AgentKey:
    return shaped(row, AgentKey, id=row.key_id)
