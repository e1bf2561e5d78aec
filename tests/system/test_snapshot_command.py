"""``engramlog snapshot`` and ``engramlog rebuild``, of a directory, served or not."""

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

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from tests.worlds.histories import asserted
from tests.worlds.processes import COMMAND_SECONDS_MAX, engramlog, environment, serving


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
        taken = json.loads(run("snapshot", "take", "--data", data, "--json"))
        assert taken["position"] == node.client().get("/readyz")["position"]
        run("snapshot", "take", "--data", data, "--position", "50")
        report = json.loads(run("rebuild", "--data", data, "--json"))
        assert (report["snapshot"], report["events"]) == (taken["position"], 0)
    shown = json.loads(run("snapshot", "list", "--data", data, "--json"))["snapshots"]
    assert [each["position"] for each in shown] == [taken["position"], 50]
    assert run("snapshot", "verify", "--replay", "--data", data).count("holds") == 2
    file = data / "snapshots" / f"{taken['position']:012d}.db"
    file.write_bytes(file.read_bytes()[:-1])
    checked = engramlog("snapshot", "verify", "--data", data)
    assert checked.returncode == 1
    assert f"snapshot {taken['position']}: its file is not as it was written" in checked.stdout
    assert "snapshot 50: holds" in checked.stdout
    rebuilt = engramlog("rebuild", "--data", data)
    assert rebuilt.returncode == 0
    assert f"snapshot {taken['position']} is passed over" in rebuilt.stderr
    assert "behind the snapshot at 50" in rebuilt.stdout
    gone = engramlog("snapshot", "remove", "7", "--data", data)
    assert (gone.returncode, "there is no snapshot" in gone.stderr) == (1, True)


def test_a_terminal_sees_how_fast_a_rebuild_is(data: Path) -> None:
    shown = on_terminal("rebuild", "--data", data, "--from-scratch")
    assert re.search(r"rebuild: +0%.* 0\.00/81\.0 .*event/s", shown), shown
