"""Routes for commands on the same machine, protected by the token in ``control.json``.

With these, ``engramlog`` commands work through the node that holds a data directory: they write
import lines with every operation, look up facts by content, and read the node's status.
"""

import asyncio
import hmac
import os
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

from engramlog.api.http.bodies import answer
from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.api.settings import Settings
from engramlog.api.transfer.importing import SinkError
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.facts import AssertLine
from engramlog.api.transfer.lines.line_kinds import decode_line, decode_lines
from engramlog.api.transfer.lines.memories import EpisodeLine
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.signing import SignedHeads, sign_heads

IMPORT_BYTES_MAX = 1024 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_control_routes(
    router: web.UrlDispatcher, node: Node, settings: Settings, token: str
) -> None:
    """Add the routes to an application's router."""
    routes = _ControlRoutes(node, settings)
    expected = f"Bearer {token}".encode()
    for method, path, handler in (
        ("GET", "ping", routes.ping),
        ("POST", "import", routes.take_lines),
        ("GET", "find", routes.find),
        ("POST", "find-known", routes.find_known),
        ("POST", "find-episode", routes.find_episode),
        ("GET", "status", routes.status),
        ("GET", "heads", routes.heads),
    ):
        router.add_route(method, f"/v1/control/{path}", _guarded(handler, expected))


def _guarded(handler: Handler, expected: bytes) -> Handler:
    """The handler behind the token; without it the route looks absent."""

    async def check(request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, expected):
            return answer({"detail": "Not Found"}, 404)
        return await handler(request)

    return check


class _ControlRoutes:
    def __init__(self, node: Node, settings: Settings) -> None:
        self._node = node
        self._value_bytes_max = settings.value_bytes_max

    def _sink(self) -> NodeSink:
        return NodeSink(self._node, self._value_bytes_max)

    async def ping(self, _: web.Request) -> web.Response:
        """Answer, which shows that the node accepts the token."""
        return answer({"pid": os.getpid()})

    async def take_lines(self, request: web.Request) -> web.Response:
        """Write a JSON array of import lines, all or none with ``atomic=true``."""
        data = bytearray()
        async for chunk in request.content.iter_any():
            data += chunk
            if len(data) > IMPORT_BYTES_MAX:
                return answer({"detail": f"over {IMPORT_BYTES_MAX} bytes"}, 413)
        atomic = request.query.get("atomic") == "true"
        write = self._sink().write
        try:
            lines = await asyncio.to_thread(decode_lines, bytes(data))
            results = await asyncio.to_thread(write, lines, received_at=None, atomic=atomic)
        except LineError as fault:
            return answer({"detail": str(fault)}, 422)
        except SinkError as fault:
            return answer({"detail": str(fault)}, 503)
        return answer({"results": results})

    async def find(self, request: web.Request) -> web.Response:
        """The id of the newest fact with a content id, or of the ``back``-th newest."""
        cid, back = request.query["cid"], int(request.query["back"])
        return answer({"id": await asyncio.to_thread(self._sink().find, cid, back)})

    async def find_known(self, request: web.Request) -> web.Response:
        """The known facts of each of the request's lines, all of which state facts."""
        data = await request.read()
        try:
            lines = cast("list[AssertLine]", await asyncio.to_thread(decode_lines, data))
        except LineError as fault:
            return answer({"detail": str(fault)}, 422)
        return answer({"ids": await asyncio.to_thread(self._sink().find_known, lines)})

    async def find_episode(self, request: web.Request) -> web.Response:
        """The episode of the request's line."""
        try:
            line = cast("EpisodeLine", decode_line(await request.read()))
            found = await asyncio.to_thread(self._sink().find_episode, line)
        except LineError as fault:
            return answer({"detail": str(fault)}, 422)
        return answer({"episode": found})

    async def status(self, _: web.Request) -> web.Response:
        return answer(await asyncio.to_thread(node_status, self._node))

    async def heads(self, _: web.Request) -> web.Response:
        return answer(await asyncio.to_thread(signed_heads, self._node))


def node_status(node: Node) -> dict[str, object]:
    """The fields that ``replay status`` prints."""
    digests = node.reader.digests()
    head = node.log.head()
    return {
        "node_id": node.identity.node_id,
        "epoch": node.identity.epoch,
        **status_of_node(node),
        "received_at_us": head.received_at,
        "digests": {
            "position": digests.position,
            "local": digests.local,
            "shared": digests.shared,
        },
    }


def signed_heads(node: Node) -> SignedHeads:
    """The node's signed statement about where its streams end."""
    head, streams = node.log.head(), node.log.stream_heads()
    return sign_heads(node.identity, head, streams, node.clock.now_us())
