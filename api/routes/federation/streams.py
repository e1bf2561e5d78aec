"""The streams of this node, for the peers that replay them."""

import hashlib

import msgspec
from aiohttp import web
from pydantic import Field

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.schemas.values import Model, Position
from engramlog.eventlog.log import StreamHead
from engramlog.projections.tables.declared.garden_directory import gardens_of_scopes
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.federation.page import PAGE_EVENTS_MAX, encode_page
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
