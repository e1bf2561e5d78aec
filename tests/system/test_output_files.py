"""The files that commands write: a failed or killed command leaves the earlier file."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from engramlog.api.cli.output_file import output_file
from tests.worlds.dying_lives import die, lived
from tests.worlds.processes import engramlog

EARLIER = b"the only export of a node that is gone\n"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(EARLIER)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    "source", [("--data", "missing"), ("--url", "http://127.0.0.1:1")], ids=["data", "url"]
)
def test_a_failed_export_leaves_the_earlier_file(
    earlier: Path, tmp_path: Path, source: tuple[str, str]
) -> None:
    done = engramlog("export", *source, "--output", earlier, cwd=tmp_path)
    assert done.returncode == 1
    assert earlier.read_bytes() == EARLIER
    assert list(tmp_path.iterdir()) == [earlier]


@pytest.mark.parametrize(
    ("command", "option"), [(("export",), "--output"), (("replay", "heads"), "--out")]
)
def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(
    command: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    assert engramlog("remember", "Ann moved to Graz", "--data", tmp_path / "data").returncode == 0
    file = tmp_path / "no-folder" / "file.json"
    done = engramlog(*command, "--data", tmp_path / "data", option, file)
    assert done.stderr.splitlines()[-1] == f"engramlog: {file}: No such file or directory"


def test_an_export_replaces_the_earlier_file_and_keeps_its_mode(
    earlier: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    assert engramlog("remember", "Ann moved to Graz", "--data", data).returncode == 0
    (tmp_path / "latest.jsonl").symlink_to(earlier)
    done = engramlog("export", "--data", data, "--output", tmp_path / "latest.jsonl", "--quiet")
    assert done.returncode == 0, done.stderr
    assert any("Graz" in line for line in earlier.read_text().splitlines() if json.loads(line))
    assert stat.S_IMODE(earlier.stat().st_mode) == 0o600
    assert (tmp_path / "latest.jsonl").is_symlink()


def half_written(folder: Path, _point: str) -> None:
    with output_file(folder / "memory.jsonl") as out:
        out.write(b"half of ")
        out.flush()
        die()


def test_a_killed_command_leaves_the_earlier_file(earlier: Path, tmp_path: Path) -> None:
    lived(half_written, {tmp_path: "half of the file is written"})
    assert earlier.read_bytes() == EARLIER
    with output_file(earlier) as out:
        out.write(b"whole")
    assert earlier.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [earlier]


def test_a_pipe_is_written_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with output_file(pipe) as out:
        out.write(b"line\n")
    reader.join(10)
    assert read == [b"line\n"]
    assert list(tmp_path.iterdir()) == [pipe]
