"""One recall worker as the serving process sees it: the process, and the socket to it."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable

from engramlog.api.node.recall_workers.messages import (
    LENGTH_BYTES,
    FromWorker,
    Question,
    Vector,
    Wanted,
    WorkerReady,
    decode_from_worker,
    framed,
)
from engramlog.api.settings import Settings


class WorkerProcess:
    """A process that answers one question at a time."""

    def __init__(self) -> None:
        self.ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._bringing: set[asyncio.Task[None]] = set()

    async def begin(self, settings: Settings) -> None:
        """Start the process and wait until it is ready. Raises OSError or EOFError."""
        own_end, worker_end = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "engramlog.api.node.recall_workers.worker",
                    str(worker_end.fileno()),
                ],
                pass_fds=(worker_end.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        finally:
            worker_end.close()
        self._reader, self._writer = await asyncio.open_connection(sock=own_end)
        data = settings.model_dump_json().encode()
        self._writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        if not isinstance(await self._next(), WorkerReady):
            raise EOFError("a worker must say first that it is ready")
        self.ready = True

    async def ask(
        self, question: Question, vector: Callable[[str], Awaitable[bytes | None]]
    ) -> FromWorker:
        """The answer to a question; ``vector`` makes the vectors that the worker requests. If the
        worker answers without a vector, this does not wait for it. Raises OSError or EOFError if
        the process has ended."""
        assert self._writer is not None
        self._writer.write(framed(question))
        await self._writer.drain()
        while isinstance(answer := await self._next(), Wanted):
            bringing = asyncio.create_task(self._bring(answer.text, vector))
            self._bringing.add(bringing)
            bringing.add_done_callback(self._bringing.discard)
        return answer

    async def _bring(self, text: str, vector: Callable[[str], Awaitable[bytes | None]]) -> None:
        self.send(framed(Vector(text, await vector(text))))

    def send(self, data: bytes) -> None:
        """Send a message that has no answer."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    def end(self) -> None:
        """Close the socket, which ends the process; kill it if that does not. Idempotent."""
        self.ready = False
        for bringing in self._bringing:
            bringing.cancel()
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    async def _next(self) -> FromWorker:
        assert self._reader is not None
        length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
        return decode_from_worker(await self._reader.readexactly(length))
