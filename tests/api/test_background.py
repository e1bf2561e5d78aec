from __future__ import annotations

import asyncio

import pytest

from api.background import end_tasks


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


def test_a_failure_is_not_lost() -> None:
    async def work() -> None:
        raise ValueError("broken")

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        await end_tasks(task)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(main())
