"""Reading ``log.db``: rows in order.

Every query is read to its end or closed: an open one would keep its connection at an old state of
the file.
"""

import heapq
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from itertools import islice
from operator import itemgetter
from typing import Any, cast

import apsw

from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.appending import Closable, KeyUse
from engramlog.eventlog.engines.reader_pool import ReaderPool
from engramlog.eventlog.engines.sqlite import schema
from engramlog.eventlog.engines.sqlite.erasing import positions_of
from engramlog.eventlog.engines.storage_audit import RowFields
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.log import Head, StreamHead, check_limit, within

StoredRow = tuple[int, int, int, str | None, bytes, bytes, bytes | None, bytes | None]


def stream_rows(
    db: apsw.Connection, after: int, limit: int, streams: Collection[str]
) -> Generator[StoredRow]:
    """The rows of some streams merged in position order."""
    with schema.reading():
        present = db.execute(schema.SELECT_STREAMS).fetchall()
    parts = [
        stored_rows(db, schema.READ_STREAM, (cast("int", number), after, limit), after)
        for stream, number in present
        if stream in streams
    ]
    try:
        yield from islice(heapq.merge(*parts, key=itemgetter(0)), limit)
    finally:
        for part in parts:
            part.close()


def stored_rows(
    db: apsw.Connection, query: str, bindings: tuple[int, ...], after: int
) -> Generator[StoredRow]:
    """The rows of a query. Raises our errors for SQLite's, with the position not reached."""
    position = after + 1
    try:
        for row in cast("Iterator[StoredRow]", db.execute(query, bindings)):
            yield row
            position = row[0] + 1
    except (apsw.CorruptError, UnicodeDecodeError) as fault:
        raise CorruptLog(position, f"the database is malformed: {fault}") from fault
    except apsw.Error as fault:
        raise schema.storage_error(fault) from fault


def fetched(db: apsw.Connection, query: str, bindings: tuple[int, ...], after: int) -> list[Any]:
    """The rows of a query at once. Raises as ``stored_rows``."""
    try:
        return db.execute(query, bindings).fetchall()
    except (apsw.Error, UnicodeDecodeError):
        return list(stored_rows(db, query, bindings, after))  # this time with the place


def log_head(db: apsw.Connection) -> Head:
    row = db.execute(schema.SELECT_HEAD).fetchone()
    return Head() if row is None else Head(*cast("tuple[int, int, int]", row))


def last_hash(db: apsw.Connection) -> tuple[int, bytes]:
    """The last position and its event's hash; 0 and nothing for an empty log."""
    with schema.reading():
        row = db.execute(schema.SELECT_LAST_HASH).fetchone()
    return cast("tuple[int, bytes]", row or (0, b""))


def stream_heads(db: apsw.Connection) -> dict[str, StreamHead]:
    rows = cast("Iterator[tuple[str, int, bytes]]", db.execute(schema.SELECT_STREAM_HEADS))
    return {stream: StreamHead(stream, seq, digest) for stream, seq, digest in rows}


class SqliteReading(Closable):
    """The reading part of ``EventLog``."""

    def __init__(self, readers: ReaderPool[apsw.Connection]) -> None:
        self._readers = readers

    def read(
        self,
        after: int = 0,
        limit: int = 1000,
        streams: Collection[str] | None = None,
        bytes_max: int | None = None,
    ) -> list[Recorded]:
        return [decode(stored) for stored in self._stored(after, limit, streams, bytes_max)]

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        return self._stored(after, limit, streams, None)

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        check_limit(limit)
        asked = (stream, after_seq, limit)
        with (
            self._reader() as db,
            schema.reading(),
            closing(db.execute(schema.READ_STREAM_SEQ, asked)) as rows,
        ):
            return within((Stored(*cast("StoredRow", row)) for row in rows), bytes_max)

    def read_rows(self, after: int, limit: int) -> list[RowFields]:
        """Stored events with the columns that repeat their headers, for ``verify``."""
        with self._reader() as db:
            return fetched(db, schema.READ_ROWS, (after, limit), after)

    def storage_fault(self) -> str | None:
        """The file's fault by SQLite's or our schema's checks; None without one. Reads everything
        once, indexes included: seconds for millions of events."""
        with self._reader() as db, schema.reading():
            return file_fault(db)

    def uses_of(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], KeyUse]:
        with self._reader() as db, schema.reading():
            rows = {name: db.execute(schema.SELECT_KEY, name).fetchone() for name in names}
        return {
            name: KeyUse(*cast("tuple[bytes, int, int]", row))
            for name, row in rows.items()
            if row is not None
        }

    def used_keys(self, position: int) -> int:
        with self._reader() as db, schema.reading():
            return cast("int", db.execute(_KEYS_WITH_EVENTS, (position,)).get)

    def stream_heads(self) -> dict[str, StreamHead]:
        with self._reader() as db, schema.reading():
            return stream_heads(db)

    def position_at(self, instant_us: int) -> int:
        with self._reader() as db, schema.reading():
            return cast("int", db.execute(schema.SELECT_POSITION_AT, (instant_us,)).get or 0)

    def received_at(self, position: int) -> int:
        if position == 0:
            self._require_open()
            return 0
        with self._reader() as db, schema.reading(position):
            instant = db.execute(schema.SELECT_RECEIVED_AT, (position,)).get
        if instant is None:
            raise IndexError(f"position {position} is not in the log")
        return cast("int", instant)

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        with self._reader() as db, schema.reading():
            return positions_of(db, event_ids)

    def _stored(
        self, after: int, limit: int, streams: Collection[str] | None, bytes_max: int | None
    ) -> list[Stored]:
        check_limit(limit)
        with self._reader() as db:
            if streams is None and bytes_max is None:
                return [Stored(*row) for row in fetched(db, schema.READ_ALL, (after, limit), after)]
            if streams is None:
                rows = stored_rows(db, schema.READ_ALL, (after, limit), after)
            else:
                rows = stream_rows(db, after, limit, streams)
            with closing(rows):
                return within((Stored(*row) for row in rows), bytes_max)

    def _reader(self) -> AbstractContextManager[apsw.Connection]:
        self._require_open()
        return self._readers.connection()


_KEYS_WITH_EVENTS = """
SELECT count(*) FROM idempotency WHERE first_position <= last_position
AND (first_position <= ? OR first_position > (SELECT ifnull(max(position), 0) FROM events))"""
_NAMES = """
SELECT unhex(replace(j.value, '-', '')) AS event_id, min(e.position) AS position
FROM events e JOIN payloads p ON p.position = e.position,
  json_each(CAST(p.payload AS TEXT), '$.events') j
WHERE e.kind = 'fact_erased' AND length(unhex(replace(j.value, '-', ''))) = 16 GROUP BY 1"""
_CHECKS = (
    (
        "SELECT position FROM payloads WHERE position < 1"
        " OR position > (SELECT ifnull(max(position), 0) FROM events) LIMIT 1",
        "position {} has a payload and no event",
    ),
    (
        "SELECT stream FROM streams s WHERE NOT EXISTS"
        " (SELECT 1 FROM events e WHERE e.stream_no = s.stream_no) LIMIT 1",
        "stream {} has no events",
    ),
    (
        "SELECT position FROM events WHERE stream_no NOT IN (SELECT stream_no FROM streams)"
        " LIMIT 1",
        "position {} is in a stream without a name",
    ),
    (
        "SELECT key FROM idempotency WHERE digest = x'' AND NOT EXISTS"
        " (SELECT 1 FROM events e LEFT JOIN payloads p ON p.position = e.position"
        "  WHERE e.position BETWEEN first_position AND last_position"
        "  AND (p.position IS NULL OR e.kind = 'epoch_started'))"  # its key never has one
        " LIMIT 1",
        "the digest of idempotency key {!r} is gone, and nothing that it wrote was erased",
    ),
)
_OF_ERASED = (
    (
        f"SELECT lower(hex(event_id)) FROM erased LEFT JOIN ({_NAMES}) n USING (event_id)"
        " WHERE n.position IS NULL LIMIT 1",
        "table erased names event {}, and no fact_erased event does",
    ),
    (
        f"SELECT lower(hex(n.event_id)) FROM ({_NAMES}) n LEFT JOIN erased USING (event_id)"
        " WHERE erased.position IS NULL LIMIT 1",
        "a fact_erased event names event {}, and table erased does not",
    ),
)


def file_fault(db: apsw.Connection) -> str | None:
    """See ``storage_fault``."""
    return schema.schema_fault(db) or pages_fault(db)


def pages_fault(db: apsw.Connection) -> str | None:
    """The fault of a file whose schema is ours; it may have more."""
    finding = str(db.execute("PRAGMA integrity_check(1)").get)
    return tables_fault(db) if finding == "ok" else finding


def tables_fault(db: apsw.Connection) -> str | None:
    """The first row of a table besides ``events`` that contradicts the events, whose positions have
    no gap."""
    erasing = int(db.pragma("user_version")) >= 2
    for statement, words in (*_CHECKS, *(_OF_ERASED if erasing else ())):
        row = db.execute(statement).fetchone()
        if row is not None:
            return words.format(row[0])
    return None
