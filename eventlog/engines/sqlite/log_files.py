"""Whether the files of an open log are still those that this process left.

A file that is removed under a process keeps taking writes and ends with the process: acknowledged
events would be lost. One that is cut off would get holes, and an older copy written over it would
lose what it lacks. A look at both files before each commit finds all of these; only where another
program wrote ``log.db`` does it cost a query.
"""

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, cast

import apsw

from engramlog.eventlog.engines.sqlite import schema
from engramlog.eventlog.engines.sqlite.reading import pages_fault
from engramlog.eventlog.errors import CorruptLog, DataDirectoryError, StorageFailed

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


class _Status(NamedTuple):
    inode: int = 0
    size: int = 0
    modified_ns: int = 0


class LogFiles:
    """The database at ``path``, which is open, and its write-ahead log, as this process left
    them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = f"{path}-wal"
        self._last = (0, b"")
        self._merged = 0
        self._foreign = _Status()
        self._seen = {each: _status(each) for each in (str(path), self._wal)}

    def hold(self, position: int, digest: bytes) -> None:
        """The log has this event: what lacks it from now on is another file."""
        if position > self._last[0]:
            self._last = position, digest

    def note(self, db: apsw.Connection) -> None:
        """This process has written them: what another program changes from now on is examined."""
        before = self._seen[str(self._path)]
        with suppress(StorageFailed, apsw.Error):  # the next check says why
            for path, seen in self._seen.items():
                found = _status(path)
                if seen == _Status() or found.inode == seen.inode:
                    self._seen[path] = found
            if self._seen[str(self._path)] != before:
                self._merged = _frames(db)[1]

    def check(self, db: apsw.Connection) -> None:
        """Raises StorageFailed if one of them was removed, replaced, cut off or written over, or is
        out of reach. ``db``: the database, between transactions."""
        for path, seen in self._seen.items():
            found = _status(path)
            if found == seen:
                continue
            if seen != _Status() and found.inode != seen.inode:
                raise StorageFailed(
                    f"{path} was removed or replaced while the node serves: put the same file "
                    "back, or export what the node still reads (export --url) before it stops"
                )
            is_wal = path == self._wal
            cut = found.size < seen.size and not _is_merged(db, emptied=is_wal)
            if cut or not is_wal:
                lost = cut and is_wal and found.size < _wal_bytes(db)
                if lost or found == self._foreign or not self._is_ours(db, cut=cut):
                    self._foreign = found  # examined once: the node tries again every second
                    raise _refusal(path, "cut off" if cut else "written over")
            self._seen[path] = found

    def _is_ours(self, db: apsw.Connection, *, cut: bool) -> bool:
        """Whether files that another program wrote have what this process wrote: it may have merged
        the write-ahead log. If it cannot have done that, or a file is ``cut``, the pages may be
        those of two files or missing, and all are examined."""
        frames, merged = _frames(db)
        mixed = cut or (merged < frames and merged in (0, self._merged))
        position, digest = self._last
        # Another connection, as this one may have the pages in its memory.
        with (
            suppress(CorruptLog, DataDirectoryError),
            closing(schema.connect_reader(self._path)) as fresh,
            schema.reading(),
        ):
            held = position == 0 or fresh.execute(schema.SELECT_HASH, (position,)).get == digest
            self._merged = merged
            if not held or (mixed and _fault(fresh)):
                return False
            db.release_memory()  # the same events may be on other pages than those it read
            # It writes where its own schema says that the tables are: they may be elsewhere.
            return not (mixed and _fault(db))
        return False


def _refusal(path: str, what: str) -> StorageFailed:
    return StorageFailed(
        f"{path} was {what} while the node serves: it takes no more writes, so that "
        "the rest stays whole; stop it and restore a backup"
    )


def _fault(db: apsw.Connection) -> object:
    return pages_fault(db) or db.execute(schema.COUNT_MISSING).get


def _is_merged(db: apsw.Connection, *, emptied: bool) -> bool:
    """Whether the database has all of the write-ahead log, all its pages and no more: another
    process, such as a backup program, may have merged the write-ahead log into it. Then a database
    that was rewritten is smaller, too. ``emptied``: whether the write-ahead log must be empty."""
    with suppress(apsw.Error):  # a page that is missing
        frames, merged = _frames(db)
        pages, page_bytes = (cast("int", db.pragma(name)) for name in ("page_count", "page_size"))
        whole = pages * page_bytes == os.stat(db.filename).st_size
        return whole and (frames if emptied else frames - merged) == 0
    return False


def _frames(db: apsw.Connection) -> tuple[int, int]:
    """How many frames are in the write-ahead log, and how many of them in the database too."""
    return db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)


def _wal_bytes(db: apsw.Connection) -> int:
    """The size that the write-ahead log has at least; after it was emptied, another program may
    have written less than this process had."""
    frames, _ = _frames(db)
    return WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + cast("int", db.pragma("page_size")))


def _status(path: str) -> _Status:
    """All zero if there is no such file. Raises StorageFailed."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return _Status()
    except OSError as fault:  # no right to its folder, or a disk that fails
        raise StorageFailed(f"{path}: {fault.strerror}") from fault
    return _Status(status.st_ino, status.st_size, status.st_mtime_ns)
