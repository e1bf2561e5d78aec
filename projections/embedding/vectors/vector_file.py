"""Vectors in a file that is searched in place, for nodes with too little memory.

``vectors-SPACE.db-search`` holds for each fact with a vector, by its position in the log, the
vector's signs in a ``vec0`` table, which sqlite-vec searches, and the vector itself. It is a copy
and may be deleted. It is not used if the log has another event at its last fact's position.
Positions are the key because other processes may number the slots of the memory image differently.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import numpy as np

from engramlog.eventlog.engines.reader_pool import ReaderPool
from engramlog.eventlog.engines.sqlite.erasing import truncate_wal
from engramlog.eventlog.log import ReadableLog, holds_event
from engramlog.projections.arrays import F32, I64, U64
from engramlog.projections.embedding.vectors.sketch import WORD_BITS, signs, words_of
from engramlog.projections.embedding.vectors.vec_facts import intact, open_vectors, read_vectors
from engramlog.projections.tables.database import query_one, remove_database

PART_POSITIONS = 131_072
"""Positions per partition: a question about the past, or about few facts, searches few partitions.
Each search reads sqlite-vec's records of all chunks."""
NEAREST_MAX = 4096
"""The most results of one sqlite-vec search."""
READERS_MAX = 2
PAGE_BYTES = 8192
CACHE_SHARE = 16
"""Each connection's page cache, and each read of rows, takes at most this part of the budget."""
CACHE_BYTES_MAX = 2 << 20
_WRITTEN_ROWS = 2_000
LENGTH_SQUARED_MAX = 1.01
"""Of a unit vector, with the errors of its numbers."""
_SCHEMA = """
CREATE TABLE vectors (position INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT;
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    complete INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO state VALUES (1, 0, 0, x'');
CREATE VIRTUAL TABLE sketches USING vec0(
    position INTEGER PRIMARY KEY, part INTEGER PARTITION KEY, signs BIT[{}]
);
"""
_STATE = "SELECT complete, position, hash FROM state"
_FORGET_SKETCH = "DELETE FROM sketches WHERE position=?"
_FORGET = "DELETE FROM vectors WHERE position=?"
_SKETCH = "INSERT INTO sketches (position, part, signs) VALUES (?,?,vec_bit(?))"
_ADD = "INSERT INTO vectors VALUES (?,?)"
_REACHED = "UPDATE state SET position=?, hash=?"
_POSITIONS = "SELECT position FROM vectors ORDER BY position"
_ROWS = "SELECT position, row FROM vectors WHERE position IN carray(?) ORDER BY position"
_NEAR = (
    "SELECT position, distance FROM sketches WHERE signs MATCH vec_bit(?)"
    " AND k=? AND part=? AND distance>? AND distance<=?"
)
_NEAR_AMONG = f"{_NEAR} AND position IN (SELECT value FROM carray(?))"


class Reading:
    """A connection, lent to one thread."""

    def __init__(self, db: apsw.Connection, dimensions: int) -> None:
        self._db = db
        self._dimensions = dimensions

    def near(
        self, wanted: U64, part: int, among: I64, above: int, limit: int, *, by_name: bool
    ) -> tuple[I64, I64]:
        """Positions in a partition with their differing signs: more than ``above``, at most
        ``limit``. All such positions of ``among`` are included; others may be, unless the search is
        ``by_name``."""
        if by_name:
            return self._near_by_name(wanted, part, among, above, limit)
        pages: list[tuple[I64, I64]] = []
        while above < limit:
            asked = (wanted.tobytes(), NEAREST_MAX, part, above, limit)
            found, differ = _pairs(self._db.execute(_NEAR, asked).fetchall())
            if len(found) < NEAREST_MAX:
                pages.append((found, differ))
                break
            # The result was full: all nearer than the last are found, but perhaps not all its ties.
            last = int(differ.max())
            if last > above + 1:
                pages.append((found[differ < last], differ[differ < last]))
                above = last - 1
            else:
                pages.append(self._near_by_name(wanted, part, among, above, last))
                above = last
        return (
            np.concatenate([found for found, _ in pages]),
            np.concatenate([differ for _, differ in pages]),
        )

    def _near_by_name(
        self, wanted: U64, part: int, among: I64, above: int, limit: int
    ) -> tuple[I64, I64]:
        asked = (wanted.tobytes(), NEAREST_MAX, part, above, limit)
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(among), NEAREST_MAX):
            some = apsw.carray(among[start : start + NEAREST_MAX])
            found += self._db.execute(_NEAR_AMONG, (*asked, some)).fetchall()
        return _pairs(found)

    def rows(self, positions: I64) -> tuple[I64, F32]:
        """The positions among ``positions`` that have a vector, ascending, and their vectors, a row
        each. Leaves out a damaged vector that is no unit any more: one such number would spoil the
        scores of all facts."""
        found = self._db.execute(_ROWS, (apsw.carray(positions),)).fetchall()
        data = b"".join(cast("bytes", row) for _, row in found)
        held = np.array([position for position, _ in found], dtype=np.int64)
        rows = np.frombuffer(data, dtype="<f4").reshape(len(found), self._dimensions)
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.vecdot(rows, rows) < LENGTH_SQUARED_MAX
        return (held, rows) if whole.all() else (held[whole], rows[whole])


class VectorFile:
    """The file in a process that only reads. Safe from any thread."""

    def __init__(self, path: Path, dimensions: int, budget_bytes: int | None) -> None:
        """``budget_bytes``: memory for vectors; None if the file is not used."""
        self.dimensions = dimensions
        share = CACHE_BYTES_MAX
        if budget_bytes is not None:
            share = min(share, budget_bytes // CACHE_SHARE)
        self.rows_at_once = max(1, share // (4 * dimensions))
        self._path = path
        self._cache_kib = max(1, share // 1024)
        self._places = threading.BoundedSemaphore(READERS_MAX)
        self._pool = ReaderPool(self._reader)

    @property
    def held_bytes(self) -> int:
        """The most memory that the connections keep between two questions."""
        return READERS_MAX * self._cache_kib * 1024

    @contextmanager
    def reading(self) -> Generator[Reading, None, None]:
        """Borrow a connection for a ``with`` block; waits while all are lent."""
        with self._places, self._pool.connection() as db:
            yield Reading(db, self.dimensions)

    def open(self) -> bool:
        """Whether a complete file can be read."""
        self._pool.reopen()
        if not self._path.exists():
            return False
        try:
            with self._places, self._pool.connection() as db:
                return _is_complete(db)
        except apsw.Error:
            return False  # another process is writing it

    def begin(self) -> bool:
        """Whether vectors may be added; never in a process that only reads."""
        return False

    def complete(self) -> None:
        """Mark that everything was added."""

    def add(self, positions: I64, rows: F32) -> None:
        """Record new vectors; the writing process has already stored them."""

    def remove(self, positions: I64) -> None:
        """Record that some vectors are gone."""

    def discard(self) -> None:
        """Stop using the file."""
        self._pool.reopen()

    def scrub(self) -> None:
        """Remove all traces of removed vectors."""

    def positions(self) -> I64:
        """Positions of all vectors, ascending. Raises VectorsDamaged."""
        with intact(self._path), self._places, self._pool.connection() as db:
            found = cast("Iterator[tuple[int]]", db.execute(_POSITIONS))
            return np.fromiter((position for (position,) in found), dtype=np.int64)

    def close(self) -> None:
        """Idempotent."""
        self._pool.close()

    def _reader(self) -> apsw.Connection:
        db = read_vectors(self._path)
        db.execute(f"PRAGMA cache_size=-{self._cache_kib}")
        return db


class KeptVectorFile(VectorFile):
    """The file in its one writing process."""

    def __init__(
        self, path: Path, dimensions: int, budget_bytes: int | None, log: ReadableLog
    ) -> None:
        super().__init__(path, dimensions, budget_bytes)
        self._log = log
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None

    @property
    def held_bytes(self) -> int:
        return (READERS_MAX + 1) * self._cache_kib * 1024

    def open(self) -> bool:
        """Same as for a reader; also deletes a file that is torn or of another log."""
        if not self._path.exists():
            return False
        try:
            self._db = self._writer()
            if _is_complete(self._db) and holds_event(self._log, *_last_fact(self._db)):
                return True
        except apsw.Error:
            pass  # as good as no file
        self.discard()
        return False

    def begin(self) -> bool:
        """Make an empty file, to be ``complete``."""
        self.discard()
        self._db = self._writer()
        with self._db:
            self._db.execute(_SCHEMA.format(words_of(self.dimensions) * WORD_BITS))
        return True

    def complete(self) -> None:
        with self._lock:
            assert self._db is not None
            self._db.execute("UPDATE state SET complete=1")

    def add(self, positions: I64, rows: F32) -> None:
        """Store vectors, replacing those at the same positions. Raises VectorsDamaged."""
        with self._lock, intact(self._path):
            for start in range(0, len(positions), _WRITTEN_ROWS):
                part = slice(start, start + _WRITTEN_ROWS)
                self._add(positions[part], rows[part])

    def _add(self, positions: I64, rows: F32) -> None:
        assert self._db is not None
        exact = np.ascontiguousarray(rows, dtype="<f4")
        packed = np.ascontiguousarray(signs(exact).T)
        numbers: list[int] = positions.tolist()
        with self._db:
            self._delete(self._db, numbers)
            self._db.executemany(
                _SKETCH,
                (
                    (position, position // PART_POSITIONS, line.tobytes())
                    for position, line in zip(numbers, packed, strict=True)
                ),
            )
            self._db.executemany(
                _ADD, ((at, row.tobytes()) for at, row in zip(numbers, exact, strict=True))
            )
            newest = max(numbers)
            if newest > _last_fact(self._db)[0]:
                (event,) = self._log.read(newest - 1, 1)
                self._db.execute(_REACHED, (newest, event.hash))

    def remove(self, positions: I64) -> None:
        with self._lock, intact(self._path):
            assert self._db is not None
            with self._db:
                self._delete(self._db, positions.tolist())

    @staticmethod
    def _delete(db: apsw.Connection, positions: list[int]) -> None:
        db.executemany(_FORGET_SKETCH, ((position,) for position in positions))
        db.executemany(_FORGET, ((position,) for position in positions))

    def scrub(self) -> None:
        """Empty the write-ahead log; deleted rows are overwritten with zeros. Raises StorageFailed
        if a reader does not finish."""
        with self._lock:
            if self._db is not None:
                truncate_wal(self._db)

    def discard(self) -> None:
        """Delete the file."""
        super().discard()
        with self._lock:
            self._close_writer()
            remove_database(self._path)

    def close(self) -> None:
        super().close()
        with self._lock:
            self._close_writer()

    def _close_writer(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _writer(self) -> apsw.Connection:
        db = open_vectors(self._path, PAGE_BYTES)
        db.execute(f"PRAGMA cache_size=-{self._cache_kib}")
        return db


def search_file(table: Path) -> Path:
    return table.with_name(f"{table.name}-search")


def _pairs(found: list[tuple[Any, ...]]) -> tuple[I64, I64]:
    pairs = np.array(found, dtype=np.float64).reshape(-1, 2).astype(np.int64)
    return pairs[:, 0], pairs[:, 1]


def _is_complete(db: apsw.Connection) -> bool:
    found = query_one(db, _STATE)
    return found is not None and bool(found[0])


def _last_fact(db: apsw.Connection) -> tuple[int, bytes]:
    """The position of the last fact with a vector, and the hash of its event."""
    _, position, sealed = query_one(db, _STATE) or (0, 0, b"")
    return int(position), bytes(sealed)
