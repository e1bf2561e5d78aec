"""The user's code that runs within a memory, in arguments, finalizers and log handlers, blocks
nothing."""

import asyncio
import gc
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from engramlog import Memory
from engramlog.api.python.transport import begun
from engramlog.projections.http_exchange import HttpAnswer, answer_of
from tests.worlds.processes import environment
from tests.worlds.waiting import until

PATIENCE_SECONDS = 60.0
"""How long a call that waits for itself may hang before the test fails."""


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory") as opened:
        opened.remember("tea at four", user="ann")
        yield opened


def outcome(call: Callable[[], object]) -> object:
    """What a call returns or raises, in a thread of its own that may hang."""
    found: Future[object] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as fault:
            found.set_result(fault)

    Thread(target=run, daemon=True).start()
    return found.result(PATIENCE_SECONDS)


class Asking(Mapping[str, Any]):
    """A value that asks the memory for its content."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __getitem__(self, name: str) -> Any:
        return {"type": "string", "v": str(self._memory.facts()[-1].value)}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("type", "v"))

    def __len__(self) -> int:
        return 2


def test_an_argument_may_ask_the_memory(memory: Memory) -> None:
    def tags() -> Iterator[str]:
        yield str(memory.facts()[0].value)

    def given() -> Any:
        return tags()

    kept = outcome(lambda: memory.remember("cake", user="ann", tags=given()))
    stated = outcome(lambda: memory.assert_fact("user:ann", "memory:drinks", Asking(memory)))
    assert [getattr(each, "value", each) for each in (kept, stated)] == ["cake", "tea at four"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit, ValueError])
def test_a_fault_of_an_argument_ends_only_its_call(
    memory: Memory, fault: type[BaseException]
) -> None:
    def tags() -> Iterator[str]:
        yield "a"
        raise fault

    def given() -> Any:
        return tags()

    assert isinstance(outcome(lambda: memory.remember("cake", tags=given())), fault)
    (kept,) = memory.facts()
    assert kept.value == "tea at four"


@pytest.mark.parametrize("fault", [KeyboardInterrupt, SystemExit])
def test_a_fault_in_the_background_loop_leaves_it_running(
    memory: Memory, fault: type[BaseException]
) -> None:
    async def work() -> None:
        raise fault

    assert isinstance(outcome(lambda: begun(work()).result()), fault)
    assert len(memory.facts()) == 1


class Agent:
    """Closes its memory when Python collects it: it is in a circle."""

    def __init__(self, memory: Memory, closed: list[bool]) -> None:
        self.memory = memory
        self.closed = closed
        self.myself = self

    def __del__(self) -> None:
        self.memory.close()
        self.closed.append(True)


# As with a file, Python may finalize the memory before the object that would close it.
@pytest.mark.filterwarnings("ignore:unclosed memory:ResourceWarning")
def test_a_finalizer_in_a_memorys_thread_closes_without_waiting(
    memory: Memory, tmp_path: Path
) -> None:
    """Python collects circles in whichever thread makes an object next."""
    closed: list[bool] = []

    async def collect() -> None:
        Agent(Memory.__new__(Memory), closed).__dict__.update(memory=others.pop())
        while not gc.collect() and not closed:  # while another thread collects, it does nothing
            await asyncio.sleep(0.01)

    others = [Memory(tmp_path / "other")]
    assert outcome(lambda: begun(collect()).result()) is None
    until(lambda: closed == [True])
    until(lambda: outcome(lambda: Memory(tmp_path / "other").close()) is None)


def test_a_log_handler_in_a_memorys_thread_hears_that_it_cannot_wait(
    memory: Memory, tmp_path: Path
) -> None:
    heard: list[object] = []

    class Remembering(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                memory.remember(record.getMessage())
            except RuntimeError as fault:
                heard.append(str(fault))

    async def log() -> None:
        logger.warning("from the loop")

    logger = logging.getLogger("engramlog.api.python.test")
    logger.addHandler(Remembering())
    assert outcome(lambda: begun(log()).result()) is None
    assert len(heard) == 1
    assert "cannot wait" in str(heard[0])


def test_only_threads_of_the_user_may_wait(memory: Memory) -> None:
    """Also one whose whole work is a verb."""

    class Asked(Future[HttpAnswer]):
        def result(self, timeout: float | None = None) -> Any:
            return memory.facts()

    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(memory.facts).result(PATIENCE_SECONDS)) == 1
        with pytest.raises(RuntimeError, match="cannot wait"):
            pool.submit(answer_of, Asked()).result(PATIENCE_SECONDS)


AT_THE_END = """
from engramlog import ClientError, Memory
class Agent:
    memory = Memory("memory")
    def __del__(self):
        try:
            self.memory.remember("good bye")
        except ClientError as fault:
            print(fault)
        self.memory.close()
        print("closed")
agent = Agent()
agent.memory.remember("tea at four", user="ann")
"""


def test_a_finalizer_at_the_end_of_the_process_does_not_hang(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], timeout=PATIENCE_SECONDS,
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "this memory is closed: the process ends\nclosed\n"
    with Memory(tmp_path / "memory") as again:
        assert len(again.facts()) == 1
