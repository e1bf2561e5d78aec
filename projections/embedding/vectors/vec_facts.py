"""``vec_facts``: the stored vectors of live facts (seed §20.2), in their own file.

The one asynchronous projection. It has its own file, ``vectors.db``, because the embedding worker
writes it and SQLite lets only one connection write a file at a time. A rebuilt ``projections.db``
then needs no copy of vectors. The file may be deleted: the worker fills it again, from the cache if
possible.
"""

import threading
from collections.abc import Container, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec
import numpy as np
import sqlite_vec

from engramlog.eventlog.engines.sqlite.erasing import truncate_wal
from engramlog.eventlog.errors import StorageFailed
from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import DimensionMismatch, ModelMismatch
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.tables.database import (
    BUSY_TIMEOUT_MS,
    copy_rows,
    opened_or_remade,
    query_one,
    remove_database,
    set_pragmas,
)
from engramlog.projections.tables.storage_faults import DAMAGED, MACHINE_FAULTS

PAGE_ROWS = 5_000
CHUNK_ROWS = 128
"""Vectors per chunk of sqlite-vec's: it walks through all pages of a chunk to write one vector."""
_META = """
CREATE TABLE IF NOT EXISTS vec_meta (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    space TEXT NOT NULL,
    position INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS vec_checks (
    id TEXT PRIMARY KEY,
    crc32 INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
"""``vec_checks`` finds a bit that flipped in a vector. Vectors of earlier releases have no row.
``position``: of earlier releases."""
_TABLE = (
    "CREATE VIRTUAL TABLE vec_facts"
    " USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[{}], chunk_size={})"
)
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name='vec_facts'"
_INSERT = "INSERT INTO vec_facts (id, embedding) VALUES (?,?)"
_DELETE = "DELETE FROM vec_facts WHERE id=?"
_CHECK = "INSERT OR REPLACE INTO vec_checks VALUES (?,?)"
_UNCHECK = "DELETE FROM vec_checks WHERE id=?"
_TABLE_SQL = "SELECT sql FROM sqlite_master WHERE name='vec_facts'"
CARD_PREFIX = "card:"
"""Prefix of the keys of memory cards' vectors."""
_ALL = """SELECT id, embedding,
    (SELECT crc32 FROM vec_checks WHERE vec_checks.id=vec_facts.id) FROM vec_facts"""
_IDS = "SELECT id FROM vec_facts"
_ONE = f"{_ALL} WHERE id=?"


def _is_kept(name: str, gone: Container[str]) -> bool:
    return name not in gone and not name.startswith(CARD_PREFIX)


class VectorsDamaged(StorageFailed):
    """The file is damaged; its vectors can be computed again."""


@contextmanager
def intact(path: Path) -> Generator[None, None, None]:
    """Raises VectorsDamaged for what SQLite, or sqlite-vec in its own tables, finds in the file."""
    try:
        yield
    except (UnicodeDecodeError, apsw.Error) as fault:
        if isinstance(fault, MACHINE_FAULTS) and not isinstance(fault, DAMAGED):
            raise
        raise VectorsDamaged(f"{path.name} is damaged: {fault}") from fault


class KeptVecFacts:
    """The table in a process that only reads. Safe from several threads."""

    def __init__(self, path: Path, space: Space) -> None:
        """Raises DimensionMismatch or ModelMismatch: the table holds vectors of another space."""
        self._path = path
        self._lock = threading.Lock()
        self._db = read_vectors(path)
        found = query_one(self._db, "SELECT space FROM vec_meta")
        if found is not None:
            check_same(_space(found[0]), space)

    def pages(self) -> Iterator[tuple[list[str], F32]]:
        """All ids and their vectors, page by page, as of the first read."""
        with intact(self._path), closing(read_vectors(self._path)) as db:
            cursor = iter(db.execute(_ALL))
            while rows := list(islice(cursor, PAGE_ROWS)):
                data = b"".join(map(self._checked, rows))
                matrix = np.frombuffer(data, dtype="<f4").reshape(len(rows), -1)
                yield [str(row[0]) for row in rows], matrix

    def _checked(self, row: tuple[Any, ...]) -> bytes:
        """The vector in a row of ``_ALL``. Raises VectorsDamaged."""
        fact, data, expected = row
        if expected is not None and crc32(data) != expected:
            raise VectorsDamaged(f"{self._path.name} is damaged: the vector of {fact}")
        return data

    def id_pages(self) -> Iterator[list[str]]:
        """All ids, page by page, as of the first read."""
        with intact(self._path), closing(read_vectors(self._path)) as db:
            cursor = iter(db.execute(_IDS))
            while rows := list(islice(cursor, PAGE_ROWS)):
                yield [str(row[0]) for row in rows]

    def rows_of(self, ids: Sequence[str]) -> tuple[list[str], F32]:
        """The ids among ``ids`` that have a vector, and their vectors, a row each."""
        with self._lock, intact(self._path):
            found = [row for each in ids for row in self._db.execute(_ONE, (each,))]
        data = b"".join(map(self._checked, found))
        matrix = np.frombuffer(data, dtype="<f4")
        return [str(row[0]) for row in found], matrix.reshape(len(found), -1 if found else 0)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._db.close()


class VecFacts(KeptVecFacts):
    """The table in its one writing process. Safe from several threads."""

    def __init__(self, path: Path, space: Space) -> None:
        """Open or create the table for one space; a damaged file is made again, empty. Raises as
        ``KeptVecFacts``."""
        self._path = path
        self._space = space
        self._lock = threading.Lock()
        self._db = opened_or_remade(path, self._opened)

    def remake(self) -> None:
        """Replace a damaged file by an empty one."""
        with self._lock:
            self._db.close()
            remove_database(self._path)
            self._db = self._opened()

    def _opened(self) -> apsw.Connection:
        db = open_vectors(self._path)
        try:
            with db:
                _settle(db, self._space)
        except BaseException:
            db.close()
            raise
        return db

    def __len__(self) -> int:
        with self._lock, intact(self._path):
            (count,) = query_one(self._db, "SELECT count(*) FROM vec_facts") or (0,)
        return int(count)

    def write(self, added: Sequence[tuple[str, F32]] = (), ended: Sequence[str] = ()) -> None:
        """In one transaction: insert vectors, delete those of ended facts."""
        rows = [(fact, row.tobytes()) for fact, row in added]
        with self._lock, intact(self._path), self._db:
            for statement in (_DELETE, _UNCHECK):
                self._db.executemany(statement, ((fact,) for fact in ended))
            self._db.executemany(_CHECK, ((fact, crc32(data)) for fact, data in rows))
            try:
                with self._db:
                    self._db.executemany(_INSERT, rows)
            except apsw.SQLError:  # the row exists: a fact is embedded again
                self._db.executemany(_DELETE, ((fact,) for fact, _ in added))
                self._db.executemany(_INSERT, rows)

    def rewrite(self, gone: Container[str]) -> None:
        """Rewrite the table without the vectors of ``gone`` and of cards. Then neither sqlite-vec's
        chunks nor SQLite's pages keep a trace of them."""
        staged = self._path.with_name(self._path.name + ".next")
        with self._lock, intact(self._path):
            remove_database(staged)
            self._copy(staged, gone)
            self._db.close()
            remove_database(self._path)
            staged.replace(self._path)
            self._db = open_vectors(self._path)

    def _copy(self, staged: Path, gone: Container[str]) -> None:
        with closing(open_vectors(staged)) as fresh:
            with fresh:
                fresh.execute(_META)
                for (sql,) in self._db.execute(_TABLE_SQL):
                    fresh.execute(str(sql))
                copy_rows(self._db, fresh, "vec_meta", "true", ())
                rows = iter(self._db.execute(_ALL))
                while page := list(islice(rows, PAGE_ROWS)):
                    kept = [row for row in page if _is_kept(str(row[0]), gone)]
                    fresh.executemany(_INSERT, [row[:2] for row in kept])
                    fresh.executemany(_CHECK, [row[::2] for row in kept if row[2] is not None])
            truncate_wal(fresh)


def _settle(db: apsw.Connection, space: Space) -> None:
    """Make the table for a space, unless it has it. Raises as ``KeptVecFacts``."""
    db.execute(_META)
    found = query_one(db, "SELECT space FROM vec_meta")
    if found is not None:
        stored = _space(found[0])
        check_same(stored, space)
        if stored == space:
            return
        db.execute("DROP TABLE vec_facts; DELETE FROM vec_meta; DELETE FROM vec_checks")
    if query_one(db, _HAS_TABLE) is None:
        db.execute(_TABLE.format(space.stored_dimensions, CHUNK_ROWS))
    db.execute("INSERT INTO vec_meta VALUES (1,?,0)", (msgspec.json.encode(space).decode(),))


def _space(text: str) -> Space:
    """The space of a table. Raises apsw.CorruptError."""
    try:
        return msgspec.json.decode(text, type=Space)
    except msgspec.DecodeError as fault:
        raise apsw.CorruptError(f"its space cannot be read: {fault}") from fault


def open_vectors(path: Path, page_bytes: int = 4096) -> apsw.Connection:
    """A writing connection with ``vec0``. ``page_bytes``: for a new file."""
    db = apsw.Connection(str(path))
    try:
        _load_vec0(db)
        set_pragmas(db, f"page_size={page_bytes}", "journal_mode=WAL", "synchronous=NORMAL")
        set_pragmas(db, "secure_delete=ON")
    except BaseException:
        db.close()
        raise
    return db


def read_vectors(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    _load_vec0(db)
    return db


def _load_vec0(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.enable_load_extension(False)


def check_same(stored: Space, configured: Space) -> None:
    """Raises if vectors of the spaces must not be mixed. A model's server makes no difference."""
    if stored.stored_dimensions != configured.stored_dimensions:
        raise DimensionMismatch(stored, configured)
    if (stored.model, stored.recipe) != (configured.model, configured.recipe):
        raise ModelMismatch(stored, configured)
    if (stored.dimensions, stored.truncated) != (configured.dimensions, configured.truncated):
        raise ModelMismatch(stored, configured)
