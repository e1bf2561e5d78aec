"""Long work waits in its own queue: bounded, and fair between callers."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from engramlog.api.node.fair_threads import (
    WAITING_EACH_MAX,
    WAITING_MAX,
    FairThreads,
    ThreadsBusy,
    ThreadsClosed,
)
from engramlog.api.routes.time_travel import states
from tests.worlds.live import LiveNode
from tests.worlds.waiting import until

FORK = '{"suppose": [{"op": "retract", "id": "a"}], "recall": {"query": "tea"}}'


@asynccontextmanager
async def occupied(long: FairThreads) -> AsyncGenerator[Callable[[], None]]:
    """Its one thread works until the returned function is called, or the block ends."""
    gate = threading.Event()
    task = asyncio.ensure_future(long.run("first", gate.wait))
    await asyncio.sleep(0)
    try:
        yield gate.set
    finally:
        gate.set()
        await task


def run(test: Callable[[FairThreads], Awaitable[None]]) -> None:
    async def inside() -> None:
        long = FairThreads("test", 1)
        try:
            await test(long)
        finally:
            long.close()

    asyncio.run(inside())


def test_callers_take_turns() -> None:
    async def test(long: FairThreads) -> None:
        done: list[str] = []
        async with occupied(long) as go:
            tasks = [
                asyncio.ensure_future(long.run(caller, lambda name=name: done.append(name)))
                for caller, name in (
                    ("a", "a1"),
                    ("a", "a2"),
                    ("a", "a3"),
                    ("b", "b1"),
                    ("c", "c1"),
                )
            ]
            await asyncio.sleep(0)
            go()
            await asyncio.gather(*tasks)
        assert done == ["a1", "b1", "c1", "a2", "a3"]

    run(test)


def test_one_caller_has_a_bound_and_all_have_one() -> None:
    async def test(long: FairThreads) -> None:
        async with occupied(long):
            tasks: list[asyncio.Future[None]] = []
            for number in range(WAITING_MAX):
                caller = f"agent:{number // WAITING_EACH_MAX}"
                tasks.append(asyncio.ensure_future(long.run(caller, lambda: None)))
                await asyncio.sleep(0)
                if number == WAITING_EACH_MAX - 1:
                    with pytest.raises(ThreadsBusy):
                        await long.run(caller, lambda: None)
            with pytest.raises(ThreadsBusy):
                await long.run("agent:new", lambda: None)
            begun = asyncio.ensure_future(long.run("agent:new", lambda: None, admitted=True))
        await asyncio.gather(*tasks, begun)
        assert long.waiting == 0

    run(test)


def test_one_caller_leaves_a_thread_to_the_others() -> None:
    async def test() -> None:
        reads, free = FairThreads("test", 3, 2), threading.Event()
        try:
            tasks = [
                asyncio.ensure_future(reads.run("busy", free.wait, admitted=True))
                for _ in range(20)
            ]
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                assert [await reads.run("other", lambda n=n: n) for n in range(3)] == [0, 1, 2]
            assert reads.waiting == 18
            free.set()
            assert await asyncio.gather(*tasks) == [True] * 20
            assert await reads.run("busy", lambda: 7) == 7
        finally:
            free.set()
            reads.close()

    asyncio.run(test())


def test_a_disconnected_caller_gives_its_turn_back() -> None:
    async def test(long: FairThreads) -> None:
        async with occupied(long) as go:
            gone = asyncio.ensure_future(long.run("a", lambda: None))
            stays = asyncio.ensure_future(long.run("b", lambda: 7))
            await asyncio.sleep(0)
            gone.cancel()
            go()
            assert await stays == 7
        assert await long.run("c", lambda: 8) == 8

    run(test)


def test_what_waits_for_a_caller_who_has_gone_gives_up_its_place() -> None:
    async def test(long: FairThreads) -> None:
        done: list[str] = []
        left = False
        async with occupied(long):
            waits = [
                asyncio.ensure_future(long.run("a", lambda: done.append("a"), gone=lambda: left))
                for _ in range(WAITING_EACH_MAX)
            ]
            await asyncio.sleep(0)
            with pytest.raises(ThreadsBusy):
                await long.run("a", lambda: None)
            left = True
            again = asyncio.ensure_future(long.run("a", lambda: done.append("again")))
            read = asyncio.ensure_future(
                long.run("b", lambda: done.append("b"), admitted=True, gone=lambda: True)
            )
            await asyncio.sleep(0)
            assert long.waiting == 1
        for each in (*waits, read):
            with pytest.raises(ConnectionResetError):
                await each
        await again
        assert done == ["again"]
        assert long.waiting == 0

    run(test)


def test_a_caller_who_has_gone_and_is_cancelled_gives_back_no_thread() -> None:
    async def test(long: FairThreads) -> None:
        lost = threading.Event()
        async with occupied(long):
            waits = asyncio.ensure_future(
                long.run("a", lambda: None, admitted=True, gone=lost.is_set)
            )
            await asyncio.sleep(0)
            lost.set()
            asked = asyncio.ensure_future(long.run("a", lambda: None))
            # It asks, which tells the other that its caller has gone, before that one continues.
            asyncio.get_running_loop().call_soon(waits.cancel)
            await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await waits
            assert not asked.done()
            assert long.waiting == 1
        await asked

    run(test)


def test_what_waits_when_the_node_stops_is_refused_and_not_done() -> None:
    async def test(threads: FairThreads) -> None:
        done: list[str] = []
        async with occupied(threads) as go:
            waiting = [
                asyncio.ensure_future(threads.run("a", lambda: done.append("a"))) for _ in range(3)
            ]
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
            await asyncio.sleep(0.01)
            go()
            await closing
            for each in waiting:
                with pytest.raises(ThreadsClosed):
                    await each
        assert done == []

    run(test)


def test_a_failure_is_the_callers() -> None:
    async def test(long: FairThreads) -> None:
        with pytest.raises(ZeroDivisionError):
            await long.run("a", lambda: 1 // 0)
        assert await long.run("a", lambda: 1) == 1

    run(test)


def refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_work_for_which_no_thread_starts_is_never_done_and_costs_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(long: FairThreads) -> None:
        done: list[str] = []
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start"):
                await long.run("a", lambda: done.append("refused"))
        async with asyncio.timeout(10):
            await long.run("a", lambda: done.append("taken"))
        assert done == ["taken"]

    run(test)


def test_a_read_that_no_thread_took_is_not_done_later(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            live.service().stage_pool.submit(done.append, "refused")
        assert live.call("GET", "/v1/search?q=x").status_code == 503
    assert live.call("GET", "/v1/search?q=x").status_code == 200
    assert live.service().stage_pool.submit(lambda: "taken").result(10) == "taken"
    assert done == []


def test_a_read_that_waits_is_not_done_for_a_caller_who_has_gone(live: LiveNode) -> None:
    reads, gate, before = live.service().reads, threading.Event(), live.open_connections()
    for name in ("busy", "busier"):
        for _ in range(2):
            live.run_soon(reads.run(name, gate.wait, admitted=True))
    try:
        asked = urlsplit(live.url)
        with socket.create_connection((asked.hostname, asked.port)) as caller:
            caller.sendall(b"GET /v1/search?q=tea HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: reads.waiting == 1)
        until(lambda: live.open_connections() == before)
    finally:
        gate.set()
    until(lambda: 'status="499"' in live.call("GET", "/metrics").text)


def test_a_fork_that_waits_for_another_is_not_made_for_a_caller_who_has_gone(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, gate, before = threading.Event(), threading.Event(), live.open_connections()
    made: list[object] = []

    @asynccontextmanager
    async def behind_another() -> AsyncGenerator[None]:
        came.set()
        await asyncio.to_thread(gate.wait)
        yield

    monkeypatch.setattr(live.service(), "forking", behind_another())
    monkeypatch.setattr(states, "fork", lambda *asked: made.append(asked))
    try:
        asked = urlsplit(live.url)
        with socket.create_connection((asked.hostname, asked.port)) as caller:
            head = "POST /v1/time-travel/fork HTTP/1.1\r\nHost: localhost\r\n"
            form = f"Content-Type: application/json\r\nContent-Length: {len(FORK)}\r\n\r\n"
            caller.sendall(f"{head}{form}{FORK}".encode())
            until(came.is_set)
        until(lambda: live.open_connections() == before)
    finally:
        gate.set()
    until(lambda: 'status="499"' in live.call("GET", "/metrics").text)
    assert made == []
