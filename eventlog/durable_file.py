"""Writes small private files: after a crash the old one or the new one is there, complete. Makes
files durable and digests them."""

import fcntl
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

DRIVE_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS has it, where ``fsync`` leaves the bytes in the drive's own memory."""


def sync(descriptor: int) -> None:
    """Make what was written to an open file survive a power cut."""
    if DRIVE_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, DRIVE_SYNC)
            return
        except OSError:
            pass  # a file system without it, such as a network's
    os.fsync(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Create ``path`` with mode 0600 and sync it; without room, there is no file. Raises
    FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with naming(path), os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            sync(descriptor)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Name the file in errors of writing: they know only its descriptor, the file beside it that is
    to take its place, or first the file that is copied."""
    try:
        yield
    except OSError as fault:
        if fault.filename2 == str(path) or str(fault.filename or path).startswith(str(path)):
            fault.filename = str(path)
        raise


def replace(path: Path, data: bytes) -> None:
    staged = path.with_name(path.name + ".next")
    with naming(path):
        staged.unlink(missing_ok=True)
        write_new(staged, data)
        os.replace(staged, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make a file's bytes durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


sync_folder = sync_file
"""Make creations and renames in a folder durable."""


def digest_of(path: Path) -> tuple[str, int]:
    """SHA-256 (hex) and size of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
