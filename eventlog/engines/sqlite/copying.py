"""A consistent copy of a SQLite file that another process may be writing."""

from pathlib import Path

import apsw

from engramlog.eventlog.engines.sqlite.schema import BUSY_TIMEOUT_MS, storage_error

ALL_PAGES = -1


def copy_database(source: Path, target: Path) -> None:
    """Copy the committed state of ``source`` to the new file ``target`` with SQLite's backup: one
    read transaction, so concurrent writes cannot tear it.

    Raises: StorageError: a file cannot be read or written.
    """
    try:
        reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            reader.set_busy_timeout(BUSY_TIMEOUT_MS)
            writer = apsw.Connection(str(target))
            try:
                with writer.backup("main", reader, "main") as copying:
                    while not copying.done:
                        copying.step(ALL_PAGES)
                writer.execute("PRAGMA journal_mode=DELETE")  # one file, no side files
            finally:
                writer.close()
        finally:
            reader.close()
    except apsw.Error as fault:
        raise storage_error(fault) from fault
