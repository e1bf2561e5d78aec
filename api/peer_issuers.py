"""Whose capabilities this node believes, and for how much."""

from __future__ import annotations

from api.auth import own_issuer
from api.node import Node
from api.peering import Peers
from projections.capabilities.grant import Grant
from projections.capabilities.ring import Issuer

FOREIGN_VERBS = frozenset({"read"})
"""What capabilities of other nodes may do here. Writing would be in the name of subjects that
only their own node knows."""


def issuers_of(node: Node, peers: Peers) -> dict[str, Issuer]:
    """Its own, and those of approved peers that it serves, to read what it would serve them."""
    known = {
        row.node_id: Issuer(
            row.node_id,
            row.public_key,
            Grant(FOREIGN_VERBS, frozenset(row.grants.scopes) & peers.open_scopes()),
        )
        for row in peers.rows().values()
        if row.active and row.grants is not None and row.grants.serve
    }
    return known | own_issuer(node.node_id, node.public_key)
