"""The minimum cost of an answer over HTTP: aiohttp reads JSON and writes JSON of a given size."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

BODY_BYTES_MAX = 1 << 30


@contextmanager
def bare_handler() -> Generator[tuple[str, int]]:
    """URL and process id of a bare handler, for a ``with`` block. ``PUT /`` sets the answer to all
    other requests."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare_handler"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.kill()
        process.wait()


async def _serve() -> None:
    body: Any = {}

    async def put(request: web.Request) -> web.Response:
        nonlocal body
        body = await request.json()
        return web.json_response({})

    async def answer(request: web.Request) -> web.Response:
        if request.can_read_body:
            await request.json()
        return web.json_response(body)

    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.router.add_put("/", put)
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
