"""A process that forks, as ``multiprocessing`` does, while it holds a memory."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engramlog import Memory

FORKING = multiprocessing.get_context("fork")
SECONDS = 60.0
QUIET_SECONDS = 0.5


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")
    return tmp_path / "memory"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory(path) as opened:
        opened.remember("tea at four", user="ann")
        # A child that begins while a thread is inside SQLite inherits its locks, and can hang.
        time.sleep(QUIET_SECONDS)
        yield opened


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


def test_a_child_that_does_not_use_the_memory_ends(memory: Memory) -> None:
    assert answer_of_child(lambda: 7) == "7"
    assert len(memory.facts(user="ann")) == 1


def test_the_memory_of_the_parent_is_refused_in_a_child(memory: Memory) -> None:
    refusal = "ClientError: this memory belongs to the process that forked: open one here"
    assert answer_of_child(memory.facts) == refusal
    assert answer_of_child(memory.close) == "None"
    assert len(memory.facts(user="ann")) == 1


def test_a_child_opens_memories_of_its_own(memory: Memory, path: Path) -> None:
    def remembered() -> list[object]:
        with Memory(path.parent / "other") as own:
            return [own.remember("milk at five").value]

    assert answer_of_child(remembered) == "['milk at five']"
    assert answer_of_child(lambda: Memory(path)).startswith("DirectoryLocked: ")
    assert len(memory.facts(user="ann")) == 1


def test_a_closed_directory_opens_again_though_a_child_lives(path: Path) -> None:
    memory = Memory(path)
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
