"""Snapshots and ``engramlog rebuild``, of a directory, served or not."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from tests.worlds.histories import asserted
from tests.worlds.processes import COMMAND_SECONDS_MAX, engramlog, environment, serving
from tests.worlds.waiting import until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    node = Node.open(tmp_path / "data")
    node.write(*[asserted(value=Value("string", f"v{number}")) for number in range(80)])
    node.close()
    return tmp_path / "data"


def run(*args: str | Path) -> str:
    done = engramlog(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def snapshots(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("request", "GET", "/v1/admin/snapshots", "--data", data))
    return found


def positions(data: Path) -> list[int]:
    return [each["position"] for each in snapshots(data)["snapshots"]]


def snapshot(data: Path, *body: str) -> int:
    """The position of a snapshot that the serving node took."""
    run("request", "POST", "/v1/admin/snapshots", *body, "--data", data)
    until(lambda: snapshots(data)["job"]["status"] != "running")
    position: int = snapshots(data)["job"]["result"]["position"]
    return position


def on_terminal(*args: str | Path) -> str:
    """A command's stderr on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "engramlog", *map(str, args)],
        stdout=subprocess.DEVNULL, stderr=theirs, env=environment(),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(ours)
    assert process.wait(COMMAND_SECONDS_MAX) == 0, shown
    return shown.decode()


def test_a_served_and_an_unserved_directory_take_the_same_commands(data: Path) -> None:
    with serving(data, "--no-auth") as node:
        taken = snapshot(data)
        assert taken == node.client().get("/readyz")["position"]
        assert snapshot(data, "--body", '{"position": 50}') == 50
        report = json.loads(run("rebuild", "--data", data, "--json"))
        assert (report["snapshot"], report["events"]) == (taken, 0)
    assert positions(data) == [taken, 50]
    file = data / "snapshots" / f"{taken:012d}.db"
    file.write_bytes(file.read_bytes()[:-1])
    rebuilt = engramlog("rebuild", "--data", data)
    assert rebuilt.returncode == 0
    assert f"snapshot {taken} is passed over" in rebuilt.stderr
    assert "behind the snapshot at 50" in rebuilt.stdout
    run("request", "POST", "/v1/admin/snapshots", "--body", '{"position": 60}', "--data", data)
    assert positions(data) == [taken, 60, 50], "the command waited for the snapshot"
    run("request", "DELETE", "/v1/admin/snapshots/50", "--data", data)
    gone = engramlog("request", "DELETE", "/v1/admin/snapshots/50", "--data", data)
    assert (gone.returncode, "there is no snapshot" in gone.stderr) == (1, True)


def test_a_terminal_sees_how_fast_a_rebuild_is(data: Path) -> None:
    shown = on_terminal("rebuild", "--data", data, "--from-scratch")
    assert re.search(r"rebuild: +0%.* 0\.00/81\.0 .*event/s", shown), shown
