"""Files next to the databases are synced, and so are their folders."""

import os
from pathlib import Path

import pytest

from engramlog.api.node.node import CURSOR_KEY_BYTES, Node
from engramlog.api.node.process.control_file import CONTROL_NAME, Control, control_file
from engramlog.eventlog.clock import SystemClock
from engramlog.replay.backups import make_backup, restore_backup


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The synced files, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return found


def test_a_first_start_outlives_a_power_cut(tmp_path: Path, synced: list[Path]) -> None:
    data = tmp_path / "new" / "data"
    Node.open(data).close()
    assert data.parent in synced
    assert data in synced
    assert data / "identity" in synced
    assert data / "identity" / "cursor.key.next" in synced
    assert (data / "projections.db").is_symlink()


def test_the_control_file_is_synced_before_its_rename(tmp_path: Path, synced: list[Path]) -> None:
    with control_file(tmp_path, Control(1, "http://127.0.0.1:1", "token")):
        assert synced[-1] == tmp_path
        assert synced[-2].name.startswith("control.json")
        assert (tmp_path / CONTROL_NAME).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / CONTROL_NAME).exists()


def test_a_restore_is_synced_before_its_rename(tmp_path: Path, synced: list[Path]) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    Node.open(data).close()
    make_backup(data, backup, SystemClock(), lambda *_: None)
    synced.clear()
    restore_backup(backup, tmp_path / "again", lambda *_: None)
    staged = tmp_path / "again.restoring"
    assert staged in synced
    assert staged / "identity" in synced
    assert synced.index(staged) < len(synced) - 1 - synced[::-1].index(tmp_path)
    Node.open(tmp_path / "again").close()


def test_a_torn_secret_of_an_earlier_release_signs_no_cursor(tmp_path: Path) -> None:
    file = tmp_path / "data" / "identity" / "cursor.key"
    Node.open(tmp_path / "data").close()
    file.write_bytes(b"")
    node = Node.open(tmp_path / "data")
    assert len(node.cursor_key) == CURSOR_KEY_BYTES
    node.close()
    again = Node.open(tmp_path / "data")
    assert again.cursor_key == node.cursor_key == file.read_bytes()
    again.close()
