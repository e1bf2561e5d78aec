"""A comparison with a peer of another release says what that one lacks."""

from collections.abc import Callable

import pytest
from aiohttp import web

from engramlog.api.client.event_source import DIGESTS_PATH
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.live import CONTROL_TOKEN, LiveNode

Make = Callable[..., HostilePeer]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            200,
            b'{"digests": {}}',
            "{url} runs an earlier release, whose digests lack tombstones, scopes, held,"
            " held_tombstones: update it, then compare",
        ),
        (
            404,
            b'{"detail": {"code": "not_found", "message": "no such route"}}',
            "{url} has no digests to compare: it runs an earlier or another release",
        ),
        (200, b'{"hello": "world"}', "cannot read the digests of {url}: "),
        (200, b"[]", "cannot read the digests of {url}: "),
        (500, b"{}", "{url} answered 500"),
    ],
)
def test_a_peer_whose_digests_lack_something_is_named_with_it(
    live: LiveNode, hostile: Make, status: int, body: bytes, said: str
) -> None:
    peer = hostile()

    async def digests(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type="application/json")

    peer.answers[DIGESTS_PATH] = digests
    name = peer.befriend(live)
    answer = live.call("GET", f"/v1/federation/peers/{name}/compare", key=CONTROL_TOKEN)
    assert answer.json()["detail"]["code"] == "peer_unreachable"
    assert answer.json()["detail"]["message"].startswith(said.format(url=peer.url))
