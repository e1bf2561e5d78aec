"""A node's output as it starts and stops, and the state after a failed start."""

import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

from engramlog.api.node.process.control_file import running_control
from engramlog.api.node.process.serving import PlainFormatter
from tests.worlds.processes import engramlog, environment, serving
from tests.worlds.waiting import until


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


def test_the_end_of_its_terminal_stops_a_node_as_ctrl_c_does(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        node.process.send_signal(signal.SIGHUP)
        assert node.process.wait(30) == 0
        assert "stopped at position " in node.errors()


def test_people_get_plain_lines() -> None:
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "no %s", ("disk",), None)
    assert PlainFormatter().format(record).endswith(" warning: no disk")
