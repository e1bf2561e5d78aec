import asyncio
import threading

import pytest

from engramlog.api.node.tasks.task import LoopTask, Tasks, end_tasks
from engramlog.api.node.tasks.upkeep import ArchiveSealing, CardRefreshing
from engramlog.eventlog.errors import StorageFull
from engramlog.projections.archive.archive import Archive
from engramlog.replay.erasing import Cleaner
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until


def test_every_task_has_ended_when_it_returns() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def main() -> None:
        tasks = [asyncio.create_task(work(name)) for name in ("one", "other")]
        await asyncio.sleep(0)
        await end_tasks(tasks[0], None, tasks[1])
        assert all(task.cancelled() for task in tasks)

    asyncio.run(main())
    assert ended == ["one", "other"]


def test_a_failure_is_reported() -> None:
    async def work() -> None:
        raise ValueError("broken")

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        await end_tasks(task)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(main())


class Recorded(LoopTask):
    """A task that notes when it starts and stops, and fails on demand."""

    def __init__(self, name: str, notes: list[str], *, start: str = "", stop: str = "") -> None:
        super().__init__(name)
        self._notes = notes
        self._start = start
        self._stop = stop

    async def start(self) -> None:
        self._notes.append(f"start {self.name}")
        if self._start:
            raise ValueError(self._start)
        await super().start()

    async def stop(self) -> None:
        self._notes.append(f"stop {self.name}")
        await super().stop()
        if self._stop:
            raise ValueError(self._stop)

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_tasks_stop_in_reverse_order_even_if_one_raises() -> None:
    notes: list[str] = []

    async def main() -> None:
        tasks = Tasks(
            Recorded("one", notes), Recorded("two", notes, stop="x"), Recorded("three", notes)
        )
        await tasks.start()
        assert [each.state for each in tasks.statuses()] == ["running"] * 3
        await tasks.stop()
        assert [each.state for each in tasks.statuses()] == ["stopped"] * 3

    asyncio.run(main())
    assert notes == ["start one", "start two", "start three", "stop three", "stop two", "stop one"]


def test_if_one_cannot_start_none_keeps_running() -> None:
    notes: list[str] = []

    async def main() -> None:
        tasks = Tasks(Recorded("one", notes), Recorded("two", notes, start="no"))
        with pytest.raises(ValueError, match="no"):
            await tasks.start()
        assert [each.state for each in tasks.statuses()] == ["stopped"] * 2

    asyncio.run(main())
    assert notes[-1] == "stop one"


def test_work_in_a_thread_completes_though_the_task_stops() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(10)
        ended.set()

    class Writing(LoopTask):
        async def run(self) -> None:
            await self.in_thread(work)

    async def main() -> None:
        task = Writing("writing")
        await task.start()
        await asyncio.to_thread(begun.wait, 10)
        stopping = asyncio.create_task(task.stop())
        await asyncio.sleep(0)
        gate.set()
        await stopping
        assert ended.is_set()

    asyncio.run(main())


def test_a_node_lists_its_tasks_with_their_state(live: LiveNode) -> None:
    listed = live.call("GET", "/v1/admin/tasks", key=CONTROL_TOKEN).json()["tasks"]
    states = {each["name"]: each["state"] for each in listed}
    assert live.call("GET", "/readyz").json()["tasks"] == states
    assert states == {
        "cards": "idle",
        "recall_tracking": "running",
        "reindex": "idle",
        "embedding": "off",
        "rebuild": "idle",
        "jobs": "idle",
        "recall_workers": "off",
        "archive_sealing": "running",
        "erasure_cleaning": "running",
        "snapshots": "off",
        "image_writing": "running",
        "peer_replay": "off",
        "peer_pulls": "off",
        "peer_tombstones": "off",
        "webhooks": "idle",
        "consolidation": "running",
        "summaries": "off",
    }
    assert all(each["error"] is None for each in listed)


def test_a_stop_waits_for_one_segment_of_a_long_backlog() -> None:
    sealing, go_on = threading.Event(), threading.Event()

    class Backlog(Archive):
        def __init__(self) -> None:
            self.asked = 0

        def seal_next(self) -> bool:
            self.asked += 1
            sealing.set()
            go_on.wait(60)
            return True

    backlog = Backlog()

    async def main() -> None:
        task = ArchiveSealing(backlog)
        await task.start()
        await asyncio.to_thread(sealing.wait, 60)
        ending = asyncio.create_task(task.stop())
        await asyncio.sleep(0)
        go_on.set()
        await ending

    asyncio.run(main())
    assert backlog.asked == 1


def test_a_task_that_fails_says_why(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaning = live.service().cleaning

    def full(_: Cleaner) -> list[str]:
        raise StorageFull("no space left")

    def told() -> tuple[str, str | None]:
        listed = live.call("GET", "/v1/admin/tasks", key=CONTROL_TOKEN).json()["tasks"]
        found = {each["name"]: each for each in listed}["erasure_cleaning"]
        return found["state"], found["error"]

    with monkeypatch.context() as failing:
        failing.setattr(Cleaner, "unclean", full)
        cleaning.wake()
        until(lambda: told() == ("failing", "no space left"))
    cleaning.wake()
    until(lambda: told() == ("running", None))


class Failing(LoopTask):
    """A task of which each attempt fails, for the reasons given in turn."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("failing")
        self.reasons = list(reasons)

    async def run(self) -> None:
        if not self.reasons:
            await asyncio.Event().wait()
        raise StorageFull(self.reasons.pop(0))


def test_the_log_tells_a_lasting_failure_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.task.RETRY_SECONDS", 0.0)

    async def main() -> None:
        task = Failing("full", "full", "full", "gone", "full")
        await task.start()
        while task.reasons:
            await asyncio.sleep(0)
        await task.stop()

    asyncio.run(main())
    told = [f"failing failed, will retry: {reason}" for reason in ("full", "gone", "full")]
    assert [each.getMessage() for each in caplog.records] == told


def test_cards_that_got_no_thread_stop(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = CardRefreshing(live.service().cards, live.node.reader)

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    async def start() -> None:
        with pytest.raises(RuntimeError):
            await cards.start()
        await cards.stop()

    monkeypatch.setattr(live.service().cards, "start", refuse)
    monkeypatch.setattr(live.service().cards, "close", lambda: None)
    asyncio.run(start())
    assert live.node.reader.followers.count(live.service().cards.committed) == 1  # the node's own
