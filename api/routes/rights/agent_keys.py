"""Agents' public keys over HTTP (wire 1.6)."""

from typing import Literal
from uuid import uuid4

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.attestations import PUBLIC_KEY_BYTES, decoded
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.rights import AgentKeyRequest
from engramlog.eventlog.kinds import AgentKeySet
from engramlog.projections.tables.declared.agent_keys import AgentKeyRow
from engramlog.projections.writing.commands import RevokeAgentKey

routes = Routes("keys")


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
    row = call.node.reader.agent_keys.get(key_id)
    if row is None:
        raise plain("agent_key_not_found")
    if row.entity_uri != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "cannot revoke another entity's key")
    await call.do(RevokeAgentKey(key_id=key_id))


def _wire(row: AgentKeyRow) -> AgentKey:
    return shaped(row, AgentKey, id=row.key_id)
