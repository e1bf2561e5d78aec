"""Storage that loses power: an SQLite VFS that knows which writes were synced.

Writes pass through to the real files and are recorded until synced. ``image`` is a directory after
a cut at this instant: any of the unsynced writes may be lost (which also reorders them), and some
are torn at a sector.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from tests.campaign.losing_files import LosingFiles

if TYPE_CHECKING:
    from typing_extensions import Buffer

SECTOR_BYTES = 512
NAME = "losing"
_LOST_WITH_POWER = "-shm"


class _Write(Struct, frozen=True):
    """A write, or a truncation if there is no data."""

    offset: int
    data: bytes | None


class _Kept:
    """The durable content of one file, and its unsynced writes."""

    def __init__(self, path: Path) -> None:
        self.durable = bytearray(path.read_bytes() if path.exists() else b"")
        self.waiting: list[_Write] = []

    def sync(self) -> None:
        for write in self.waiting:
            _apply(self.durable, write)
        self.waiting = []

    def after_cut(self, rng: random.Random) -> bytes:
        content = bytearray(self.durable)
        kept = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        for write in self.waiting:
            if rng.random() >= kept:
                continue
            if write.data is not None and rng.random() < 0.3:
                sectors = rng.randrange(len(write.data) // SECTOR_BYTES + 1)
                _apply(content, _Write(write.offset, write.data[: sectors * SECTOR_BYTES]))
            else:
                _apply(content, write)
        return bytes(content)


def _apply(content: bytearray, write: _Write) -> None:
    if write.data is None:
        del content[write.offset :]
        return
    if len(content) < write.offset:
        content.extend(bytes(write.offset - len(content)))
    content[write.offset : write.offset + len(write.data)] = write.data


class LosingStorage(apsw.VFS):
    """The default VFS while open. ``on_step`` is called after every write, sync, truncation and
    deletion, in its thread. ``folder``: files outside it are not recorded."""

    def __init__(self, folder: Path, on_step: Callable[[], None]) -> None:
        super().__init__(NAME, "unix", makedefault=True)
        self.folder = folder
        self._on_step = on_step
        self._files: dict[str, _Kept] = {}
        self._lock = threading.RLock()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        if text is None or not Path(text).is_relative_to(self.folder):
            return apsw.VFSFile("unix", name, flags)
        with self._lock:
            kept = self._files.setdefault(text, _Kept(Path(text)))
        return _LosingFile(name, flags, kept, self._lock, self._on_step)

    def xFullPathname(self, name: str) -> str:
        return str(Path(name).resolve())  # the tables are behind a link

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._lock:
            super().xDelete(filename, syncdir)
            self._files.pop(filename, None)
        self._on_step()

    def image(self, target: Path, rng: random.Random, files: LosingFiles) -> None:
        """A copy of the folder as a cut at this instant may leave it."""
        with self._lock, files.lock:
            shutil.copytree(self.folder, target, symlinks=True, ignore=_gone)
            for name, kept in self._files.items():
                path = target / Path(name).relative_to(self.folder)
                if path.exists() and not path.is_symlink():
                    path.write_bytes(kept.after_cut(rng))
            files.after_cut(target, {Path(name) for name in self._files}, rng)


def _gone(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(_LOST_WITH_POWER)]


class _LosingFile(apsw.VFSFile):
    def __init__(
        self,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        kept: _Kept,
        lock: threading.RLock,  # type: ignore[valid-type]
        on_step: Callable[[], None],
    ) -> None:
        super().__init__("unix", name, flags)
        self._kept = kept
        self._lock = lock
        self._on_step = on_step

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError as fault:
            # The last reader to close asks for more than its descriptor allows; SQLite continues.
            raise apsw.BusyError("no such lock for a reader") from fault

    def xWrite(self, data: Buffer, offset: int) -> None:
        with self._lock:
            super().xWrite(data, offset)
            self._kept.waiting.append(_Write(offset, bytes(data)))
        self._on_step()

    def xTruncate(self, newsize: int) -> None:
        with self._lock:
            super().xTruncate(newsize)
            self._kept.waiting.append(_Write(newsize, None))
        self._on_step()

    def xSync(self, flags: int) -> None:
        self._on_step()  # before it: its effect is not yet durable
        with self._lock:
            super().xSync(flags)
            self._kept.sync()
        self._on_step()
