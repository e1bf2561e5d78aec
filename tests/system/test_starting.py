"""A node's output as it starts and stops, and the state after a failed start."""

import json
import logging
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from engramlog.api.client.client import Client, ClientError
from engramlog.api.node.process.control_file import running_control
from engramlog.api.node.process.error_log import PlainFormatter
from tests.worlds.processes import engramlog, environment, serving
from tests.worlds.waiting import until

PIPE_BYTES = 1 << 16
PATH_BYTES = 4_000


def test_a_busy_port_leaves_no_directory(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = engramlog("serve", "--data", tmp_path / "new", "--port", port)
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr
    assert not (tmp_path / "new").exists()


def test_lines_are_json_where_no_person_reads_them(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth", "--access-log") as node:
        node.client().get("/readyz")
    lines = [json.loads(line) for line in node.errors().splitlines()]
    (request,) = [line for line in lines if line["message"] == "request"]
    assert request["principal"] == "anon:trusted"
    assert [line["message"] for line in lines][-1].startswith("stopped at position ")
    assert {line["level"] for line in lines} == {"info"}


def test_a_node_serves_although_its_output_goes_to_a_full_disk(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "data"), "--port", "0"]
    with open("/dev/full", "w") as full:
        node = subprocess.Popen(
            [sys.executable, "-m", "engramlog", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
    try:
        until(lambda: running_control(tmp_path / "data"))
        node.send_signal(signal.SIGTERM)
        errors = node.communicate(timeout=30)[1]
    finally:
        node.kill()
    assert node.returncode == 0
    assert "cannot write to stdout: No space left on device" in errors


def test_a_node_serves_and_stops_although_nobody_reads_its_stderr(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "data"), "--port", "0", "--no-auth"]
    node = subprocess.Popen(
        [sys.executable, "-m", "engramlog", *arguments, "--access-log"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        control = until(lambda: running_control(tmp_path / "data"))
        assert control is not None
        with Client(control.url) as client:
            for _ in range(PIPE_BYTES // PATH_BYTES + 10):
                with suppress(ClientError):  # there is no such route
                    client.get(f"/healthz/{'x' * PATH_BYTES}")
            assert client.get("/readyz")["status"] == "ok"
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.communicate()


def test_the_end_of_its_terminal_stops_a_node_as_ctrl_c_does(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        node.process.send_signal(signal.SIGHUP)
        assert node.process.wait(30) == 0
        assert "stopped at position " in node.errors()


def test_people_get_plain_lines() -> None:
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "no %s", ("disk",), None)
    assert PlainFormatter().format(record).endswith(" warning: no disk")
