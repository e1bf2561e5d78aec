"""Storage that fails on a test's request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FailingOnce:
    """A connection whose next COMMIT fails as on a full disk."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        if sql == "COMMIT" and not self.failed:
            self.failed = True
            raise apsw.FullError("disk full")
        return self._db.execute(sql, *rest)


class Failing:
    """A connection that, while ``error`` is set, fails on everything that is not in ``allows``: a
    full or missing disk fails reads as well."""

    def __init__(self, db: apsw.Connection, *allows: str) -> None:
        self._db = db
        self._allows = ("ROLLBACK", *allows)
        self.error: type[Exception] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        if self.error is not None and not sql.startswith(self._allows):
            raise self.error("the disk fails, as the test says")
        return self._db.execute(sql, *rest)


class FailingDisk(apsw.VFS):
    """SQLite's files on a disk that fails on a test's request; the default for all connections
    while open. ``failing``: the operation that fails (``write`` or ``sync``), on files with this in
    their name, and the error; None for no failure."""

    def __init__(self) -> None:
        self._usual = apsw.vfs_names()[0]
        super().__init__("failing", self._usual, makedefault=True)
        self.failing: tuple[str, str, type[apsw.Error]] | None = None

    def close(self) -> None:
        """Other connections get the usual file system again."""
        self.unregister()
        apsw.set_default_vfs(self._usual)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _FailingFile(name, flags, self)

    def xFullPathname(self, name: str) -> str:
        return str(Path(name).resolve())  # the tables are behind a link

    def check(self, name: str, operation: str) -> None:
        if self.failing is not None:
            fails, within, error = self.failing
            if operation == fails and within in name:
                raise error("the disk fails, as the test says")


class _FailingFile(apsw.VFSFile):
    def __init__(
        self, name: str | apsw.URIFilename | None, flags: list[int], disk: FailingDisk
    ) -> None:
        super().__init__("unix", name, flags)
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(text or "").name
        self._disk = disk

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError as fault:
            # The last reader to close asks for more than its descriptor allows; SQLite continues.
            raise apsw.BusyError("no such lock for a reader") from fault

    def xWrite(self, data: Buffer, offset: int) -> None:
        self._disk.check(self._name, "write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.check(self._name, "sync")
        super().xSync(flags)
