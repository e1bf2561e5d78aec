"""Compares two nodes' copies of each other's streams and tombstones."""

from collections.abc import Iterator

from msgspec import Struct


class PeerDigests(Struct, frozen=True):
    """A node's digests for a peer.

    ``digests``: of its own streams that the peer may replay. ``tombstones``: of its own, in the
    scopes it shares. ``scopes``: those that it requests from the peer. ``held`` and
    ``held_tombstones``: its copies of the peer's; null if it does not take them.
    """

    digests: dict[str, str]
    tombstones: str
    scopes: list[str]
    held: dict[str, str] | None
    held_tombstones: str | None


class HoldingsCompared(Struct, frozen=True):
    """One stream of ``node_id``, or (null) its tombstones, on two nodes."""

    node_id: str
    stream: str | None
    ours: str | None
    theirs: str | None

    @property
    def name(self) -> str:
        return self.stream or f"tombstones of {self.node_id}"

    @property
    def equal(self) -> bool:
        return self.ours == self.theirs


def comparison(
    peer: str, node_id: str, ours: PeerDigests, theirs: PeerDigests
) -> list[HoldingsCompared]:
    """What one node owns and the other takes, streams first; in the same order on both nodes.
    ``peer``, ``node_id``: the nodes of the digests ``theirs`` and ``ours``."""
    compared = [
        *(
            HoldingsCompared(peer, stream, here, there)
            for stream, there, here in _shared_streams(theirs, ours)
        ),
        *(
            HoldingsCompared(node_id, stream, here, there)
            for stream, here, there in _shared_streams(ours, theirs)
        ),
    ]
    return sorted(compared, key=lambda each: (each.stream is None, each.stream or each.node_id))


def _shared_streams(
    owner: PeerDigests, holder: PeerDigests
) -> Iterator[tuple[str | None, str, str | None]]:
    """Stream (null: tombstones), its digest at the owner, its digest at the holder."""
    if holder.held is not None:
        for stream, digest in owner.digests.items():
            yield stream, digest, holder.held.get(stream)
    if holder.held_tombstones is not None:
        yield None, owner.tombstones, holder.held_tombstones
