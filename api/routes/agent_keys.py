"""Agents' public keys over HTTP (wire 1.6)."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.attesting import PUBLIC_KEY_BYTES, decoded
from api.errors import ApiError, plain
from api.schemas.keys import AgentKeyRequest
from projections.agent_keys import AgentKeyRow
from projections.intents import RegisterAgentKey, RevokeAgentKey
from projections.moment import format_instant


async def register(call: Call) -> web.Response:
    """Register an Ed25519 public key for the caller's entity."""
    request = await call.body(AgentKeyRequest)
    try:
        size = len(decoded(request.public_key))
    except ValueError as fault:
        raise ApiError(400, f"invalid Ed25519 public key: {fault}") from fault
    if size != PUBLIC_KEY_BYTES:
        raise ApiError(400, f"invalid Ed25519 public key: {size} bytes, must be 32")
    intent = RegisterAgentKey(
        entity_uri=call.caller.principal,
        public_key=request.public_key.rstrip("="),
        description=request.description,
    )
    done = await call.do(intent)
    row = call.node.reader.agent_keys[done.detail["key_id"]]
    return answer(warned(_wire(row), request), 201)


async def list_own(call: Call) -> web.Response:
    """The keys of the caller's entity, active and revoked, newest first."""
    rows = call.node.reader.agent_keys.values()
    return answer([_wire(row) for row in rows if row.entity_uri == call.caller.principal])


async def revoke(call: Call) -> web.Response:
    """The key attests nothing any more."""
    key_id = call.segment("key_id")
    row = call.node.reader.agent_keys.get(key_id)
    if row is None:
        raise plain("agent_key_not_found")
    if row.entity_uri != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "cannot revoke another entity's key")
    await call.do(RevokeAgentKey(key_id=key_id))
    return web.Response(status=204)


def _wire(row: AgentKeyRow) -> dict[str, Any]:
    return {
        "id": row.key_id,
        "entity_uri": row.entity_uri,
        "public_key": row.public_key,
        "description": row.description,
        "registered_at": format_instant(row.registered_at),
        "status": row.status,
    }
