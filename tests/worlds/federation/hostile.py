"""A peer on a real socket with a real key, whose answers the test controls."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from engramlog.api.client.event_source import DIGESTS_PATH, EVENTS_PATH, STREAMS_PATH
from engramlog.api.http.connections import Connections, WatchedSite
from engramlog.api.node.process.serving import listen
from engramlog.eventlog.signing import SignedHeads
from engramlog.replay.federation.declaration import declare, fingerprint
from engramlog.replay.federation.page import StreamPage, encode_page
from tests.worlds.federation.forged import Forger
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import SECONDS_MAX

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
SCOPES = ["company", "public"]
CONNECTIONS_MAX = 100


class HostilePeer:
    """Serves a forger's streams; ``alter_page``, ``alter_heads`` and ``answers`` (by path)
    replace parts of it. ``asked``: the requested paths; ``seen``: the heads that each request for
    other heads knew."""

    def __init__(self, forger: Forger) -> None:
        self.forger = forger
        self.alter_page: Callable[[StreamPage], StreamPage | bytes] = lambda page: page
        self.alter_heads: Callable[[SignedHeads], SignedHeads | bytes] = lambda heads: heads
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.seen: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self._connections = Connections(CONNECTIONS_MAX, CONNECTIONS_MAX)
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(SECONDS_MAX)
        self.url = f"http://127.0.0.1:{port}"

    async def _start(self) -> int:
        app = web.Application()
        app.router.add_get("/.well-known/stigmem", self._discovery)
        app.router.add_get(STREAMS_PATH, self._answer)
        app.router.add_get(EVENTS_PATH, self._answer)
        app.router.add_get(DIGESTS_PATH, self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await WatchedSite(self._runner, listen("127.0.0.1", 0), self._connections).start()
        return int(self._runner.addresses[0][1])

    async def _end(self, runner: web.AppRunner) -> None:
        await runner.cleanup()
        await self._connections.end()

    async def _discovery(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "node_id": self.forger.id,
                "federation_pubkey": self.forger.wire_key,
                "engramlog_events": "1",
            }
        )

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        if request.path == STREAMS_PATH:
            self.seen.append(request.query.get("seen", ""))
            heads = self.alter_heads(self.forger.heads())
            if request.query.get("seen") == heads_tag(heads):
                await asyncio.sleep(0.05)
            body = heads if isinstance(heads, bytes) else msgspec.json.encode(heads)
            return web.Response(body=body, headers={"ETag": heads_tag(heads)})
        query = request.query
        found = self.forger.page(query["stream"], int(query["after"]), int(query["limit"]))
        if found is None:
            return web.Response(status=204)
        page = self.alter_page(found)
        return web.Response(body=page if isinstance(page, bytes) else encode_page(page))

    def befriend(self, live: LiveNode, **grants: Any) -> str:
        """Become an approved peer of a node; returns its id there."""
        peer_id = self.register(live)
        body = {"pubkey_fingerprint": fingerprint(self.forger.wire_key), "grants": grants}
        path = f"/v1/federation/peers/{peer_id}/approve"
        answer = live.call("POST", path, key=CONTROL_TOKEN, json=body)
        assert answer.status_code == 200, answer.text
        return peer_id

    def register(self, live: LiveNode) -> str:
        """Get the declaration registered, but not approved yet."""
        made = declare(self.forger.identity, self.url, SCOPES, self.forger.clock.now_us())
        declaration = msgspec.to_builtins(made)
        answer = live.call("POST", "/v1/federation/peers", key=CONTROL_TOKEN, json=declaration)
        assert answer.json()["status"] == "pending_approval", answer.text
        return answer.json()["peer_id"]

    def close(self) -> None:
        """Stop serving, endless answers included."""
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._end(self._runner), self._loop).result(
                SECONDS_MAX
            )
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()


def heads_tag(heads: SignedHeads | bytes) -> str:
    if isinstance(heads, bytes):
        return "crafted"
    return "-".join(f"{head.stream_seq}.{head.hash[:8]}" for head in heads.heads)
