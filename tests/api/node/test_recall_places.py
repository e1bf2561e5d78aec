"""Whatever ends a recall, the place where it was answered serves the next one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from engramlog.api.http.errors import ApiError
from engramlog.api.node.recall_workers import pool
from engramlog.api.node.recall_workers.messages import Failed, Found, FromWorker
from engramlog.api.node.recall_workers.pool import RecallWorkers
from engramlog.api.schemas.recall import RecallBody
from engramlog.eventlog.errors import StorageFull

COUNT = 2
ANSWER: Any = "an answer"
CALLER: Any = None
FAULTS = (
    None, None, None, OSError("no"), EOFError("no"), TimeoutError("no"), ValueError("no"),
    ApiError(503, "no"), StorageFull("no"),
)  # fmt: skip


class Chance:
    """What goes wrong, and how many turns of the event loop everything takes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    async def pause(self) -> None:
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)

    def fault(self, *possible: type[Exception]) -> None:
        chosen = self.random.choice(FAULTS)
        if isinstance(chosen, possible):
            raise chosen


class FakeWorker:
    """A worker without a process."""

    def __init__(self, chance: Chance) -> None:
        self.ready = False
        self._chance = chance
        self._asked = self._ended = False

    async def begin(self, _settings: Any) -> None:
        await self._chance.pause()
        self._chance.fault(OSError, EOFError)
        self.ready = True

    async def ask(self, _question: Any, _vector: Any) -> FromWorker:
        assert not self._asked, "one question at a time"
        self._asked = True
        await self._chance.pause()
        if self._ended:
            raise EOFError
        self._chance.fault(OSError, EOFError, ValueError)
        self._asked = False
        return Found(ANSWER) if self._chance.random.random() < 0.9 else Failed(404, {}, "no", {})

    def end(self) -> None:
        self.ready, self._ended = False, True


class Recalls(RecallWorkers):
    """Workers that start at once and may answer everything."""

    def __init__(self, chance: Chance) -> None:
        tail = SimpleNamespace(settle=lambda _position: chance.fault(StorageFull))
        image = SimpleNamespace(position=1, tail=tail)
        node: Any = SimpleNamespace(
            reader=SimpleNamespace(image=image), clock=SimpleNamespace(now_us=int), embeddings=None
        )
        settings: Any = None
        super().__init__(node, settings, None)
        self._chance = chance

    @property
    def count(self) -> int:
        return COUNT

    def begin(self) -> None:
        self._open = True
        self._begin()

    def renew(self) -> None:
        self._renew()

    def _may_answer(self, body: RecallBody, verify: bool) -> bool:
        return True

    async def ask(self) -> Any:
        """One recall, of which anything may fail."""

        async def here() -> Any:
            await self._chance.pause()
            self._chance.fault(ApiError, ValueError)
            return ANSWER

        return await self.answer(
            CALLER, RecallBody(query="q"), [], shape="full", verify=False,
            check=lambda: self._chance.fault(ApiError), here=here,
        )  # fmt: skip

    async def running(self) -> None:
        while self.ready < COUNT or self._tasks:
            await asyncio.sleep(0.001)

    def have_all_places(self) -> bool:
        """Whether this process and its workers, and no others, are free."""
        free = [self._free.get_nowait().worker for _ in range(self._free.qsize())]
        return Counter(map(id, free)) == Counter(map(id, (None, *self._workers)))


@pytest.fixture
def chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Chance:
    chance = Chance(request.param)
    monkeypatch.setattr(pool, "WorkerProcess", lambda: FakeWorker(chance))
    monkeypatch.setattr(pool, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(pool, "FREE_SECONDS_MAX", 0.002)
    return chance


@pytest.mark.parametrize("late_seconds", [15.0, 0.0])
@pytest.mark.parametrize("chance", range(20), indirect=True)
def test_no_place_is_lost_or_doubled(
    chance: Chance, late_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LATE_SECONDS", late_seconds)

    async def run() -> None:
        recalls = Recalls(chance)
        recalls.begin()
        for _ in range(40):
            asked = [asyncio.create_task(recalls.ask()) for _ in range(chance.random.randrange(9))]
            await chance.pause()
            for task in asked:
                if chance.random.random() < 0.3:
                    task.cancel()
                if chance.random.random() < 0.02:
                    recalls.renew()
                await chance.pause()
            await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.wait_for(recalls.running(), 5)
        assert recalls.have_all_places()

    asyncio.run(run())


@pytest.mark.parametrize("chance", [0], indirect=True)
def test_this_process_answers_while_the_tables_cannot_follow(
    chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        recalls = Recalls(chance)
        recalls.begin()
        await asyncio.wait_for(recalls.running(), 5)
        monkeypatch.setattr(chance.random, "choice", lambda _faults: StorageFull("no"))
        assert await asyncio.gather(*(recalls.ask() for _ in range(COUNT + 1))) == [ANSWER] * 3
        assert recalls.have_all_places()

    asyncio.run(run())


@pytest.mark.parametrize("chance", [0], indirect=True)
def test_a_worker_that_is_replaced_while_it_starts_is_no_fault(
    chance: Chance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chance.random, "choice", lambda _faults: None)

    async def begin(worker: FakeWorker, _settings: Any) -> None:
        while not worker._ended:
            await asyncio.sleep(0)
        raise EOFError

    async def run() -> None:
        recalls = Recalls(chance)
        with monkeypatch.context() as slow:
            slow.setattr(FakeWorker, "begin", begin)
            recalls.begin()
            while len(recalls._workers) < COUNT:
                await asyncio.sleep(0)
            recalls.renew()
        await asyncio.wait_for(recalls.running(), 5)
        assert recalls.have_all_places()

    asyncio.run(run())
    assert caplog.messages == []


@pytest.mark.parametrize("chance", [0], indirect=True)
@pytest.mark.parametrize("comes", [True, False])
def test_a_late_worker_delays_no_answer_and_serves_again_or_is_replaced(
    chance: Chance, comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LATE_SECONDS", 0.01)
    monkeypatch.setattr(pool, "ANSWER_SECONDS_MAX", 60.0 if comes else 0.02)
    monkeypatch.setattr(chance.random, "choice", lambda _faults: None)

    async def run() -> None:
        recalls = Recalls(chance)
        recalls.begin()
        await asyncio.wait_for(recalls.running(), 5)
        before, go_on = list(recalls._workers), asyncio.Event()

        async def hang(_worker: FakeWorker, _question: Any, _vector: Any) -> FromWorker:
            await go_on.wait()
            return Found("another answer")  # type: ignore[arg-type]

        with monkeypatch.context() as hanging:
            hanging.setattr(FakeWorker, "ask", hang)
            asked = [recalls.ask() for _ in range(COUNT + 1)]
            assert await asyncio.wait_for(asyncio.gather(*asked), 5) == [ANSWER] * 3
            if comes:
                go_on.set()
            await asyncio.wait_for(recalls.running(), 5)
        assert recalls.have_all_places()
        assert (recalls._workers == before) == comes

    asyncio.run(run())
