"""Peers of the protocol's own federation, declared over HTTP."""

import base64
from collections.abc import Collection
from typing import Any

import httpx

from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Stored
from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.federation.declaration import stored_key
from tests.worlds.live import LiveNode
from tests.worlds.reference_node import ReferenceNode


def own_key(live: LiveNode) -> str:
    raw = base64.b64decode(live.node.identity.public_key_b64)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def declared(live: LiveNode, node_id: str, url: str, key: str, grants: PeerGrants) -> None:
    """A peer of the registry, approved."""
    shape = {"node_id": node_id, "node_url": url, "public_key": stored_key(key)}
    outcomes = live.node.write(
        PeerDeclared(
            peer_id=f"peer-of-{node_id}",
            allowed_scopes=list(grants.scopes),
            signed_at="2026-01-01T00:00:00Z",
            signature="checked elsewhere",
            **shape,
        ),
        PeerStateSet(peer_id=f"peer-of-{node_id}", state="active", grants=grants),
    )
    assert not any(isinstance(outcome, Refused) for outcome in outcomes)


COMPANY = frozenset({"company", "public"})


class Book:
    """Peers as a test declares them."""

    def __init__(self) -> None:
        self.peers: dict[str, PeerRow] = {}

    def __call__(self) -> dict[str, PeerRow]:
        return self.peers


def book_of(live: LiveNode) -> Book:
    federation = live.app.service.federation
    if not isinstance(federation.peers, Book):
        federation.peers = Book()
    return federation.peers


def enter(
    live: LiveNode,
    node_id: str,
    url: str,
    key: str,
    *,
    scopes: Collection[str] = COMPANY,
    active: bool = True,
    pulled: bool = True,
    served: bool = True,
) -> None:
    """A peer in the book of a node."""
    book_of(live).peers[node_id] = PeerRow(
        peer_id=f"peer-of-{node_id}",
        node_id=node_id,
        node_url=url,
        public_key=stored_key(key),
        allowed_scopes=sorted(scopes),
        signed_at="2026-01-01T00:00:00Z",
        signature="checked elsewhere",
        state="active" if active else "pending",
        reason="",
        grants=PeerGrants(scopes=sorted(scopes), wire="facts", pull=pulled, serve=served),
        declared_at=0,
        established_at=None,
    )


def acquaint(live: LiveNode, peer: ReferenceNode, **fields: Any) -> None:
    """Declare each to the other."""
    peer.peers[live.node.node_id] = own_key(live)
    enter(live, peer.node_id, peer.url, peer.public_key, **fields)


EVERYTHING = {"limit": 100, "include_low_trust": "true", "include_contradicted": "true"}


def held(live: LiveNode) -> list[dict[str, Any]]:
    """Every live fact, of any trust."""
    records: list[dict[str, Any]] = []
    query: dict[str, Any] = dict(EVERYTHING)
    while True:
        body = live.call("GET", "/v1/facts", params=query).json()
        records += body["facts"]
        if not body.get("cursor") or not body["facts"]:
            return records
        query["cursor"] = body["cursor"]


def pull_of(live: LiveNode, peer: ReferenceNode) -> dict[str, Any]:
    body = live.call("GET", "/v1/federation/pulls").json()
    return next(each for each in body["pulls"] if each["node_id"] == peer.node_id)


def fetch(
    live: LiveNode, peer: ReferenceNode, scopes: list[str] | None = None, **query: Any
) -> httpx.Response:
    now_ms = live.node.clock.now_us() // 1000
    token = peer.token(live.node.node_id, now_ms, scopes or ["company", "public"])
    return live.call("GET", "/v1/federation/facts", key=token, params=query)


def drained(live: LiveNode, peer: ReferenceNode, limit: int) -> list[dict[str, Any]]:
    """Everything, by a client that hands each cursor back as it came."""
    records: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query: dict[str, Any] = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        body = fetch(live, peer, **query).json()
        records += body["facts"]
        cursor = body["cursor"] or cursor
        if not body["has_more"]:
            return records


def wrap_into(live: LiveNode, events: list[Stored]) -> None:
    """Give a node another node's events, as replaying its streams does."""
    while not continued(live, events):  # the node's own events came between
        pass
    live.node.write(TakeForeignEnds())


def continued(live: LiveNode, events: list[Stored]) -> bool:
    """Whether the events followed the present head of the node's log."""
    head = live.node.log.head()
    copied = [
        Stored(
            head.position + n + 1, head.received_at, head.received_hlc + n + 1,
            "stigmem:node:peer", each.header, each.hash, each.salt, each.payload,
        )
        for n, each in enumerate(events)
    ]  # fmt: skip
    try:
        live.node.writer.copy(live.node.log, copied, []).result(10)
    except CorruptLog:
        if live.node.log.head().position == head.position:
            raise
        return False
    return True


def scope_events(live: LiveNode) -> list[Stored]:
    streams = [
        name
        for name in live.node.log.stream_heads()
        if "/scope/" in name and name.startswith(live.node.identity.node_id)
    ]
    return live.node.log.read_stored(0, 1000, streams)
