"""Whose capabilities a node believes."""

from __future__ import annotations

from engramlog.api.http.auth import own_issuer
from engramlog.api.node.node import Node
from engramlog.projections.rights.capability_grant import Grant
from engramlog.projections.tables.declared.capability_ring import Issuer

FOREIGN_VERBS = frozenset({"read"})
"""What capabilities of other nodes may do here. Writing would be in the name of subjects that
only their own node knows."""
NEVER_SHARED = frozenset({"local", "team"})


def issuers_of(node: Node) -> dict[str, Issuer]:
    """Whose capabilities the node believes: its own, and those of approved peers that it
    serves, to read what it would serve them."""
    known = {
        peer.node_id: Issuer(
            peer.node_id,
            peer.public_key,
            Grant(FOREIGN_VERBS, frozenset(peer.grants.scopes) - NEVER_SHARED),
        )
        for peer in node.reader.known_peers
        if peer.active and peer.grants is not None and peer.grants.serve
    }
    return known | own_issuer(node.node_id, node.public_key)
