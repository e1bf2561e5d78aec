"""The part of this node that a peer may replay: granted streams, signed heads, pages."""

from collections.abc import Collection

from engramlog.eventlog.codec import decode_header
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import EventLog, Head, StreamHead
from engramlog.eventlog.signing import SignedHeads, sign_heads
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.federation.page import PAGE_BYTES, PAGE_FORMAT, Row, StreamPage


def offered(
    peer: PeerRow,
    streams: Collection[str],
    node_id: str,
    scopes: Collection[str],
    gardens: Collection[str],
) -> list[str]:
    """This node's own streams that a peer may replay. ``scopes``: those that may leave this node
    and that the peer's token names. ``gardens``: ids of the gardens of scopes that may leave this
    node."""
    grants = peer.grants
    if not peer.active or grants is None or not peer.served:
        return []
    open_scopes = peer.scopes & set(scopes)
    found: list[str] = []
    for stream in sorted(streams):
        if not stream.startswith(f"{node_id}/"):
            continue  # each node serves its own, so that none can withhold another's
        kind, name = stream.split("/")[-2:]
        if (kind == "scope" and name in open_scopes) or (
            kind == "garden" and name in grants.gardens and name in gardens
        ):
            found.append(stream)
    return found


def signed_streams(identity: Identity, streams: dict[str, StreamHead], now_us: int) -> SignedHeads:
    """The node's statement about some of its streams. It does not reveal the log's length."""
    return sign_heads(identity, Head(), streams, now_us)


def read_page(
    identity: Identity, log: EventLog, stream: str, after_seq: int, limit: int, now_us: int
) -> StreamPage | None:
    """The events of a stream after ``after_seq``, at most ``limit`` and ``PAGE_BYTES``; a larger
    event is a page alone. None without events."""
    events = log.read_stream(stream, after_seq, limit, PAGE_BYTES)
    if not events:
        return None
    head = StreamHead(stream, after_seq + len(events), events[-1].hash)
    rows: list[Row] = [(each.header, each.hash, each.salt, each.payload) for each in events]
    erased = [decode_header(each.header).event_id for each in events if each.payload is None]
    statement = signed_streams(identity, {stream: head}, now_us)
    return StreamPage(PAGE_FORMAT, stream, rows, statement, erased)
