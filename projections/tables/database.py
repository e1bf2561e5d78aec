"""Connections to ``projections.db``: opening, settings, pool."""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec

from engramlog.eventlog.engines.reader_pool import ReaderPool
from engramlog.eventlog.errors import StorageFailed
from engramlog.projections.tables.storage_faults import DAMAGED, TablesDamaged, storage_errors

BUSY_TIMEOUT_MS = 5_000
CACHE_KIB = 65_536
CHECKPOINT_PAGES = 8_192
"""Pages of write-ahead log between checkpoints (32 MiB): few large checkpoints."""
SIDE_FILES = ("-journal", "-wal", "-shm")
"""What SQLite appends to a database's name for the files beside it."""

AnyOpened = TypeVar("AnyOpened")

_log = logging.getLogger(__name__)


def open_writer(path: Path, *, bulk: bool = False) -> apsw.Connection:
    """The one writing connection. ``bulk`` turns durability off, for a file that is built aside and
    synced once at the end."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    if bulk:
        set_pragmas(db, "journal_mode=MEMORY", "synchronous=OFF", "locking_mode=EXCLUSIVE")
    else:
        checkpoint = f"wal_autocheckpoint={CHECKPOINT_PAGES}"
        set_pragmas(db, "journal_mode=WAL", "synchronous=NORMAL", checkpoint)
    set_pragmas(db, "foreign_keys=ON", f"cache_size=-{CACHE_KIB}", "temp_store=MEMORY")
    set_pragmas(db, "secure_delete=ON")
    return db


def set_pragmas(db: apsw.Connection, *pragmas: str) -> None:
    """Set each pragma by itself. In one string, SQLite stops at a pragma that returns a row until
    the row is read."""
    for pragma in pragmas:
        db.execute(f"PRAGMA {pragma}").fetchall()


def open_reader(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    set_pragmas(db, "query_only=ON", f"cache_size=-{CACHE_KIB // 4}")
    return db


def open_fixed(path: Path) -> apsw.Connection:
    """A reader that keeps seeing the file's present state, despite later writes."""
    db = open_reader(path)
    db.execute("BEGIN")
    tables_position(db)  # the first read fixes the snapshot
    return db


Bindings: TypeAlias = "Sequence[apsw.SQLiteValue] | Mapping[str, apsw.SQLiteValue]"


def query(db: apsw.Connection, sql: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement. The schema gives the column types (all tables are STRICT)."""
    return db.execute(sql, bindings).fetchall()


def query_one(db: apsw.Connection, sql: str, bindings: Bindings = ()) -> tuple[Any, ...] | None:
    """The first row of a statement, or None."""
    return db.execute(sql, bindings).fetchone()


def query_column(db: apsw.Connection, sql: str, bindings: Bindings = ()) -> list[Any]:
    """The first column of all rows."""
    return [row[0] for row in db.execute(sql, bindings)]


def query_value(db: apsw.Connection, sql: str, bindings: Bindings = ()) -> Any:
    """The first column of the first row, or None."""
    row = query_one(db, sql, bindings)
    return None if row is None else row[0]


def json_list(values: Iterable[object]) -> str:
    """Values for ``json_each``."""
    return msgspec.json.encode(list(values)).decode()


def where_in(column: str, values: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    """A condition and its bindings: ``column`` has one of ``values``; None: every row."""
    if values is None:
        return "TRUE", ()
    return f"{column} IN (SELECT value FROM json_each(?))", (json_list(values),)


def copy_rows(
    source: apsw.Connection, target: apsw.Connection, table: str, where: str, bindings: Bindings
) -> None:
    """Copy rows of a table into another file's table of the same name and columns."""
    rows = query(source, f"SELECT * FROM {table} WHERE {where}", bindings)
    if rows:
        places = ",".join("?" * len(rows[0]))
        target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def write_clean(source: Path, target: Path) -> None:
    """Write the tables of a file, as committed, to a new one, where no freed page keeps deleted
    data. Raises StorageError."""
    with storage_errors(), closing(open_reader(source)) as db:
        set_pragmas(db, "query_only=OFF")  # which would forbid another file, too
        db.execute("VACUUM INTO ?", (str(target),))


def remove_database(path: Path) -> None:
    """Delete a database and its side files."""
    for suffix in ("", *SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def opened_or_remade(path: Path, opened: Callable[[], AnyOpened]) -> AnyOpened:
    """What ``opened`` makes of a file that only repeats what can be computed again: if it is
    damaged, ``opened`` makes it again. Raises StorageFailed: this process may not write it."""
    try:
        return opened()
    except DAMAGED as fault:
        _log.warning("%s is damaged and made again: %s", path, fault)
    except (apsw.CantOpenError, apsw.ReadOnlyError) as fault:  # SQLite names no file
        raise StorageFailed(
            f"{path}: {fault}: the process must be able to write it, the -wal and -shm files "
            "beside it, and their directory"
        ) from fault
    remove_database(path)
    return opened()


class TablesPool(ReaderPool[apsw.Connection]):
    """Connections to the tables in use. ``settle`` is called before each loan, with the position
    that the reader needs (None: everything published)."""

    def __init__(self, path: Path, settle: Callable[[int | None], None]) -> None:
        super().__init__(lambda: open_reader(path))
        self._settle = settle

    @contextmanager
    def connection(self, position: int | None = None) -> Generator[apsw.Connection]:
        """A connection for a ``with`` block. Its tables show everything up to ``position``, or
        everything published. Raises StorageError: the tables cannot reach that position.
        TablesDamaged: also for what the block finds."""
        self._settle(position)
        try:
            with super().connection() as db:
                yield db
        except DAMAGED as fault:
            raise TablesDamaged(fault) from fault


def tables_position(db: apsw.Connection) -> int:
    """The position that all running projectors of a file have reached."""
    row = query_one(db, "SELECT min(position) FROM checkpoints WHERE halted IS NULL")
    return 0 if row is None or row[0] is None else int(row[0])
