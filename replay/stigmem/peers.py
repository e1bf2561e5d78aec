"""The record of a peer for the protocol's federation."""

from typing import Protocol

from msgspec import Struct


class ProtocolPeer(Struct, frozen=True):
    """A declared peer. ``public_key`` is base64url without padding, as declared. ``scopes``: those
    of the agreement. ``active``: whether it is approved now."""

    node_id: str
    node_url: str
    public_key: str
    scopes: frozenset[str]
    active: bool
    pulled: bool = True
    """Whether this node fetches facts from it."""
    served: bool = True
    """Whether it may fetch facts of ours."""


class PeerBook(Protocol):
    def find(self, node_id: str) -> ProtocolPeer | None:
        """The peer of this node id, approved or not."""
        ...

    def all(self) -> list[ProtocolPeer]: ...
