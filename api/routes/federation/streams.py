"""The streams of this node, for the peers that replay them."""

import asyncio
import hashlib
from contextlib import closing

import msgspec
from aiohttp import web
from msgspec import Struct
from pydantic import Field

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.routes.federation.peers import peer_named
from engramlog.api.schemas.values import Model, Position
from engramlog.eventlog.log import StreamHead
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.garden_directory import gardens_of_scopes
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.tables.facts.tombstones import tombstones_digest, tombstones_in_force
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.federation.comparing import PeerDigests, comparison
from engramlog.replay.federation.page import PAGE_EVENTS_MAX, encode_page
from engramlog.replay.federation.pulling import PeerUnreachable
from engramlog.replay.federation.serving import offered, read_page, signed_streams

routes = Routes("federation")

PAGE_TYPE = "application/vnd.engramlog.federation"

WAIT_SECONDS_MAX = 30.0


class StreamsQuery(Model, extra="forbid"):
    """``seen``: the ETag of the known heads; ``wait_s``: how long to wait for others."""

    seen: str = Field(default="", max_length=100)
    wait_s: float = Field(default=0.0, ge=0.0, le=WAIT_SECONDS_MAX)


class StreamEventsQuery(Model, extra="forbid"):
    """Events of ``stream`` after the sequence ``after``."""

    stream: str = Field(min_length=1, max_length=2_048)
    after: Position = 0
    limit: int = Field(default=PAGE_EVENTS_MAX, ge=1, le=PAGE_EVENTS_MAX)


def asking_peer(call: Call) -> tuple[PeerRow, frozenset[str]]:
    """The calling peer, and the scopes open to it. Raises ApiError 401."""
    peer, claims = call.peer()
    peers = call.service.peers
    return peers.rows()[peer.node_id], peers.open_scopes() & frozenset(claims.scopes)


def _now(call: Call, row: PeerRow) -> PeerRow:
    return call.service.peers.rows().get(row.node_id, row)


def offered_heads(call: Call, row: PeerRow, scopes: frozenset[str]) -> dict[str, StreamHead]:
    """Heads of the streams of this node that the peer may replay; ``scopes``: the open ones."""
    node = call.node
    gardens = node.reader.ask(gardens_of_scopes, call.service.peers.open_scopes())
    heads = node.log.stream_heads()
    return {name: heads[name] for name in offered(row, heads, node.node_id, scopes, gardens)}


def _tag(heads: dict[str, StreamHead]) -> str:
    text = "".join(f"{name} {head.hash.hex()}\n" for name, head in sorted(heads.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@routes.add(
    "GET /v1/federation/streams",
    permission="peer",
    query=StreamsQuery,
    answers={200: "signed heads"},
)
async def streams(call: Call) -> web.Response:
    """The signed heads of the streams that the peer may replay. Waits until they differ from those
    it has seen."""
    row, scopes = asking_peer(call)
    query = call.query(StreamsQuery)
    # The peer's grants may change during the wait, or end. A log on a server that does not answer
    # blocks only threads.
    heads = await call.in_pool(lambda: offered_heads(call, row, scopes))

    async def changed() -> bool:
        nonlocal heads
        heads = await call.in_pool(lambda: offered_heads(call, _now(call, row), scopes))
        return _tag(heads) != query.seen

    if query.wait_s and query.seen == _tag(heads):
        await call.service.commits.wait_reading(changed, query.wait_s)
    statement = signed_streams(call.node.identity, heads, call.node.clock.now_us())
    return web.Response(
        body=msgspec.json.encode(statement),
        content_type="application/json",
        headers={"ETag": _tag(heads)},
    )


@routes.add(
    "GET /v1/federation/events",
    permission="peer",
    query=StreamEventsQuery,
    answers={200: Media(PAGE_TYPE, "a page of events, zlib over MessagePack"), 204: None},
    errors=(404,),
)
def stream_events(call: Call) -> web.Response:
    """A page of one stream after a sequence; 204 if it is empty."""
    row, scopes = asking_peer(call)
    query = call.query(StreamEventsQuery)
    if query.stream not in offered_heads(call, row, scopes):
        raise coded("stream_not_found", "no such stream, or no grant for it")
    node = call.node
    found = read_page(
        node.identity, node.log, query.stream, query.after, query.limit, node.clock.now_us()
    )
    if found is None:
        return web.Response(status=204)
    return web.Response(body=encode_page(found), content_type=PAGE_TYPE)


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
    try:
        with closing(call.service.peers.source(row)) as source:
            theirs = await asyncio.to_thread(source.digests)
    except PeerUnreachable as fault:
        raise coded("peer_unreachable", str(fault)) from fault
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
        held={name: each for name, each in found.items() if name.startswith(f"{row.node_id}/")}
        if pulled == "events"
        else None,
        held_tombstones=tombstones_digest(
            (each for each in stones if each.node_id == row.node_id), SCOPES
        )
        if pulled is not None
        else None,
    )
