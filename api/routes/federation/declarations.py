"""Declarations over HTTP: this node's own, and those of nodes that want to be peers."""

from typing import Literal
from uuid import uuid4

from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.same_fields import shaped
from engramlog.api.client.discovery import discovered
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.routes.federation.peers import require_federation
from engramlog.api.schemas.values import Model
from engramlog.eventlog.kinds import PeerDeclared
from engramlog.projections.normalization import URI_LENGTH_MAX
from engramlog.replay.federation.declaration import (
    Declaration,
    declaration_fault,
    declare,
    fingerprint,
    stored_key,
)

routes = Routes("federation")


class DeclarationBody(Model, extra="allow"):
    """A node's signed declaration."""

    node_id: str = Field(min_length=1, max_length=200)
    node_url: str = Field(min_length=1, max_length=URI_LENGTH_MAX)
    federation_pubkey: str = Field(min_length=1, max_length=200)
    allowed_scopes: list[str] = Field(min_length=1, max_length=4)
    signed_at: str = Field(min_length=1, max_length=64)
    declaration_sig: str = Field(min_length=1, max_length=200)


class OwnDeclaration(Declaration, frozen=True, kw_only=True):
    """This node's declaration, to register with a peer, and the key's fingerprint."""

    pubkey_fingerprint: str


class PeerRegistered(Struct):
    """The state of a declaration; ``reason`` if it was rejected."""

    peer_id: str
    status: Literal["pending_approval", "rejected"]
    verified_at: str | None
    reason: str | None
    pubkey_fingerprint: str


@routes.add("GET /v1/federation/declaration", permission="none")
async def own_declaration(call: Call) -> OwnDeclaration:
    """The declaration that this node sends to future peers."""
    scopes = sorted(call.service.peers.open_scopes())
    made = declare(
        call.node.identity, call.service.settings.public_url, scopes, call.node.clock.now_us()
    )
    return shaped(made, OwnDeclaration, pubkey_fingerprint=fingerprint(made.federation_pubkey))


@routes.add("POST /v1/federation/peers", permission="federate", status=201)
async def register_peer(call: Call, body: DeclarationBody) -> PeerRegistered:
    """Register another node's declaration; an administrator must approve it."""
    require_federation(call)
    declaration = shaped(body, Declaration)
    fault = declaration_fault(declaration, insecure=call.service.settings.federation_insecure)
    if fault is None and body.node_id == call.node.node_id:
        fault = "a node is no peer of itself"
    if fault is None:
        fault = await _discovery_fault(call, declaration)
    peer_id = str(uuid4())
    try:
        key = stored_key(body.federation_pubkey)
    except ValueError:
        key = ""
    await call.do(
        PeerDeclared(
            peer_id=peer_id,
            node_id=body.node_id,
            node_url=body.node_url.rstrip("/"),
            public_key=key,
            allowed_scopes=sorted(set(body.allowed_scopes)),
            signed_at=body.signed_at,
            signature=body.declaration_sig,
            fault=fault or "",
        )
    )
    return PeerRegistered(
        peer_id=peer_id,
        status="pending_approval" if fault is None else "rejected",
        verified_at=None,
        # One answer for every failure, which reveals nothing about the address.
        reason=None if fault is None else "could not verify the declaration",
        pubkey_fingerprint=fingerprint(body.federation_pubkey),
    )


async def _discovery_fault(call: Call, declaration: Declaration) -> str | None:
    """Why the node at the declared address is not the declaring one; None if it is."""
    private = call.service.settings.federation_insecure
    found = await discovered(declaration.node_url, private=private)
    if found is None:
        return "cannot read the node's /.well-known/stigmem"
    if found.get("federation_pubkey") != declaration.federation_pubkey:
        return "the node's /.well-known/stigmem shows another federation_pubkey"
    if found.get("node_id") != declaration.node_id:
        return "the node's /.well-known/stigmem shows another node_id"
    return None
