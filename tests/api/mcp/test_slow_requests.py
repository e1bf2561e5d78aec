"""The MCP server over HTTP closes connections whose request does not end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from engramlog.api.mcp import slow_requests
from engramlog.api.mcp.slow_requests import TimedProtocol

WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: h",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx",
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_request_that_does_not_end_is_closed_and_a_slow_answer_comes(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(slow_requests, "REQUEST_SECONDS_MAX", 0.2)
    closed = asyncio.Event()

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["method"] == "POST":
            with suppress(OSError):
                while (await receive()).get("more_body"):
                    pass
            return
        await closed.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"slow"})

    async def main() -> None:
        config = uvicorn.Config(app, http=TimedProtocol, log_config=None, lifespan="off", port=0)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        waiting, asking = await asyncio.open_connection("127.0.0.1", port)
        asking.write(WHOLE)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        closed.set()
        assert (await waiting.readline()).startswith(b"HTTP/1.1 200")
        for each in (asking, writer):
            each.close()
        server.should_exit = True
        await serving

    asyncio.run(main())
