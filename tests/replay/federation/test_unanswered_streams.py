"""A peer that cannot answer for one stream is asked for the others, and asked again."""

from collections.abc import Callable

import pytest
from aiohttp import web

from engramlog.api.client.event_source import EVENTS_PATH
from engramlog.replay.federation.page import encode_page
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.seen import detail, held, texts
from tests.worlds.live import LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]


def no_page_of(peer: HostilePeer, scope: str, status: int) -> None:
    """Answer requests for the pages of one scope with this status and no body."""

    async def answer(request: web.Request) -> web.Response:
        query = request.query
        if query["stream"].endswith(scope):
            return web.Response(status=status)
        found = peer.forger.page(query["stream"], int(query["after"]), int(query["limit"]))
        return web.Response(status=204) if found is None else web.Response(body=encode_page(found))

    peer.answers[EVENTS_PATH] = answer


@pytest.mark.parametrize("status", [500, 503, 404, 204, 302])
def test_a_stream_without_an_answer_delays_no_other(
    live: LiveNode, hostile: Make, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.peering.BACKOFF_SECONDS_MAX", 0.3)
    peer = hostile()
    peer.forger.state("first", "company")
    peer.forger.state("second", "public")
    no_page_of(peer, "company", status)
    peer_id = peer.befriend(live)
    until(lambda: texts(live) == {"second"})
    until(lambda: detail(live, peer_id)["replay"]["fault"])
    assert held(live, peer_id) == {}
    del peer.answers[EVENTS_PATH]
    until(lambda: texts(live) == {"first", "second"})


def test_after_a_failed_page_the_node_does_not_wait_for_other_heads(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("first")
    peer.befriend(live)
    until(lambda: texts(live) == {"first"})
    until(lambda: live.service().peers.states[peer.forger.id].level_at_us is not None)
    no_page_of(peer, "company", 503)
    before = len(peer.seen)
    peer.forger.state("second")
    until(lambda: "" in peer.seen[before:])
    del peer.answers[EVENTS_PATH]
    until(lambda: texts(live) == {"first", "second"})
