"""The serving process's side of recall workers: starting them, asking them, replacing them.

Workers are started once recalls are asked often or side by side, so that a node that seldom
recalls pays nothing. A recall is answered in the serving process while there is no worker,
where the worker fails, and where it needs what only that process has (see ``_fits``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from api.call import Call
from api.commands.answering import Answered
from api.commands.recalling import profile_named
from api.errors import ApiError
from api.node import Node
from api.recall_workers.messages import (
    LENGTH_BYTES,
    Embedded,
    Failed,
    Forgotten,
    Found,
    FromWorker,
    Question,
    Ready,
    ToWorker,
    decode_from_worker,
    framed,
)
from api.schemas.recall import RecallBody
from api.settings import Settings
from projections.arrays import F32, I32
from projections.embedding.semantics import Semantics
from projections.moment import Moment

ASKED_BEFORE_START = 50
"""Recalls after which workers are worth their start."""
START_SECONDS_MAX = 600.0
ANSWER_SECONDS_MAX = 60.0
IDLE_SECONDS_MAX = 2.0
"""Longest a recall waits for a worker before it is answered here."""
PAUSE_SECONDS = 5.0
AUTO_FACTS_MAX = 250_000
"""Facts up to which workers are started unless told so: each holds a mirror of its own."""
AUTO_WORKERS_MAX = 4

_log = logging.getLogger(__name__)


class RecallWorkers:
    """See the module. Without ``start`` every answer is None.

    Args:
        count: how many processes; None decides by the machine and the facts.
    """

    def __init__(self, node: Node, settings: Settings, count: int | None) -> None:
        self._node = node
        self._settings = settings
        self._wanted = count
        self._open = False
        self._asked = 0
        self._under_way = 0
        self._begun = False
        self._heard: Semantics | None = None
        self._workers: list[_Worker] = []
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        """Workers that answer."""
        return sum(worker.ready for worker in self._workers)

    def start(self) -> None:
        """Allow workers from here on; call in the event loop."""
        self._open = self.count > 0

    @property
    def count(self) -> int:
        """How many workers there are to be."""
        if self._wanted is not None:
            return self._wanted
        few = self._node.reader.pin().count <= AUTO_FACTS_MAX
        cores = os.cpu_count() or 1
        return min(cores, AUTO_WORKERS_MAX) if few and cores > 1 else 0

    async def stop(self) -> None:
        """End the workers. Idempotent."""
        self._open = False
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._listen(None)

    async def answer(
        self, call: Call, body: RecallBody, warnings: list[str], *, legacy: bool, verify: bool
    ) -> Answered | None:
        """A worker's answer; None where the caller of this must answer itself.

        Raises:
            ApiError: as ``answered``.
        """
        if not self._open:
            return None
        self._asked += 1
        self._under_way += 1
        try:
            if not self._begun and (self._asked > ASKED_BEFORE_START or self._under_way > 1):
                self._begin()
            elif self._begun and self._heard is not self._semantics():
                self._renew()
            if not self.ready or verify or not self._fits(call, body):
                return None
            return await self._told(call, body, warnings, legacy)
        finally:
            self._under_way -= 1

    def _fits(self, call: Call, body: RecallBody) -> bool:
        """Cards and the vectors of facts that ended are kept by the serving process alone."""
        if body.entity is not None or body.as_of is not None or body.force_refresh:
            return False
        position = self._node.reader.mirror.position
        name = body.profile or self._settings.recall_profile
        return not profile_named(call, name, Moment(position, 0)).cards.fast_path

    async def _told(
        self, call: Call, body: RecallBody, warnings: list[str], legacy: bool
    ) -> Answered | None:
        try:
            worker = await asyncio.wait_for(self._idle.get(), IDLE_SECONDS_MAX)
        except TimeoutError:
            return None
        semantics = self._semantics()
        known = None if semantics is None else semantics.known(body.query)
        question = Question(
            body=body.model_dump(
                mode="json", include=set(RecallBody.model_fields), exclude_unset=True
            ),
            warnings=warnings,
            legacy=legacy,
            caller=call.caller,
            position=self._node.reader.mirror.position,
            now_us=self._node.clock.now_us(),
            vector=None if known is None else known.tobytes(),
        )
        try:
            message = await asyncio.wait_for(worker.ask(question), ANSWER_SECONDS_MAX)
        except asyncio.CancelledError:
            self._replace(worker)  # its answer to somebody who has gone would come first
            raise
        except (OSError, EOFError, TimeoutError) as fault:
            _log.warning("a recall worker failed, its question is answered here: %r", fault)
            self._replace(worker)
            return None
        self._idle.put_nowait(worker)
        if isinstance(message, Failed):
            raise ApiError(
                message.status, message.detail, headers=message.headers, extra=message.extra
            )
        if not isinstance(message, Found):
            return None
        if message.vector is not None and semantics is not None:
            semantics.remember(body.query, np.frombuffer(message.vector, dtype=np.float32))
        return message.answered

    # -- their lives ----------------------------------------------------------------------

    def _begin(self) -> None:
        self._begun = True
        self._listen(self._broadcast)
        for _ in range(self.count):
            self._spawn(0.0)

    def _spawn(self, after_seconds: float) -> None:
        task = asyncio.get_running_loop().create_task(self._bring_up(after_seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_up(self, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        worker = _Worker()
        self._workers.append(worker)
        try:
            await asyncio.wait_for(worker.begin(self._settings), START_SECONDS_MAX)
        except (OSError, EOFError, TimeoutError) as fault:
            _log.warning("a recall worker did not start: %r", fault)
            self._replace(worker)
            return
        except asyncio.CancelledError:
            worker.end()
            raise
        self._idle.put_nowait(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.end()
        if worker in self._workers:
            self._workers.remove(worker)
        if self._open:
            self._spawn(PAUSE_SECONDS)

    # -- vectors --------------------------------------------------------------------------

    def _semantics(self) -> Semantics | None:
        embeddings = self._node.embeddings
        return None if embeddings is None else embeddings.semantics

    def _listen(self, tell: Callable[[ToWorker], None] | None) -> None:
        """Be told of vectors from here on, in the event loop; or no more."""
        semantics = self._heard = self._semantics()
        if semantics is None:
            return
        if tell is None:
            semantics.on_vectors(lambda _slots, _rows: None, lambda _slots: None)
            return
        loop = asyncio.get_running_loop()

        def positions(slots: I32) -> bytes:
            return self._node.reader.pin().from_position[slots].astype(np.int64).tobytes()

        def put(slots: I32, rows: F32) -> None:
            message = Embedded(
                positions(slots),
                np.ascontiguousarray(rows, dtype=np.float32).tobytes(),
            )
            loop.call_soon_threadsafe(tell, message)

        def forget(slots: I32) -> None:
            message = Forgotten(positions(slots))
            loop.call_soon_threadsafe(tell, message)

        semantics.on_vectors(put, forget)

    def _broadcast(self, message: ToWorker) -> None:
        data = framed(message)
        for worker in self._workers:
            worker.send(data)

    def _renew(self) -> None:
        """Facts are embedded otherwise from here on: workers start anew."""
        _log.info("recall workers start anew: the embedding model was changed")
        self._listen(self._broadcast)
        while not self._idle.empty():
            self._idle.get_nowait()
        for worker in list(self._workers):
            self._replace(worker)


class _Worker:
    """One process and the socket to it; one question at a time."""

    def __init__(self) -> None:
        self.ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self, settings: Settings) -> None:
        """Start the process and wait until it is ready. Raises OSError or EOFError."""
        here, there = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api.recall_workers.worker", str(there.fileno())],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        finally:
            there.close()
        self._reader, self._writer = await asyncio.open_connection(sock=here)
        data = settings.model_dump_json().encode()
        self._writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        if not isinstance(await self._next(), Ready):
            raise EOFError("a worker must say first that it is ready")
        self.ready = True

    async def ask(self, question: Question) -> FromWorker:
        """The answer to a question. Raises OSError or EOFError where the process is gone."""
        assert self._writer is not None
        self._writer.write(framed(question))
        await self._writer.drain()
        return await self._next()

    def send(self, data: bytes) -> None:
        """Send what wants no answer."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    def end(self) -> None:
        """Close the socket, which ends the process; kill it if that does not. Idempotent."""
        self.ready = False
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
