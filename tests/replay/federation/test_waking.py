"""An operator's change takes effect at once, even while a peer delays its answer."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import pytest
from aiohttp import web

from engramlog.api.client.event_source import STREAMS_PATH
from engramlog.eventlog.log import StreamHead
from engramlog.replay.federation.page import StreamPage
from tests.worlds.federation.hostile import HostilePeer, heads_tag
from tests.worlds.federation.seen import detail, held, texts
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]


def holds_back(peer: HostilePeer) -> list[bool]:
    """Make a peer delay every request that may wait; returns whether one waits now."""
    waiting: list[bool] = []

    async def answer(request: web.Request) -> web.Response:
        if float(request.query["wait_s"]) > 0:
            waiting.append(True)
            await asyncio.Event().wait()
        heads = peer.forger.heads()
        return web.Response(body=msgspec.json.encode(heads), headers={"ETag": heads_tag(heads)})

    peer.answers[STREAMS_PATH] = answer
    return waiting


def withheld(page: StreamPage) -> StreamPage:
    events = [(*page.events[0][:2], None, None)]
    return msgspec.structs.replace(page, events=events)


def test_a_slow_log_delays_the_waiting_peer_alone(
    live: LiveNode, hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = hostile()
    peer.befriend(live, pull=False)
    mine = live.state(v="mine")["id"]
    seen = streams(live, peer, {}).headers["ETag"]
    began, go_on = threading.Event(), threading.Event()
    read = live.node.log.stream_heads

    def slow() -> dict[str, StreamHead]:
        began.set()
        assert go_on.wait(20)
        return read()

    monkeypatch.setattr(live.node.log, "stream_heads", slow)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(streams, live, peer, {"seen": seen, "wait_s": "20"})
        assert began.wait(20)
        try:
            assert live.call("GET", f"/v1/facts/{mine}").status_code == 200
            assert not waiting.done()
            live.state(v="written during the look")
        finally:
            go_on.set()
        (head,) = waiting.result(20).json()["heads"]
    assert head["stream_seq"] == 2


def streams(live: LiveNode, peer: HostilePeer, query: dict[str, str]) -> httpx.Response:
    """A request of the peer for this node's heads, on a connection of its own."""
    headers = {"Authorization": f"Bearer {peer.forger.token(live.node.node_id)}"}
    return httpx.get(f"{live.url}{STREAMS_PATH}", headers=headers, params=query, timeout=30)


def test_a_released_stream_is_replayed_at_once(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    waiting = holds_back(peer)
    peer.forger.state("good")
    peer.alter_page = withheld
    peer_id = peer.befriend(live)
    until(lambda: held(live, peer_id) and waiting)
    honest: Callable[[StreamPage], StreamPage] = lambda page: page  # noqa: E731
    peer.alter_page = honest
    body = {"stream": peer.forger.stream(), "reason": "looked at"}
    path = f"/v1/federation/peers/{peer_id}/release"
    assert live.call("POST", path, key=CONTROL_TOKEN, json=body).status_code == 200
    until(lambda: "good" in texts(live))


def test_a_new_grant_admits_skipped_streams_at_once(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    waiting = holds_back(peer)
    peer.forger.state("good", scope="public")
    peer_id = peer.befriend(live, scopes=["company"])
    until(lambda: waiting)
    assert detail(live, peer_id)["replay"]["passed_over"] == [peer.forger.stream("public")]
    path = f"/v1/federation/peers/{peer_id}/grants"
    body = {"scopes": ["company", "public"]}
    assert live.call("PUT", path, key=CONTROL_TOKEN, json=body).status_code == 200
    until(lambda: "good" in texts(live))
