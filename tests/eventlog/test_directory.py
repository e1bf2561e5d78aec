"""A data directory belongs to one process and one place; copies are detected, moves are allowed."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engramlog.eventlog import directory as directory_module
from engramlog.eventlog.directory import DataDirectory, HeldDirectory, IdentityPlace
from engramlog.eventlog.errors import (
    DataDirectoryError,
    DirectoryCopied,
    DirectoryLocked,
    KeyFileError,
)
from engramlog.eventlog.identity import Identity

ROOT = Path(__file__).parents[2]
HOLD_LOCK = """
import sys
from pathlib import Path
from engramlog.eventlog.directory import HeldDirectory
directory = HeldDirectory.open(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def node_of(path: Path) -> tuple[str, int]:
    directory = HeldDirectory.open(path)
    directory.close()
    return directory.identity.node_id, directory.identity.epoch


def test_a_new_directory_gets_an_identity_it_keeps(data: Path) -> None:
    assert node_of(data) == node_of(data)
    assert (data.stat().st_mode & 0o777, (data / "identity").stat().st_mode & 0o777) == (
        0o700,
        0o700,
    )


def test_the_layout_matches_the_format(data: Path) -> None:
    directory = HeldDirectory.open(data)
    assert directory.log_path == data / "log.db"
    assert directory.projections_path == data / "projections.db"
    assert {path.name for path in data.iterdir()} == {"identity", "lock"}
    directory.close()


def test_a_missing_directory_is_made_only_when_asked(data: Path) -> None:
    with pytest.raises(DataDirectoryError, match="does not exist"):
        HeldDirectory.open(data, create=False)
    with pytest.raises(DataDirectoryError, match="does not exist"):
        DataDirectory.inspect(data)
    assert not data.exists()


@pytest.mark.parametrize(
    ("files", "mode"), [([], 0o700), (["engramlog.toml"], 0o700), (["notes.txt"], 0o755)]
)
def test_an_empty_folder_is_closed_to_other_users(
    tmp_path: Path, files: list[str], mode: int
) -> None:
    """As a new one is; a folder with other files keeps its mode."""
    folder = tmp_path / "made"
    folder.mkdir()
    folder.chmod(0o755)
    for name in files:
        (folder / name).touch()
    HeldDirectory.open(folder).close()
    assert folder.stat().st_mode & 0o777 == mode


def test_a_second_process_is_refused_with_the_holders_pid(data: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryLocked, match=f"pid {holder.pid}$"):
            HeldDirectory.open(data)
        assert DataDirectory.inspect(data).identity.epoch == 1
        holder.stdin.close()
    HeldDirectory.open(data).close()


def test_a_second_process_is_refused_although_the_lock_file_was_removed(data: Path) -> None:
    with closing(HeldDirectory.open(data)):
        (data / "lock").unlink()
        with pytest.raises(DirectoryLocked, match="is in use"):
            HeldDirectory.open(data)
        with pytest.raises(DirectoryLocked, match="is in use"):  # its own file is no lock
            HeldDirectory.open(data)
    HeldDirectory.open(data).close()


def test_a_directory_that_another_program_locks_names_no_process_of_before(data: Path) -> None:
    HeldDirectory.open(data).close()
    folder = os.open(data, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(DirectoryLocked, match="has locked the directory itself"):
            HeldDirectory.open(data)
    finally:
        os.close(folder)
    HeldDirectory.open(data).close()


def test_where_directories_cannot_be_locked_the_lock_file_is_enough(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def no_folders(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOLCK, "No locks available")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", no_folders)
    for _ in range(2):
        with closing(HeldDirectory.open(data)), pytest.raises(DirectoryLocked, match="pid"):
            HeldDirectory.open(data)


def test_a_directory_that_cannot_be_locked_is_not_said_to_be_in_use(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def no_folders(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).is_dir():
            raise OSError(errno.EMFILE, "Too many open files")
        return open_(path, flags, mode)

    open_ = os.open
    HeldDirectory.open(data).close()
    for module, name, failing, reason in (
        (fcntl, "flock", no_locks, "No locks available"),
        (os, "open", no_folders, "Too many open files"),
    ):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(module, name, failing)
            with pytest.raises(DataDirectoryError, match=f"cannot lock .*: {reason}"):
                HeldDirectory.open(data)
    HeldDirectory.open(data).close()


def test_the_lock_of_a_killed_process_is_free(data: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    HeldDirectory.open(data).close()


@pytest.mark.parametrize(
    ("name", "words"),
    [("/".join(["d" * 200] * 3), "the most are 470"), (os.fsdecode(b"\xff"), "is not UTF-8")],
)
def test_a_path_that_sqlite_cannot_take_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, words: str
) -> None:
    with pytest.raises(DataDirectoryError, match=words):
        HeldDirectory.open(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_directory_may_be_closed_twice_and_opened_again(data: Path) -> None:
    directory = HeldDirectory.open(data)
    directory.close()
    directory.close()
    HeldDirectory.open(data).close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the list of descriptors")
def test_a_child_that_just_began_does_not_keep_a_closed_directory(data: Path) -> None:
    """Until it runs, a forked child has every descriptor; a copied one stands for it."""
    directory = HeldDirectory.open(data)
    descriptors = Path("/proc/self/fd")
    (lock,) = (each for each in descriptors.iterdir() if points_at(each, data / "lock"))
    of_child = os.dup(int(lock.name))
    try:
        directory.close()
        HeldDirectory.open(data).close()
    finally:
        os.close(of_child)


def points_at(descriptor: Path, file: Path) -> bool:
    try:
        return descriptor.samefile(file)
    except OSError:  # closed meanwhile, as the one that lists them
        return False


def test_a_copied_directory_is_refused_with_both_ways_out(data: Path, tmp_path: Path) -> None:
    node_of(data)
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    with pytest.raises(DirectoryCopied) as refusal:
        HeldDirectory.open(copy)
    assert f"engramlog identity accept-copy --data {copy}" in str(refusal.value)
    assert f"engramlog identity new --data {copy}" in str(refusal.value)
    HeldDirectory.open(data).close()


def test_a_copy_over_a_log_in_postgresql_is_told_how_to_become_another_node_over_it(
    data: Path, tmp_path: Path
) -> None:
    node_of(data)
    (data / "log.json").touch()
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    with pytest.raises(DirectoryCopied, match=f"identity backup {copy / 'identity'} --data"):
        HeldDirectory.open(copy)


def test_a_moved_directory_is_the_same_node(data: Path, tmp_path: Path) -> None:
    node = node_of(data)
    data.rename(tmp_path / "elsewhere")
    assert node_of(tmp_path / "elsewhere") == node


def test_a_rotated_key_is_not_taken_for_a_copy(data: Path, tmp_path: Path) -> None:
    directory = HeldDirectory.open(data)
    directory.identity.rotate()
    directory.close()
    node = node_of(data)
    assert node_of(data) == node
    shutil.copytree(data, tmp_path / "copy")
    with pytest.raises(DirectoryCopied):
        HeldDirectory.open(tmp_path / "copy")


def test_an_accepted_copy_is_the_same_node_in_the_next_epoch(data: Path, tmp_path: Path) -> None:
    node_id, _ = node_of(data)
    shutil.copytree(data, tmp_path / "copy")
    assert HeldDirectory.accept_copy(tmp_path / "copy").reason == "copied"
    assert node_of(tmp_path / "copy") == (node_id, 2)


def test_a_copy_can_become_an_independent_node(data: Path, tmp_path: Path) -> None:
    node_id, _ = node_of(data)
    copy = tmp_path / "copy"
    (data / "log.db").touch()
    shutil.copytree(data, copy)
    identity = HeldDirectory.new_identity(copy)
    assert identity.node_id != node_id
    assert node_of(copy) == (identity.node_id, 1)
    assert (copy / "identity.replaced-1" / "node.key").exists()


def test_a_directory_that_is_open_cannot_change_its_identity(data: Path) -> None:
    directory = HeldDirectory.open(data)
    for change in (HeldDirectory.accept_copy, HeldDirectory.new_identity):
        with pytest.raises(DirectoryLocked):
            change(data)
    directory.close()


def test_a_log_without_its_identity_is_not_given_a_new_one(data: Path) -> None:
    node_of(data)
    (data / "log.db").touch()
    shutil.rmtree(data / "identity")
    with pytest.raises(KeyFileError, match=f"restore .*identity new --data {data}"):
        HeldDirectory.open(data)


def test_a_log_whose_keys_are_lost_can_become_another_node(data: Path) -> None:
    node_id, _ = node_of(data)
    (data / "log.db").touch()
    shutil.rmtree(data / "identity")
    identity = HeldDirectory.new_identity(data)
    assert identity.node_id != node_id
    assert node_of(data) == (identity.node_id, 1)


def test_a_node_that_was_a_copy_and_lost_its_keys_does_not_silently_become_another(
    data: Path,
) -> None:
    node_of(data)
    (data / "log.db").touch()
    HeldDirectory.new_identity(data)
    shutil.rmtree(data / "identity")
    with pytest.raises(KeyFileError, match=f"restore .*identity new --data {data}"):
        HeldDirectory.open(data)
    identity = HeldDirectory.new_identity(data)
    assert node_of(data) == (identity.node_id, 1)


def test_an_identity_restored_from_a_backup_is_at_home_where_it_is_first_opened(
    data: Path, tmp_path: Path
) -> None:
    directory = HeldDirectory.open(data)
    directory.identity.backup(tmp_path / "backup")
    directory.close()
    Identity.restore(tmp_path / "backup", tmp_path / "new" / "identity")
    assert node_of(tmp_path / "new") == (directory.identity.node_id, 2)


def test_an_identity_half_made_by_a_crash_is_made_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(directory_module.Path, "rename", cut)
        with pytest.raises(KeyboardInterrupt):
            HeldDirectory.open(data)
    assert node_of(data)[1] == 1


HOME = IdentityPlace(key_inode=7, key_generation=3, key_changed_ns=100, machine="a")


@pytest.mark.parametrize(
    ("story", "changes", "is_copy"),
    [
        ("opened again", {}, False),
        ("chmod", {"key_changed_ns": 200}, False),
        ("copied", {"key_inode": 8, "key_changed_ns": 200}, True),
        ("restored over the deleted one", {"key_generation": 4, "key_changed_ns": 200}, True),
        ("disk carried to another machine", {"machine": "b"}, False),
        ("same inode on another machine", {"machine": "b", "key_changed_ns": 200}, True),
    ],
)
def test_a_copy_differs_from_a_move(story: str, changes: dict[str, Any], is_copy: bool) -> None:
    assert HOME.is_copy_at(msgspec.structs.replace(HOME, **changes)) is is_copy
