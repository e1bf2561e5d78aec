"""API keys: who may call this node, minted by admins, revoked by their owner or an admin."""

from __future__ import annotations

import hashlib

from aiohttp import web

from api.auth import require
from api.bodies import answer
from api.call import Call, warned
from api.commands.naming import stored_uri
from api.errors import ApiError, coded, entry, plain, unprocessable
from api.schemas.keys import ExpiringQuery, KeyRequest, KeysQuery
from projections.authorization import PERMISSIONS
from projections.intents import IssueKey, RevokeKey
from projections.keys import KeyRow
from projections.moment import format_instant, parse_instant
from projections.normalization import SCOPES

DAY_US = 86_400_000_000
LIFETIME_DAYS = 90
DEFAULT_TENANT = "default"


async def create_key(call: Call) -> web.Response:
    """Accept a key. Only its SHA-256 is kept."""
    request = await call.body(KeyRequest)
    unknown = sorted(set(request.permissions) - set(PERMISSIONS))
    if unknown:
        raise ApiError(400, f"unknown permissions: {unknown}")
    if "replicate" in request.permissions and not call.authorization.every_garden:
        # It reads gardens too, which an admin of the node may not.
        raise ApiError(403, "only the machine's own command line can grant replicate")
    scopes = _scopes(call, request)
    now_us = call.node.clock.now_us()
    expires_us = now_us + LIFETIME_DAYS * DAY_US
    if request.expires_at is not None:
        expires_us = parse_instant(request.expires_at)
    intent = IssueKey(
        entity_uri=stored_uri(request.entity_uri),
        permissions=tuple(sorted(set(request.permissions))),
        key_sha256=hashlib.sha256(request.raw_key.encode()).hexdigest(),
        scopes=scopes,
        description=request.description,
        expires_at_us=expires_us,
        sources=_sources(call, request),
        max_classification=min(request.max_classification, call.authorization.ceiling),
    )
    done = await call.do(intent)
    body = {
        "id": done.detail["key_id"],
        "entity_uri": intent.entity_uri,
        "permissions": list(intent.permissions),
        "description": intent.description,
        "created_at": _seconds(now_us),
        "expires_at": _seconds(expires_us),
        "tenant_id": DEFAULT_TENANT,
        "scopes": list(scopes),
        "sources": [intent.entity_uri, *intent.sources],
        "max_classification": intent.max_classification,
    }
    return answer(warned(body, request), 201)


def _scopes(call: Call, request: KeyRequest) -> tuple[str, ...]:
    """The new key's scopes: at most the caller's own."""
    own = call.authorization.scopes
    wanted = own if request.scopes is None else frozenset(request.scopes)
    beyond = sorted(wanted - own)
    if beyond:
        raise coded("scope_forbidden", f"this key does not cover scopes {beyond}")
    return tuple(scope for scope in SCOPES if scope in wanted)


def _sources(call: Call, request: KeyRequest) -> tuple[str, ...]:
    """What the new key may write as besides its own entity: at most what the caller may."""
    if request.sources is None:
        wanted = call.authorization.sources if "admin" in request.permissions else ()
        return tuple(sorted(set(wanted)))
    wanted = tuple(sorted({_source(text) for text in request.sources}))
    beyond = [text for text in wanted if not call.authorization.writes_as(text)]
    if beyond:
        raise coded("source_forbidden", f"this key may not write as {beyond}")
    return wanted


def _source(text: str) -> str:
    """A source, or a glob of them, in stored form. Raises ApiError 400 or 422."""
    if "*" in text[:-1]:
        raise unprocessable(
            [entry("source_glob", ["body", "sources"], "'*' may only end a source", text)]
        )
    return text.strip().lower() if text.endswith("*") else stored_uri(text)


async def list_keys(call: Call) -> web.Response:
    """The caller's own keys; with ``all=true`` an admin sees everybody's."""
    query = call.query(KeysQuery)
    return answer([_listed(row) for row in _rows(call, everybody=query.all)])


async def expiring_keys(call: Call) -> web.Response:
    """Those of the listed keys that expire within ``within_days``."""
    query = call.query(ExpiringQuery)
    horizon_us = call.node.clock.now_us() + query.within_days * DAY_US
    return answer(
        [
            _listed(row)
            for row in _rows(call, everybody=query.all)
            if row.expires_at_us is not None and row.expires_at_us <= horizon_us
        ]
    )


async def revoke_key(call: Call) -> web.Response:
    """The key opens nothing any more."""
    key_id = call.segment("key_id")
    row = call.node.reader.keys.get(key_id)
    if row is None:
        raise plain("key_not_found")
    if row.entity_uri != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "Cannot revoke another entity's key")
    await call.do(RevokeKey(key_id=key_id))
    return web.Response(status=204)


def _rows(call: Call, *, everybody: bool) -> list[KeyRow]:
    if everybody:
        require(call.caller, "admin")
        return call.node.reader.keys.list()
    return call.node.reader.keys.list(call.caller.principal)


def _listed(row: KeyRow) -> dict[str, object]:
    return {
        "id": row.key_id,
        "entity_uri": row.entity_uri,
        "permissions": list(row.permissions),
        "description": row.description,
        "created_at": _seconds(row.created_at_us),
        "expires_at": None if row.expires_at_us is None else _seconds(row.expires_at_us),
        "oidc_sub": None,
        "scopes": list(row.scopes),
        "max_classification": row.max_classification,
        "sources": [row.entity_uri, *row.sources],
    }


def _seconds(instant_us: int) -> str:
    """``2026-11-20T20:33:17+00:00``: the protocol writes keys' times in whole seconds."""
    text = format_instant(instant_us)
    return text[:19] + text[26:]
