"""Turns SQLite's disk errors into the log's, so that storage failures look the same everywhere."""

from types import TracebackType

import apsw

from engramlog.eventlog.engines.sqlite.schema import is_full, no_space, words_of
from engramlog.eventlog.errors import StorageFailed

MACHINE_FAULTS = (
    MemoryError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
)
"""Errors that any event may meet: they are no fault of a projector and must not halt it."""


DAMAGED = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
"""SQLite's errors for a file that is cut off, overwritten or not a database, or a text in it that
is not UTF-8."""


class TablesDamaged(StorageFailed):
    """The file of tables is damaged; the log has everything that it held."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(
            f"the tables are damaged ({fault}): 'engramlog rebuild' makes them again from the log"
        )


class storage_errors:  # noqa: N801  # reads as a statement
    """Turn SQLite's disk errors into the log's."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fault is not None and is_full(fault):
            raise no_space("the tables", fault) from fault
        if isinstance(fault, DAMAGED):
            raise TablesDamaged(fault) from fault
        if isinstance(fault, apsw.CantOpenError):  # SQLite does not say why
            raise StorageFailed(
                f"the tables: {fault}: the process must be able to make files in their directory "
                "(rights, and free inodes: df -i)"
            ) from fault
        if isinstance(fault, MACHINE_FAULTS):
            raise StorageFailed(f"the tables: {words_of(fault)}") from fault
