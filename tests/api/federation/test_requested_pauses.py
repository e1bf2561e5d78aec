"""The pause that a busy peer requests is a number of seconds, and limited."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from engramlog.api.client.event_source import STREAMS_PATH
from engramlog.api.client.peer_source import PeerBusy, PeerSession
from engramlog.eventlog.clock import FixedClock
from tests.worlds.federation.forged import Forger
from tests.worlds.federation.hostile import HostilePeer


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0), ("0", 0.1), ("-5", 0.1), ("1e9", 3600.0), ("inf", 3600.0), ("nan", 1.0),
        ("-nan", 1.0), ("soon", 1.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
    ],
)  # fmt: skip
def test_no_pause_is_without_end_or_length(tmp_path: Path, header: str, seconds: float) -> None:
    peer = HostilePeer(Forger(tmp_path / "peer", FixedClock(0)))

    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": header})

    peer.answers[STREAMS_PATH] = busy
    try:
        assert asyncio.run(requested(peer.url + STREAMS_PATH)) == seconds
    finally:
        peer.close()


async def requested(url: str) -> float:
    """The pause that a peer requests, in seconds."""
    session = PeerSession(private=True)
    try:
        with pytest.raises(PeerBusy) as found:
            await session.fetch(url, {}, "token")
    finally:
        await session.close()
    return found.value.seconds
