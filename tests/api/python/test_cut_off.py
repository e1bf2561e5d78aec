"""Memories whose opening or closing is cut off: no directory stays held."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engramlog import AsyncMemory, EventLogError, Memory, Node
from engramlog.api.python import embedded, transport
from tests.worlds.processes import environment
from tests.worlds.waiting import until


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")


@pytest.fixture
def interrupts() -> Iterator[Callable[[], None]]:
    """Interrupts the main thread, as Ctrl-C does; a process in the background may ignore SIGINT."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def held_up(monkeypatch: pytest.MonkeyPatch, name: str, first: Callable[[], None]) -> None:
    """Do ``first`` before this function of the embedded node."""
    work = getattr(embedded, name)

    def late(*given: Any) -> Any:
        first()
        return work(*given)

    monkeypatch.setattr(embedded, name, late)


def released(path: Path) -> bool:
    """Whether the directory is free once all work in the background has ended."""
    until(lambda: not transport._going_on)
    Node.open(path).close()
    return True


def test_a_cancelled_opening_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        go_on.wait()

    held_up(monkeypatch, "_node_of", first)

    async def cut_off(memory: AsyncMemory) -> None:
        opening = asyncio.create_task(memory.__aenter__())
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    memory = AsyncMemory(tmp_path / "memory")
    asyncio.run(cut_off(memory))
    go_on.set()
    assert released(tmp_path / "memory")
    monkeypatch.undo()
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")

    async def again() -> None:
        async with memory:
            assert list(await memory.facts()) == []

    asyncio.run(again())
    assert released(tmp_path / "memory")


def test_a_cancelled_closing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    close = Node.close

    def slowly(node: Node) -> None:
        begun.set()
        go_on.wait()
        close(node)

    async def cut_off() -> None:
        memory = AsyncMemory(tmp_path / "memory")
        await memory.remember("tea at four", user="ann")
        monkeypatch.setattr(Node, "close", slowly)
        closing = asyncio.create_task(memory.close())
        await asyncio.to_thread(begun.wait)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        monkeypatch.setattr(Node, "close", close)

    asyncio.run(cut_off())
    go_on.set()
    assert released(tmp_path / "memory")


def test_an_interrupted_opening_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupts: Callable[[], None]
) -> None:
    held_up(monkeypatch, "_node_of", interrupts)
    with pytest.raises(KeyboardInterrupt):
        Memory(tmp_path / "memory")
    assert released(tmp_path / "memory")


def test_an_interrupted_close_of_a_node_goes_on_when_called_again(tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    measured = Node.open(tmp_path / "memory")
    steps = len(measured._unclosed)
    measured.close()
    for at in range(steps):
        node = Node.open(tmp_path / "memory")
        step, node._unclosed[at] = node._unclosed[at], interrupted
        with pytest.raises(KeyboardInterrupt):
            node.close()
        node._unclosed[0] = step
        node.close()
        node.close()


AFTER_THE_END = """
import threading
from engramlog import ClientError, Memory
memory = Memory("memory")
memory.remember("tea at four", user="ann")
def ask():
    threading.main_thread().join()
    try:
        memory.facts()
    except ClientError as fault:
        print(fault)
threading.Thread(target=ask).start()
"""


def test_a_thread_that_outlives_the_main_one_hears_that_the_memory_is_closed(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_END],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "this memory is closed\n", "")


def test_a_process_is_never_too_busy_for_itself(tmp_path: Path) -> None:
    """A served node refuses the ninth waiting request of a caller."""

    async def ask() -> None:
        async with AsyncMemory(tmp_path / "memory") as memory:
            kept = await memory.remember("tea at four", user="ann")
            await asyncio.gather(*(memory.history(kept) for _ in range(60)))

    asyncio.run(ask())


def test_a_directory_that_this_process_holds_is_refused_as_such(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "memory")
    try:
        with pytest.raises(EventLogError, match=r"pid \d+ \(this one\); to share it, serve it: "):
            Memory(tmp_path / "memory")
    finally:
        node.close()


def test_a_closed_memory_leaves_no_node_behind(tmp_path: Path) -> None:
    """A process with a memory for each user opens and closes many."""

    def nodes() -> int:
        gc.collect()
        return sum(isinstance(each, Node) for each in gc.get_objects())

    before = nodes()
    for name in ("ann", "bob"):
        with Memory(tmp_path / name) as memory:
            memory.remember("tea at four")
            assert memory.recall("tea")
    until(lambda: nodes() == before)  # the thread that closed the last may still end
