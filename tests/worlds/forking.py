"""``python -m tests.worlds.forking NAME FOLDER``: one life of a process that forks while it holds a
memory, as ``multiprocessing`` does.

Each life has a process of its own: a fork copies the locks that any other thread holds.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from engramlog import Memory

FORKING = multiprocessing.get_context("fork")
SECONDS = 60.0
QUIET_SECONDS = 0.5
"""A child that begins while a thread is inside SQLite inherits its locks, and can hang."""


def opened(path: Path) -> Memory:
    """A memory of one fact, whose threads rest."""
    memory = Memory(path)
    memory.remember("tea at four", user="ann")
    time.sleep(QUIET_SECONDS)
    return memory


def answer_of_child(work: Callable[[], object]) -> str:
    """What ``work`` returns or raises in a forked child, which then ends by itself."""
    here, there = FORKING.Pipe()

    def run(pipe: Connection) -> None:
        try:
            pipe.send(repr(work()))
        except Exception as fault:
            pipe.send(f"{type(fault).__name__}: {fault}")

    child = FORKING.Process(target=run, args=(there,))
    child.start()
    try:
        assert here.poll(SECONDS)
        child.join(SECONDS)
        assert child.exitcode == 0
        return here.recv()
    finally:
        child.kill()


def idle(path: Path) -> None:
    """The child does not use the memory, and ends."""
    with opened(path) as memory:
        assert answer_of_child(lambda: 7) == "7"
        assert len(memory.facts(user="ann")) == 1


def inherited(path: Path) -> None:
    """The child is refused the parent's memory, and may close it."""
    refusal = "ClientError: this memory belongs to the process that forked: open one here"
    with opened(path) as memory:
        assert answer_of_child(memory.facts) == refusal
        assert answer_of_child(memory.close) == "None"
        assert len(memory.facts(user="ann")) == 1


def another(path: Path) -> None:
    """The child opens a memory of its own, and cannot open the parent's directory."""

    def remembered() -> list[object]:
        with Memory(path.parent / "other") as own:
            return [own.remember("milk at five").value]

    with opened(path) as memory:
        assert answer_of_child(remembered) == "['milk at five']"
        assert answer_of_child(lambda: Memory(path)).startswith("DirectoryLocked: ")
        assert len(memory.facts(user="ann")) == 1


def closed(path: Path) -> None:
    """The parent closes its memory and opens it again while the child lives."""
    memory = opened(path)
    waits, ends = FORKING.Pipe()
    child = FORKING.Process(target=waits.poll, args=(SECONDS,))
    child.start()
    try:
        memory.close()
        Memory(path).close()
        assert child.is_alive()
    finally:
        ends.send("end")
        child.join(SECONDS)
        child.kill()


LIVES = {each.__name__: each for each in (idle, inherited, another, closed)}

if __name__ == "__main__":
    LIVES[sys.argv[1]](Path(sys.argv[2]))
