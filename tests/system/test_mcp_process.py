"""The process of ``engramlog mcp``: odd messages on its pipes, signals, and its client's end."""

import fcntl
import json
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests.worlds.mcp_clients import KEY
from tests.worlds.processes import NodeProcess, create_key, environment, serving
from tests.worlds.waiting import SECONDS_MAX, until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("mcp") / "data"
    create_key(data, KEY, "agent:ann", "read", "write")
    with serving(data) as process:
        yield process


@contextmanager
def wired(node: NodeProcess) -> Generator[subprocess.Popen[bytes]]:
    """A server on pipes, ready for messages."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engramlog", "mcp", "--url", node.url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    with process:
        try:
            assert said(process, b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}')["id"] == 0
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes], line: bytes) -> dict[str, Any]:
    """The answer to a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_an_unreadable_message_is_answered(node: NodeProcess) -> None:
    with wired(node) as process:
        for line, name in (
            (rb'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": "\ud83c"}}', 7),
            (b'{"jsonrpc": "2.0", "id": "b", "method": "ping", "params": {"a": "\xff"}}', "b"),
            (b'{"id": 8, "method": "ping"}', 8),
            (b"\n[]", None),
            (b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}', None),
            (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None),
            (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None),
        ):
            answer = said(process, line)
            assert (answer["id"], answer["error"]["code"]) == (name, -32600)
        batch = said(process, b'[{"jsonrpc": "2.0", "id": 9, "method": "ping"}]')["error"]
        assert batch["message"].endswith("send each message of a batch on a line of its own")
        answer = said(process, b"hello")
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        assert said(process, b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}')["result"] == {}


def test_a_client_that_sends_all_and_closes_stdin_gets_every_answer(node: NodeProcess) -> None:
    call = {"name": "remember", "arguments": {"text": "Ann moved to Graz"}}
    start = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "pipe", "version": "1"}}  # fmt: skip
    cancelled = {"requestId": 2}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": start},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
        {"id": 2, "method": "tools/call", "params": call},
        {"method": "notifications/cancelled", "params": cancelled},
        {"id": 3, "method": "ping"},
    ]
    lines = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)
    done = subprocess.run(
        [sys.executable, "-m", "engramlog", "mcp", "--url", node.url],
        input=b"\xef\xbb\xbf" + lines,  # as Windows PowerShell begins a pipe
        env=environment({"STIGMEM_API_KEY": KEY}),
        capture_output=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {0, 1, 3} <= set(answers) <= {0, 1, 2, 3}
    assert answers[1]["result"]["structuredContent"]["stored"] is True


def test_a_server_on_pipes_ends_at_ctrl_c_and_with_its_client(node: NodeProcess) -> None:
    with wired(node) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS_MAX) == 130  # with stdin open: its end stops a server, too
        assert process.stderr.read() == b""
    with wired(node) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize("first", ["end", "SIGINT", "SIGTERM"])
def test_a_server_on_pipes_closes_its_directory_although_its_host_terminates_it_again(
    tmp_path: Path, first: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "engramlog", "mcp", "--data", str(tmp_path / "data")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        said(process, b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}')
        if first == "end":
            process.stdin.close()
            until(lambda: not (tmp_path / "data" / "control.json").exists())
        else:
            process.send_signal(signal.Signals[first])
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        assert process.returncode == (0 if first == "end" else 130)
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe's size is set as Linux does")
def test_a_server_ends_although_its_client_reads_nothing(node: NodeProcess) -> None:
    with wired(node) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        full = fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "%s"}\n' % (b"x" * 2 * full))
        process.stdin.flush()
        until(lambda: _waiting_bytes(process.stdout) == full)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_over_http_ends_although_its_node_answers_nothing(number: int) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "query_facts", "arguments": {}}}  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = ["--url", url, "--transport", "http", "--port", "0"]
        with subprocess.Popen(
            [sys.executable, "-m", "engramlog", "mcp", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        ) as server:  # fmt: skip
            assert server.stdout is not None
            assert server.stderr is not None
            place = server.stdout.readline().split()[3].decode()
            answer = pool.submit(httpx.post, place, json=call, timeout=SECONDS_MAX)
            with silent.accept()[0]:
                server.send_signal(number)
                with pytest.raises(httpx.TransportError):  # not what the server's client waits for
                    answer.result()
                assert server.wait(SECONDS_MAX) == (0 if number == signal.SIGTERM else 130)
            assert server.stderr.read() == b""


def _waiting_bytes(pipe: IO[bytes] | None) -> int:
    """How much of a pipe is unread."""
    assert pipe is not None
    (size,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return size


IN_THE_BACKGROUND = ("sh", "-c", """trap '' INT; exec "$@" """, "sh")
"""Shells ignore Ctrl-C for what they start there."""


@pytest.mark.parametrize(
    ("transport", "first", "code"),
    [
        (("http", "--port", "0"), b"", 0),
        (("stdio",), b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', 130),
    ],
    ids=["http", "stdio"],
)
@pytest.mark.parametrize("started", [(), IN_THE_BACKGROUND], ids=["alone", "in the background"])
def test_a_terminated_server_closes_its_directory(
    started: tuple[str, ...], transport: tuple[str, ...], first: bytes, code: int, tmp_path: Path
) -> None:
    data = tmp_path / "memory"
    command = [sys.executable, "-m", "engramlog", "mcp", "--data", str(data), "--transport"]
    env = environment({"STIGMEM_EMBED_ENABLED": "false"})
    with subprocess.Popen(
        [*started, *command, *transport], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(first)
        server.stdin.flush()
        assert server.stdout.readline()
        assert (data / "control.json").exists()
        server.terminate()
        assert server.wait(SECONDS_MAX) == code
    assert not (data / "control.json").exists()
