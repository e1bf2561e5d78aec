"""The serving process's side of recall workers: starting them, asking them, replacing them.

The serving process answers one recall at a time, which is quickest; workers answer those that
come meanwhile. They start once recalls have overlapped often. The serving process also answers if
nothing gets free soon, if a worker fails, and if the recall needs data that only this process has
(see ``_fits``).
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import numpy as np

from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.commands.recall.named_profile import profile_named
from engramlog.api.http.auth import Caller
from engramlog.api.http.errors import ApiError
from engramlog.api.node.node import Node
from engramlog.api.node.recall_workers.messages import (
    Embedded,
    Failed,
    Forgotten,
    Found,
    FromWorker,
    Question,
    ToWorker,
    framed,
)
from engramlog.api.node.recall_workers.worker_process import WorkerProcess
from engramlog.api.node.tasks.task import TaskStatus
from engramlog.api.schemas.recall import RecallBody, Shape
from engramlog.api.settings import Settings
from engramlog.eventlog.errors import StorageError
from engramlog.projections.arrays import F32, I32
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.semantics import Semantics

OVERLAPS_BEFORE_START = 20
"""Recalls during another recall, after which starting workers is worth its cost."""
QUERY_SECONDS_MAX = 12.0
"""Longest wait for a question's vector: longer than the model's own timeout."""
START_SECONDS_MAX = 600.0
LATE_SECONDS = 15.0
"""Longest wait for a worker's answer, beyond ``QUERY_SECONDS_MAX``; then this process answers."""
ANSWER_SECONDS_MAX = 60.0
"""When a late worker is replaced."""
FREE_SECONDS_MAX = 2.0
"""Longest wait for a free process; then this one answers."""
PAUSE_SECONDS = 5.0
AUTO_FACTS_MAX = 250_000
"""Facts up to which workers start by default: each holds a copy of the memory image."""
AUTO_WORKERS_MAX = 4

_log = logging.getLogger(__name__)


class RecallWorkers:
    """See the module. Without ``start`` this process answers everything. ``count``: how many
    processes, which then answer every recall they can; None: decided by the machine and the facts;
    the serving process then answers too."""

    name = "recall_workers"

    def __init__(self, node: Node, settings: Settings, count: int | None) -> None:
        self._node = node
        self._settings = settings
        self._wanted = count
        self._open = False
        self._overlaps = 0
        self._under_way = 0
        self._begun = False
        self._heard: Semantics | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers: list[WorkerProcess] = []
        self._free: asyncio.PriorityQueue[_Place] = asyncio.PriorityQueue()
        if count is None:
            self._free.put_nowait(_HERE)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        return sum(worker.ready for worker in self._workers)

    async def start(self) -> None:
        """Allow workers from here on."""
        self._loop = asyncio.get_running_loop()
        self._open = self.count > 0

    def restart(self) -> None:
        """Replace all running workers by new ones. Returns once the old ones have ended; call from
        any thread except the event loop's."""
        if self._loop is None:
            return

        async def renewed() -> None:
            if self._begun and self._open:
                self._renew()

        asyncio.run_coroutine_threadsafe(renewed(), self._loop).result()

    def status(self) -> TaskStatus:
        if not self._open:
            return TaskStatus(self.name, "off")
        return TaskStatus(self.name, "running" if self._begun else "idle")

    @property
    def count(self) -> int:
        """How many workers should run."""
        if self._wanted is not None:
            return self._wanted
        few = self._node.reader.pin().count <= AUTO_FACTS_MAX
        cores = os.cpu_count() or 1
        return min(cores - 1, AUTO_WORKERS_MAX) if few else 0

    async def stop(self) -> None:
        self._open = False
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._listen(None)

    async def answer(
        self,
        caller: Caller,
        body: RecallBody,
        warnings: list[str],
        *,
        shape: Shape,
        verify: bool,
        check: Callable[[], None],
        here: Callable[[], Awaitable[RecallOutcome]],
    ) -> RecallOutcome:
        """The answer to a recall, from a worker or, by ``here``, from this process. ``check``:
        raises ApiError if the caller's rights changed while it waited for a worker. Raises ApiError
        as ``answered``."""
        self._under_way += 1
        try:
            if not (self._open and self._may_answer(body, verify)):
                return await here()
            place = await self._place()
            if place is None:
                return await here()
            if place.worker is not None:
                found = await self._answered(place.worker, caller, body, warnings, shape, check)
                return await here() if found is None else found
            try:
                return await here()
            finally:
                self._free.put_nowait(place)
        finally:
            self._under_way -= 1

    async def _place(self) -> "_Place | None":
        """The next free place; None if none gets free in time."""
        if not self._free.empty():  # without a timer, as for every recall that comes alone
            return self._free.get_nowait()
        try:
            return await asyncio.wait_for(self._free.get(), FREE_SECONDS_MAX)
        except TimeoutError:
            return None

    def _may_answer(self, body: RecallBody, verify: bool) -> bool:
        """Whether a worker can answer. Begins or renews the workers if it is time."""
        self._overlaps += self._under_way > 1
        often = self._wanted is not None or self._overlaps > OVERLAPS_BEFORE_START
        if often and not self._begun and self._loaded():
            self._begin()
        elif self._begun and self._heard is not self._semantics():
            _log.info("recall workers restart: the embedding model changed")
            self._renew()
        return bool(self.ready) and not verify and self._fits(body)

    def _fits(self, body: RecallBody) -> bool:
        """Whether a worker can answer: it has neither cards nor the vectors of ended facts."""
        if body.entity is not None or body.as_of is not None or body.force_refresh:
            return False
        position = self._node.reader.image.position
        name = body.profile or self._settings.recall_profile
        return not profile_named(self._node.reader, name, position).cards.fast_path

    async def _answered(
        self,
        worker: WorkerProcess,
        caller: Caller,
        body: RecallBody,
        warnings: list[str],
        shape: Shape,
        check: Callable[[], None],
    ) -> RecallOutcome | None:
        try:
            check()
            position = self._node.reader.image.position
            await asyncio.to_thread(self._node.reader.image.tail.settle, position)
        except BaseException as fault:
            self._put_back(worker)
            if isinstance(fault, StorageError):
                return None  # this process reads no table that it does not need
            raise
        question = Question(
            body=body.model_dump(
                mode="json", include=set(RecallBody.model_fields), exclude_unset=True
            ),
            warnings=warnings,
            shape=shape,
            caller=caller,
            position=position,
            now_us=self._node.clock.now_us(),
        )
        asking = asyncio.create_task(worker.ask(question, self._vector))
        try:
            if not (await asyncio.wait((asking,), timeout=LATE_SECONDS))[0]:
                _log.warning("a recall worker is late, this process answers instead")
                self._keep(self._put_back_late(worker, asking))
                return None
            message = asking.result()
        except (OSError, EOFError) as fault:
            _log.warning("a recall worker failed, this process answers instead: %r", fault)
            self._replace(worker)
            return None
        except BaseException:
            # Its next message would be the answer to the caller who disconnected.
            asking.cancel()
            self._replace(worker)
            raise
        self._put_back(worker)
        if isinstance(message, Failed):
            raise ApiError(
                message.status, message.detail, headers=message.headers, extra=message.extra
            )
        return message.answered if isinstance(message, Found) else None

    async def _put_back_late(self, worker: WorkerProcess, asking: asyncio.Task[FromWorker]) -> None:
        """Drop a late worker's answer; then it may answer again."""
        try:
            await asyncio.wait_for(asking, ANSWER_SECONDS_MAX - LATE_SECONDS)
        except Exception as fault:
            _log.warning("a recall worker is replaced: %r", fault)
            self._replace(worker)
        else:
            self._put_back(worker)

    async def _vector(self, query: str) -> bytes | None:
        """The vector of a question's text from this process's model: workers have none."""
        semantics = self._semantics()
        if semantics is None:
            return None
        try:
            made = asyncio.to_thread(semantics.query, query)
            return (await asyncio.wait_for(made, QUERY_SECONDS_MAX)).tobytes()
        except (EmbeddingError, TimeoutError):
            return None

    def _begin(self) -> None:
        self._begun = True
        self._listen(self._broadcast)
        for _ in range(self.count):
            self._spawn(0.0)

    def _spawn(self, after_seconds: float) -> None:
        self._keep(self._bring_up(after_seconds))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work until it is done, or until ``stop``."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_up(self, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        worker = WorkerProcess()
        self._workers.append(worker)
        try:
            await asyncio.wait_for(worker.begin(self._settings), START_SECONDS_MAX)
        except (OSError, EOFError, TimeoutError) as fault:
            if worker in self._workers:  # else it was replaced, as after an erasure
                _log.warning("a recall worker did not start: %r", fault)
            self._replace(worker)
            return
        except asyncio.CancelledError:
            worker.end()
            raise
        self._put_back(worker)

    def _put_back(self, worker: WorkerProcess) -> None:
        """Let a worker answer again, unless it was replaced meanwhile."""
        if worker in self._workers:
            self._free.put_nowait(_Place(1, id(worker), worker))

    def _replace(self, worker: WorkerProcess) -> None:
        worker.end()
        if worker not in self._workers:
            return  # another worker replaced it while it started or answered
        self._workers.remove(worker)
        if self._open:
            self._spawn(PAUSE_SECONDS)

    def _semantics(self) -> Semantics | None:
        embeddings = self._node.embeddings
        return None if embeddings is None else embeddings.semantics

    def _loaded(self) -> bool:
        """Whether the vectors are in memory: workers read no others."""
        embeddings = self._node.embeddings
        return embeddings is None or embeddings.loaded

    def _listen(self, send: Callable[[ToWorker], None] | None) -> None:
        """Begin to receive vectors, in the event loop; None ends it."""
        semantics = self._heard = self._semantics()
        if semantics is None:
            return
        if send is None:
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
            loop.call_soon_threadsafe(send, message)

        def forget(slots: I32) -> None:
            message = Forgotten(positions(slots))
            loop.call_soon_threadsafe(send, message)

        semantics.on_vectors(put, forget)

    def _broadcast(self, message: ToWorker) -> None:
        data = framed(message)
        for worker in self._workers:
            worker.send(data)

    def _renew(self) -> None:
        self._listen(self._broadcast)
        free = [self._free.get_nowait() for _ in range(self._free.qsize())]
        if _HERE in free:
            self._free.put_nowait(_HERE)
        for worker in list(self._workers):
            self._replace(worker)


class _Place(NamedTuple):
    """Where a recall can be answered: the lowest first; ``worker`` None: in this process."""

    order: int
    number: int
    worker: WorkerProcess | None


_HERE = _Place(0, 0, None)
