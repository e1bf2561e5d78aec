"""A consistent copy of a SQLite file that another process may be writing."""

from contextlib import closing
from pathlib import Path

import apsw

from engramlog.eventlog.engines.sqlite.schema import BUSY_TIMEOUT_MS, is_full, words_of
from engramlog.eventlog.errors import StorageFailed, StorageFull

ALL_PAGES = -1


def copy_database(source: Path, target: Path) -> None:
    """Copy the committed state of ``source`` to the new file ``target`` with SQLite's backup: one
    read transaction, so concurrent writes cannot tear it. Raises StorageError: a file cannot be
    read or written."""
    try:
        with closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
            reader.set_busy_timeout(BUSY_TIMEOUT_MS)
            with closing(apsw.Connection(str(target))) as writer:
                with writer.backup("main", reader, "main") as copying:
                    while not copying.done:
                        copying.step(ALL_PAGES)
                writer.execute("PRAGMA journal_mode=DELETE")  # one file, no side files
    except apsw.Error as fault:
        if is_full(fault):
            raise StorageFull(f"no space left to copy {source.name} to {target}") from fault
        if isinstance(fault, apsw.CantOpenError):  # SQLite does not say why
            why = f"even to read it, the process must be able to write in {source.parent}"
        else:
            why = words_of(fault)
        raise StorageFailed(f"cannot copy {source}: {why}") from fault
