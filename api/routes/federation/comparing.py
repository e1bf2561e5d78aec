"""Compares by digests whether two peers hold the same events of each other."""

import asyncio

from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.routes.federation.peers import peer_named
from engramlog.api.routes.federation.streams import asking_peer, offered_heads
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.tables.facts.tombstones import tombstones_digest, tombstones_in_force
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.federation.comparing import PeerDigests, comparison
from engramlog.replay.federation.pulling import PeerUnreachable

routes = Routes("federation")


class ComparedStream(Struct):
    """Digests of one stream on both nodes; null if a node does not take it."""

    stream: str
    equal: bool
    ours: str | None
    theirs: str | None


class ComparedTombstones(Struct):
    """Both nodes' digests of one node's tombstones."""

    node_id: str
    equal: bool
    ours: str | None
    theirs: str | None


class PeerComparison(Struct):
    """Whether this node and a peer agree on each other's streams and tombstones."""

    node_id: str
    equal: bool
    streams: list[ComparedStream]
    tombstones: list[ComparedTombstones]
    first_difference: str | None


@routes.add("GET /v1/federation/digests", permission="peer", errors=(503,))
async def digests(call: Call) -> PeerDigests:
    """Digests of streams and tombstones, for peers: of this node's own that the peer may read, and
    of the peer's that this node holds."""
    row, scopes = asking_peer(call)
    return await _digests(call, row, scopes)


@routes.add("GET /v1/federation/peers/{peer_id}/compare", permission="admin", errors=(503,))
async def compare_peer(call: Call) -> PeerComparison:
    """Compare this node's and a peer's copies of each other's streams and tombstones. Names the
    first difference. The peer's own comparison gives the same result."""
    row = peer_named(call)
    source = call.service.peers.source(row)
    try:
        theirs = await asyncio.to_thread(source.digests)
    except PeerUnreachable as fault:
        raise coded("peer_unreachable", str(fault)) from fault
    finally:
        source.close()
    ours = await _digests(call, row, call.service.peers.open_scopes() & frozenset(theirs.scopes))
    rows = comparison(row.node_id, call.node.node_id, ours, theirs)
    first = next((each.name for each in rows if not each.equal), None)
    return PeerComparison(
        node_id=row.node_id,
        equal=first is None,
        streams=[
            ComparedStream(each.stream, each.equal, each.ours, each.theirs)
            for each in rows
            if each.stream is not None
        ],
        tombstones=[
            ComparedTombstones(each.node_id, each.equal, each.ours, each.theirs)
            for each in rows
            if each.stream is None
        ],
        first_difference=first,
    )


async def _digests(call: Call, row: PeerRow, scopes: frozenset[str]) -> PeerDigests:
    """The digests that this node shows the peer; ``scopes``: open ones that the peer requests."""
    names = await call.in_pool(lambda: offered_heads(call, row, scopes))
    found = await call.in_long_pool(lambda: call.node.reader.ask(stream_digests))
    stones = await call.in_pool(lambda: call.node.reader.ask(tombstones_in_force))
    pulled = row.pulled if row.active else None
    shared = scopes & row.scopes if row.active and row.served else frozenset[str]()
    return PeerDigests(
        digests={name: found[name] for name in sorted(names) if name in found},
        tombstones=tombstones_digest((each for each in stones if each.node_id is None), shared),
        scopes=sorted(call.service.peers.open_scopes() & set(row.allowed_scopes)),
        held=_of_node(found, row.node_id) if pulled == "events" else None,
        held_tombstones=tombstones_digest(
            (each for each in stones if each.node_id == row.node_id), SCOPES
        )
        if pulled is not None
        else None,
    )


def _of_node(found: dict[str, str], node_id: str) -> dict[str, str]:
    return {name: digest for name, digest in found.items() if name.startswith(f"{node_id}/")}
