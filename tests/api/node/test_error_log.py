"""The error log holds up no caller, and says what it left out."""

import json
import logging
import os
from threading import Thread

import pytest

from engramlog.api.node.process import error_log
from engramlog.api.node.process.error_log import WAITING_BYTES_MAX, JsonFormatter, LineWriter

TEXT = "x" * 1_000
PIPE_BYTES = 1 << 16


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("n", logging.ERROR, "", 0, text, (), None)


def writer_to(descriptor: int) -> LineWriter:
    made = LineWriter(descriptor)
    made.setFormatter(JsonFormatter())
    return made


def messages_of(reading: int, writing: int, writer: LineWriter) -> list[str]:
    """What is in a pipe once its writer has closed."""
    found: list[bytes] = []

    def read() -> None:
        with open(reading, "rb") as pipe:
            found.extend(pipe)

    reader = Thread(target=read)
    reader.start()
    writer.close()
    os.close(writing)
    reader.join()
    return [str(json.loads(line)["message"]) for line in found]


def test_a_pipe_that_nobody_reads_holds_up_no_one() -> None:
    reading, writing = os.pipe()
    writer = writer_to(writing)
    count = 2 * (WAITING_BYTES_MAX + PIPE_BYTES) // len(TEXT)
    for _ in range(count):
        writer.handle(record(TEXT))
    messages = messages_of(reading, writing, writer)
    assert messages.count(TEXT) == len(messages) - 1
    left_out = count - messages.count(TEXT)
    assert left_out > 0
    assert messages[-1] == f"{left_out} lines are left out here: stderr took no more"


def test_a_pipe_that_does_not_block_takes_whole_lines_once_it_is_read() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    writer = writer_to(writing)
    count = 2 * PIPE_BYTES // len(TEXT)
    for _ in range(count):
        writer.handle(record(TEXT))
    assert messages_of(reading, writing, writer) == [TEXT] * count


def test_the_end_does_not_wait_for_a_pipe_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(error_log, "END_SECONDS_MAX", 0.01)
    reading, writing = os.pipe()
    writer = writer_to(writing)
    for _ in range(2 * PIPE_BYTES // len(TEXT)):
        writer.handle(record(TEXT))
    writer.close()
    os.close(reading)  # ends the writing thread
    os.close(writing)


def test_lines_that_a_full_disk_refuses_are_counted() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    reading, writing = os.pipe()
    writer = writer_to(full)
    writer.handle(record("refused"))
    while writer._done == 0:  # pyright: ignore[reportPrivateUsage]
        pass
    os.dup2(writing, full)
    writer.handle(record("taken"))
    writer.close()
    os.close(full)
    os.close(writing)
    with open(reading, "rb") as pipe:
        messages = [json.loads(line)["message"] for line in pipe]
    assert messages == ["1 lines are left out here: stderr took no more", "taken"]
