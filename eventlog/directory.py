"""One node's data directory: its layout, its lock, and the detection of copies.

    log.db           the event log, the only truth
    projections.db   views of it; may be deleted
    identity/        the signing key (see ``identity``) and ``place.json``
    lock             held with ``flock`` while a process writes, as is the directory itself, which
                     a person cannot remove by mistake; names its pid

Two nodes with one identity would write two histories under one name, so a copied directory
is refused. A copy has another inode of the key file; moving or renaming the directory within
a file system keeps the inode.
"""

import contextlib
import fcntl
import os
import shutil
import sys
from pathlib import Path
from typing import Self, TypeAlias
from weakref import WeakSet

import msgspec
from msgspec import Struct

from engramlog.eventlog.clock import Clock, SystemClock
from engramlog.eventlog.durable_file import replace, sync_folder
from engramlog.eventlog.errors import (
    DataDirectoryError,
    DirectoryCopied,
    DirectoryLocked,
    KeyFileError,
)
from engramlog.eventlog.identity import KEY_FILE, Identity

PLACE_FILE = "place.json"
LOG_PLACE_FILE = "log.json"
"""In a directory whose log is in PostgreSQL."""
BACKUP_MANIFEST = "manifest.json"
"""A folder with this file is a backup."""
COPYING_FILE = "log.copying"
"""In a directory while its log is an incomplete copy: used, it would be a second history."""
PATH_BYTES_MAX = 470
"""SQLite takes 504 for a file, and its names are in UTF-8."""
FS_IOC_GETVERSION = 0x80087601
"""Linux; ext4, XFS and Btrfs answer it."""
MACHINE_ID_PATH = Path("/etc/machine-id")


class IdentityPlace(Struct, frozen=True):
    """The key file's place when the identity was last opened."""

    key_inode: int
    key_generation: int
    key_changed_ns: int
    machine: str

    def is_copy_at(self, here: "IdentityPlace") -> bool:
        """Whether ``here`` is another copy of the key file. A file restored over a deleted one may
        get the same inode, but in another generation. On another machine both may be equal by
        accident, but not the time of the last change as well: no copying program can set that."""
        if (self.key_inode, self.key_generation) != (here.key_inode, here.key_generation):
            return True
        return self.machine != here.machine and self.key_changed_ns != here.key_changed_ns


class DataDirectory:
    """A data directory in a process that only reads: without lock and private key.
    ``HeldDirectory`` is the writable one."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        self.identity = identity

    @classmethod
    def inspect(cls, path: Path) -> "DataDirectory":
        """Open a directory for reading, even one that is held. Raises DataDirectoryError."""
        if not is_data_directory(path):
            raise DataDirectoryError(no_data_directory(path))
        return DataDirectory(path, Identity.inspect(path / "identity"))

    @property
    def copying(self) -> bool:
        """Whether the log is an incomplete copy."""
        return (self.path / COPYING_FILE).exists()

    def require_whole_log(self) -> None:
        """Raises DataDirectoryError if the log is an incomplete copy."""
        if self.copying:
            raise DataDirectoryError(
                f"the log of {self.path} is an incomplete copy: repeat the command that copies it "
                "('engramlog copy-log', or 'engramlog serve' with --replica-of), it continues"
            )

    @property
    def log_path(self) -> Path:
        return self.path / "log.db"

    @property
    def projections_path(self) -> Path:
        return self.path / "projections.db"


class HeldDirectory(DataDirectory):
    """A data directory that this process holds: code that writes into one asks for this type."""

    def __init__(self, path: Path, identity: Identity, locks: "_Locks") -> None:
        super().__init__(path, identity)
        self._locks = locks
        _held.add(self)

    @classmethod
    def open(cls, path: Path, *, create: bool = True, clock: Clock | None = None) -> Self:
        """Take the directory for this process; create it and its identity if new. Raises
        DirectoryLocked: another process holds it; the message names its pid. DirectoryCopied: it is
        a copy; the message names the remedies. KeyFileError: the signing key is missing or unsafe.
        DataDirectoryError: it does not exist, cannot be written, or is a backup."""
        _refuse_backup(path)
        _refuse_path(path)
        locks = _take_locks(path, create)
        try:
            folder = path / "identity"
            if folder.exists():
                identity = Identity.load(folder)
                _refuse_copy(path)
            else:
                _refuse_lost_identity(path)
                identity = _create_identity(path, clock or SystemClock())
            remember_place(path)
        except BaseException:
            _release(locks)
            raise
        return cls(path, identity, locks)

    def begin_copying(self) -> None:
        """Mark the log as an incomplete copy."""
        replace(self.path / COPYING_FILE, b"")

    def end_copying(self) -> None:
        """The log is a whole copy. Idempotent."""
        (self.path / COPYING_FILE).unlink(missing_ok=True)
        sync_folder(self.path)

    def close(self) -> None:
        """Release the directory. Idempotent."""
        _release(self._locks)
        self._locks = ()

    def leave_to_parent(self) -> None:
        """Close a forked child's descriptors of the locks, which the parent still holds."""
        for each in self._locks:
            os.close(each)
        self._locks = ()

    @classmethod
    def accept_copy(cls, path: Path) -> Identity:
        """Continue as the same node from a copy, in the next epoch. Only right when the original is
        lost: its events after the copy was made are lost unless peers hold them. They keep their
        streams (the old epoch), and new events cannot be confused with them. Raises as ``open``."""
        locks = _take_locks(path, create=False)
        try:
            identity = Identity.load(path / "identity")
            identity.start_epoch(identity.epoch + 1, "copied")
            remember_place(path)
        finally:
            _release(locks)
        return identity

    @classmethod
    def new_identity(cls, path: Path) -> Identity:
        """Make the copy, or a directory whose keys are lost, an independent node: another id,
        epoch 1, the same memory so far. Renames what keys there are to ``identity.replaced-N``.
        Raises as ``open``."""
        locks = _take_locks(path, create=False)
        try:
            number = len(list(path.glob("identity.replaced-*"))) + 1
            if (path / "identity").exists():
                (path / "identity").rename(path / f"identity.replaced-{number}")
            identity = _create_identity(path, SystemClock())
            remember_place(path)
        finally:
            _release(locks)
        return identity


def remember_place(path: Path) -> None:
    """Record the directory's present place as its own, unless it is recorded: a node on a full
    disk must start, to answer and to erase."""
    file = path / "identity" / PLACE_FILE
    here = msgspec.json.encode(_place_of(path / "identity" / KEY_FILE)) + b"\n"
    if not file.exists() or file.read_bytes() != here:
        replace(file, here)


def _refuse_backup(path: Path) -> None:
    """A node would write into it, and end it as a backup. One that was opened is a node."""
    if (path / BACKUP_MANIFEST).exists() and not (path / "identity" / PLACE_FILE).exists():
        raise DataDirectoryError(
            f"{path} is a backup: make a data directory from it with "
            f"'engramlog restore {path} --data DIR'"
        )


def _refuse_path(path: Path) -> None:
    """SQLite would only say that it cannot open a file."""
    try:
        size = len(str(path.resolve()).encode())
    except UnicodeEncodeError as fault:
        raise DataDirectoryError(f"the path {path} is not UTF-8: choose another") from fault
    if size > PATH_BYTES_MAX:
        raise DataDirectoryError(
            f"the path {path} has {size} bytes, the most are {PATH_BYTES_MAX}: choose a shorter one"
        )


def _refuse_copy(path: Path) -> None:
    """Raises DirectoryCopied if the keys are not where they were made: two nodes would write as
    one. DataDirectoryError: the record of that place is damaged."""
    folder = path / "identity"
    try:
        remembered = msgspec.json.decode((folder / PLACE_FILE).read_bytes(), type=IdentityPlace)
    except FileNotFoundError:  # restored from a backup: the first opening decides
        return
    except (OSError, ValueError) as fault:
        raise DataDirectoryError(
            f"cannot read {folder / PLACE_FILE}: {fault}; remove it, unless the directory is a copy"
        ) from fault
    # After a crash within a rotation, the remembered key has its retired name.
    if all(remembered.is_copy_at(_place_of(key)) for key in folder.glob(f"{KEY_FILE}*")):
        other = f"an independent node, with another id: 'engramlog identity new --data {path}'"
        if (path / LOG_PLACE_FILE).exists():
            other = (
                f"another node over the same log, remove {folder} and take the original's: "
                f"'engramlog identity backup {folder} --data ORIGINAL'"
            )
        raise DirectoryCopied(
            f"{path} is a copy of a data directory, and the original may still be running. "
            "If the original is gone for good, continue as the same node in a new epoch: "
            f"'engramlog identity accept-copy --data {path}'. To make the copy {other}"
        )


def _place_of(key: Path) -> IdentityPlace:
    key_status = key.stat()
    try:
        machine = MACHINE_ID_PATH.read_text().strip()
    except OSError:
        machine = ""
    return IdentityPlace(key_status.st_ino, _generation(key), key_status.st_ctime_ns, machine)


def _generation(path: Path) -> int:
    """The file's generation of its inode; 0 if the file system does not give it."""
    answer = bytearray(8)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, FS_IOC_GETVERSION, answer)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return int.from_bytes(answer[:4], sys.byteorder)


def _refuse_lost_identity(path: Path) -> None:
    """Another identity would make it another node; ``new_identity`` is how one asks for that."""
    if (path / "log.db").exists():
        raise KeyFileError(
            f"{path} holds a log but no identity: restore its backup into {path / 'identity'}; if "
            f"none is left, 'engramlog identity new --data {path}' makes it another node"
        )
    if (path / LOG_PLACE_FILE).exists():
        raise KeyFileError(
            f"{path} has a log in PostgreSQL but no identity: put its backup, or that of another "
            f"node over the log, into {path / 'identity'}; if none is left, give the log to this "
            f"directory: 'engramlog log adopt URL --data {path}'"
        )


def _create_identity(path: Path, clock: Clock) -> Identity:
    """Create a new identity, completely or not at all."""
    staged = path / "identity.next"
    shutil.rmtree(staged, ignore_errors=True)
    Identity.create(staged, clock)
    staged.rename(path / "identity")
    sync_folder(path)
    return Identity.load(path / "identity")


def is_data_directory(path: Path) -> bool:
    """Whether the folder holds an identity, or a log or its place. Read-only commands touch no
    other."""
    files = (path / "log.db", path / LOG_PLACE_FILE)
    return (path / "identity").is_dir() or any(file.is_file() for file in files)


def no_data_directory(path: Path) -> str:
    """Says what is wrong with a folder that ``is_data_directory`` refuses."""
    return f"{path} is not a data directory" if path.exists() else f"{path} does not exist"


_held: WeakSet[HeldDirectory] = WeakSet()


def _leave_to_parent() -> None:
    for each in list(_held):
        each.leave_to_parent()


# A killed holder cannot unlock, and its lock lasts until the last descriptor is closed.
os.register_at_fork(after_in_child=_leave_to_parent)


def _keep_private(path: Path) -> None:
    """Close an empty folder, which becomes a data directory, to other users. A folder with other
    files keeps its mode, and so does one of another user, such as a mounted volume."""
    if not any(each.name != "engramlog.toml" for each in path.iterdir()):
        with contextlib.suppress(PermissionError):
            path.chmod(0o700)


_Locks: TypeAlias = tuple[int, ...]
"""Locked descriptors: of the lock file, with our pid in it, and of the directory, if it can be."""


def _take_locks(path: Path, create: bool) -> _Locks:
    if not create and not is_data_directory(path):
        raise DataDirectoryError(no_data_directory(path))
    try:
        if not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(path.absolute().parent)
        elif create:
            _keep_private(path)
    except OSError as fault:
        why = "it is a file" if isinstance(fault, FileExistsError) else fault.strerror
        raise DataDirectoryError(f"cannot make {path}: {why}") from fault
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as fault:
        raise DataDirectoryError(f"cannot write in {path}: {fault}") from fault
    try:
        folder = _lock(path, lock)
    except OSError as fault:
        os.close(lock)
        raise DataDirectoryError(f"cannot lock {path}: {fault.strerror}") from fault
    except DirectoryLocked:
        os.close(lock)
        raise
    pid = f"{os.getpid()}\n".encode("ascii")
    os.pwrite(lock, pid, 0)  # over the last one's: a full disk has no room for another block
    os.ftruncate(lock, len(pid))
    return lock, *folder


def _lock(path: Path, lock: int) -> _Locks:
    """Lock the lock file, and the directory: its descriptor, if directories can be locked; they
    cannot on some network file systems. Raises DirectoryLocked. OSError: no locks here."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        holder = os.read(lock, 32).partition(b"\n")[0].decode("ascii", "replace") or "unknown"
        own = " (this one)" if holder == str(os.getpid()) else ""
        raise DirectoryLocked(f"{path} is in use by the process with pid {holder}{own}") from fault
    folder = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        os.close(folder)
        raise DirectoryLocked(
            f"{path} is in use: another process has locked the directory itself, such as a node "
            "whose lock file was removed, or flock"
        ) from fault
    except OSError:
        os.close(folder)
        return ()
    return (folder,)


def _release(locks: _Locks) -> None:
    """Unlock, even while a child that forks or starts has a descriptor of a lock, too."""
    for each in reversed(locks):
        fcntl.flock(each, fcntl.LOCK_UN)
        os.close(each)
