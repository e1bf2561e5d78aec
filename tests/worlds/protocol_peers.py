"""Peers of the protocol's own federation, declared over HTTP."""

from __future__ import annotations

import base64

from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from engramlog.projections.writing.commands import Refused
from engramlog.replay.federation.declaration import stored_key
from tests.worlds.live import LiveNode


def own_key(live: LiveNode) -> str:
    raw = base64.b64decode(live.node.identity.public_key_b64)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def declared(live: LiveNode, node_id: str, url: str, key: str, grants: PeerGrants) -> None:
    """A peer of the registry, approved."""
    shape = {"node_id": node_id, "node_url": url, "public_key": stored_key(key)}
    outcomes = live.node.write(
        PeerDeclared(
            peer_id=f"peer-of-{node_id}",
            allowed_scopes=list(grants.scopes),
            signed_at="2026-01-01T00:00:00Z",
            signature="checked elsewhere",
            **shape,
        ),
        PeerStateSet(peer_id=f"peer-of-{node_id}", state="active", grants=grants),
    )
    assert not any(isinstance(outcome, Refused) for outcome in outcomes)
