"""The control file on a disk that takes no more files: the node answers without it."""

import errno
import os
from pathlib import Path

import pytest

from engramlog.api.node.process import control_file as module
from engramlog.api.node.process.control_file import Control, control_file, read_control

CONTROL = Control(1, "http://127.0.0.1:1", "token")


def refusing(number: int) -> object:
    def refuse(path: Path, _: bytes) -> None:
        raise OSError(number, os.strerror(number), str(path))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    monkeypatch.setattr(module, "replace", refusing(number))
    with control_file(tmp_path, CONTROL):
        assert read_control(tmp_path) is None
    assert f"control.json: {os.strerror(number)}: commands on the directory" in caplog.text


def test_another_failure_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "replace", refusing(errno.EROFS))
    with pytest.raises(OSError, match="Read-only file system"), control_file(tmp_path, CONTROL):
        pass


def test_a_file_out_of_reach_at_the_end_does_not_fail_the_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with control_file(data, CONTROL):
        assert read_control(data) == CONTROL
        (data / "control.json").unlink()
        (data / "control.json").mkdir()  # cannot be unlinked
