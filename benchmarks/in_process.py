"""A node behind HTTP in this process; the benchmark sets its clock."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from benchmarks.serving import RawClient
from engramlog.api.http.app import AppRunner, create_app
from engramlog.api.node.node import Node
from engramlog.api.settings import Settings
from engramlog.eventlog.clock import FixedClock


class Served:
    """``node`` may be written directly; ``client`` asks over a socket."""

    def __init__(self, node: Node, clock: FixedClock) -> None:
        self.node = node
        self.clock = clock
        settings = Settings(
            data_dir=node.directory.path,
            auth_required=False,
            recall_receipts=False,
            recall_workers=0,
        )
        self._app = create_app(node, settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = self._run(self._start())
        self.client = RawClient(f"http://127.0.0.1:{port}")

    async def _start(self) -> int:
        self._runner = AppRunner(self._app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    def _run(self, work: object) -> int:
        assert asyncio.iscoroutine(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def flush(self) -> None:
        """Write the records of recalls."""

        async def write() -> int:
            await self._app.service.tracker.flush()
            return 0

        self._run(write())

    def close(self) -> None:
        async def stop() -> int:
            await self._runner.cleanup()
            return 0

        self.client.close()
        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def served(folder: Path, start_us: int, *, set_valued: tuple[str, ...] = ()) -> Generator[Served]:
    """A new node in ``folder`` whose clock shows ``start_us``."""
    clock = FixedClock(start_us)
    node = Node.open(folder, clock=clock, set_valued=set_valued)
    try:
        found = Served(node, clock)
        try:
            yield found
        finally:
            found.close()
    finally:
        node.close()
