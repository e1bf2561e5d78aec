"""Whose capabilities a node believes."""

from engramlog.api.node.node import Node
from engramlog.projections.rights.capability_grant import VERBS, Grant
from engramlog.projections.tables.declared.capability_ring import Issuer

FOREIGN_VERBS = frozenset({"read"})
"""Verbs that capabilities of other nodes grant here. Not writing: a write names a subject, and only
its own node knows that subject."""
NEVER_SHARED = frozenset({"local", "team"})


def issuers_of(node: Node) -> dict[str, Issuer]:
    """The issuers that the node believes: itself, and approved peers that it serves, for reading
    the scopes it serves them."""
    known = {
        peer.node_id: Issuer(
            peer.public_key,
            Grant(FOREIGN_VERBS, frozenset(peer.grants.scopes) - NEVER_SHARED),
        )
        for peer in node.reader.peers
        if peer.active and peer.grants is not None and peer.grants.serve
    }
    return known | own_issuer(node.node_id, node.public_key)


def own_issuer(node_id: str, public_key: str) -> dict[str, Issuer]:
    """The node believes all claims of its own tokens."""
    return {node_id: Issuer(public_key, Grant(frozenset(VERBS)))}
