"""The registry's peers, as the protocol's federation and capabilities need them."""

from __future__ import annotations

from api.auth import own_issuer
from api.node import Node
from projections.capabilities.grant import Grant
from projections.capabilities.ring import Issuer
from projections.peers import PeerRow
from replay.federation.declaration import stored_key
from replay.protocol.peers import ProtocolPeer

FOREIGN_VERBS = frozenset({"read"})
"""What capabilities of other nodes may do here. Writing would be in the name of subjects that
only their own node knows."""
NEVER_SHARED = frozenset({"local", "team"})


class RegistryBook:
    """Implements ``PeerBook`` over the peers that were declared to the node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def find(self, node_id: str) -> ProtocolPeer | None:
        found = [peer for peer in self._node.reader.known_peers if peer.node_id == node_id]
        return _protocol_peer(found[-1]) if found else None

    def all(self) -> list[ProtocolPeer]:
        return [_protocol_peer(peer) for peer in self._node.reader.known_peers]


def _protocol_peer(peer: PeerRow) -> ProtocolPeer:
    grants = peer.grants
    return ProtocolPeer(
        node_id=peer.node_id,
        node_url=peer.node_url,
        public_key=peer.public_key,
        scopes=frozenset(peer.allowed_scopes if grants is None else grants.scopes),
        active=peer.active,
        pulled=grants is not None and grants.pull,
        served=grants is not None and grants.serve,
    )


def issuers_of(node: Node) -> dict[str, Issuer]:
    """Whose capabilities the node believes: its own, and those of approved peers that it
    serves, to read what it would serve them."""
    known = {
        peer.node_id: Issuer(
            peer.node_id,
            stored_key(peer.public_key),
            Grant(FOREIGN_VERBS, frozenset(peer.grants.scopes) - NEVER_SHARED),
        )
        for peer in node.reader.known_peers
        if peer.active and peer.grants is not None and peer.grants.serve
    }
    return known | own_issuer(node.node_id, node.public_key)
