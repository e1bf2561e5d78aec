"""Reading ``log.db``: a pool of read-only connections, and rows in order.

Every query is read to its end or closed, since an open one would hold its connection at
an old state of the file.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import cast

import apsw

from engramlog.eventlog.engines.sqlite import schema
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.log import Head, StreamHead

IDLE_READERS_MAX = 8

StoredRow = tuple[int, int, int, str | None, bytes, bytes, bytes | None, bytes | None]
AuditRow = tuple[
    int, int, int, str | None, bytes, bytes, bytes | None, bytes | None, str, int, bytes, str
]


class ReaderPool:
    """Read-only connections to one file, as many as there are readers at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle = deque([schema.connect_reader(path)])
        self._closed = False

    @contextmanager
    def connection(self) -> Generator[apsw.Connection]:
        """A connection for the length of a ``with``; dropped where that ends in an error."""
        try:
            db = self._idle.pop()
        except IndexError:
            with schema.reading():
                db = schema.connect_reader(self._path)
        try:
            yield db
        except BaseException:
            db.close()
            raise
        if self._closed or len(self._idle) >= IDLE_READERS_MAX:
            db.close()
        else:
            self._idle.append(db)

    def close(self) -> None:
        """Close the idle connections now and each other one when its reader is done."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def stream_rows(
    db: apsw.Connection, after: int, limit: int, streams: Collection[str]
) -> list[StoredRow]:
    """The rows of some streams merged in position order."""
    with schema.reading():
        present = db.execute(schema.SELECT_STREAMS).fetchall()
    parts = [
        stored_rows(db, schema.READ_STREAM, (cast("int", number), after, limit), after)
        for stream, number in present
        if stream in streams
    ]
    try:
        return list(islice(heapq.merge(*parts, key=itemgetter(0)), limit))
    finally:
        for part in parts:
            part.close()


def stored_rows(
    db: apsw.Connection, query: str, bindings: tuple[int, ...], after: int
) -> Generator[StoredRow]:
    """The rows of a query; our errors for SQLite's, with the position not reached."""
    position = after + 1
    try:
        for row in cast("Iterator[StoredRow]", db.execute(query, bindings)):
            yield row
            position = row[0] + 1
    except (apsw.CorruptError, UnicodeDecodeError) as fault:
        raise CorruptLog(position, f"the database is malformed: {fault}") from fault
    except apsw.Error as fault:
        raise schema.storage_error(fault) from fault


def log_head(db: apsw.Connection) -> Head:
    row = db.execute(schema.SELECT_HEAD).fetchone()
    return Head() if row is None else Head(*cast("tuple[int, int, int]", row))


def stream_heads(db: apsw.Connection) -> dict[str, StreamHead]:
    rows = cast("Iterator[tuple[str, int, bytes]]", db.execute(schema.SELECT_STREAM_HEADS))
    return {stream: StreamHead(stream, seq, digest) for stream, seq, digest in rows}
