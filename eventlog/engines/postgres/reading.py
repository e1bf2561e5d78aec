"""Reading the log over a pool of connections. Each read is one statement, so it sees one state."""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.appending import Closable, KeyUse
from engramlog.eventlog.engines.postgres import statements
from engramlog.eventlog.engines.postgres.connecting import Connection, connect, failures
from engramlog.eventlog.engines.postgres.schema import schema_fault
from engramlog.eventlog.engines.reader_pool import ReaderPool
from engramlog.eventlog.engines.storage_audit import RowFields
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.held_scopes import EVERY_SCOPE, KNOWN_EVERYWHERE, beyond, known
from engramlog.eventlog.log import StreamHead, check_limit, within

AUDIT_SECONDS_MAX = 3600.0
"""Reads of all rows of a large log take long."""


class PostgresReading(Closable):
    """The reading part of ``EventLog``."""

    held: frozenset[str] = EVERY_SCOPE

    def __init__(self, url: str) -> None:
        self._readers = ReaderPool(lambda: connect(url))

    def _check_reader(self, db: Connection) -> None:
        """Raises StorageFailed if this connection's server must not be read."""

    def read(
        self,
        after: int = 0,
        limit: int = 1000,
        streams: Collection[str] | None = None,
        bytes_max: int | None = None,
    ) -> list[Recorded]:
        if bytes_max is not None:
            limit = self._fitting(after, limit, streams, bytes_max)
        if self.held == EVERY_SCOPE:
            return [decode(stored) for stored in self.read_stored(after, limit, streams)]
        if streams is None:
            stored = self._read_from(after, limit)
        else:
            stored = self.read_stored(after, limit, streams)
        return [known(self.held, decode(each)) for each in stored]

    def _fitting(
        self, after: int, limit: int, streams: Collection[str] | None, bytes_max: int
    ) -> int:
        """How many events to read: PostgreSQL returns whole answers."""
        check_limit(limit)
        names = None if streams is None else list(streams)
        asked = {"after": after, "limit": limit, "streams": names, "bytes_max": bytes_max}
        with self._reader() as db:
            ((fitting,),) = fetch(db, statements.FITTING, asked)
        return min(limit, max(1, int(fitting)))

    def _read_from(self, after: int, limit: int) -> list[Stored]:
        """Events after a position, without payloads of scopes not held."""
        check_limit(limit)
        with self._reader() as db:
            return self._page(db, after, limit)

    def _page(self, db: Connection, after: int, limit: int, *, whole: bool = False) -> list[Stored]:
        if whole or self.held == EVERY_SCOPE:
            rows = fetch(db, statements.READ_ALL, {"after": after, "limit": limit})
        else:
            others = [f"%{ending}" for ending in beyond(self.held)]
            bindings = {"after": after, "limit": limit, "kinds": sorted(KNOWN_EVERYWHERE)}
            rows = fetch(db, statements.READ_KNOWN, {**bindings, "others": others})
        return [Stored(*row) for row in rows]

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        check_limit(limit)
        with self._reader() as db:
            if streams is None:
                return self._page(db, after, limit, whole=True)
            bindings = {"after": after, "limit": limit, "streams": list(streams)}
            rows = fetch(db, statements.READ_STREAMS, bindings)
        return [Stored(*row) for row in rows]

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        check_limit(limit)
        with self._reader() as db:
            # PostgreSQL returns whole answers: first ask how many events fit.
            if bytes_max is not None:
                fitting = scalar(
                    db, statements.FITTING_OF_STREAM, stream, after_seq, limit, bytes_max
                )
                limit = min(limit, max(1, int(fitting or 0)))
            rows = fetch(db, statements.READ_STREAM_SEQ, (stream, after_seq, limit))
        return within([Stored(*row) for row in rows], bytes_max)

    def read_rows(self, after: int, limit: int) -> list[RowFields]:
        """Stored events with the columns that repeat their headers, for ``verify``."""
        with self._reader() as db:
            return fetch(db, statements.READ_ROWS, {"after": after, "limit": limit})

    def storage_fault(self) -> str | None:
        """The fault of the guards and tables as a whole; None without one."""
        with self._reader() as db, db.patience(AUDIT_SECONDS_MAX):
            fault = schema_fault(db)
            stray = scalar(db, statements.STRAY)
            orphan = scalar(db, statements.ORPHAN)
        if fault is None and stray is not None:
            fault = f"position {stray} is behind the head"
        if fault is None and orphan is not None:
            fault = f"position {orphan} has a payload and no event"
        return fault

    def uses_of(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], KeyUse]:
        with self._reader() as db:
            found = {name: key_use_of(db, *name) for name in names}
        return {name: use for name, use in found.items() if use is not None}

    def used_keys(self, position: int) -> int:
        with self._reader() as db, db.patience(AUDIT_SECONDS_MAX):
            return int(scalar(db, statements.USED_KEYS, position))

    def stream_heads(self) -> dict[str, StreamHead]:
        with self._reader() as db:
            return stream_heads_of(db)

    def position_at(self, instant_us: int) -> int:
        with self._reader() as db:
            return scalar(db, statements.POSITION_AT, instant_us)

    def received_at(self, position: int) -> int:
        if position == 0:
            self._require_open()
            return 0
        with self._reader() as db:
            instant = scalar(db, statements.RECEIVED_AT, position)
        if instant is None:
            raise IndexError(f"position {position} is not in the log")
        return instant

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        with self._reader() as db:
            return dict(fetch(db, statements.POSITIONS_OF, (list(event_ids),)))

    @contextmanager
    def _reader(self) -> Generator[Connection]:
        self._require_open()
        with failures(), self._readers.connection() as db:
            self._check_reader(db)
            yield db


def fetch(
    db: Connection, statement: str, bindings: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    """All rows, with bytes as they are stored."""
    with db.cursor(binary=True) as cursor:
        return cursor.execute(statement, bindings).fetchall()  # pyright: ignore[reportArgumentType]


def scalar(db: Connection, statement: str, *bindings: Any) -> Any:
    """The first column of the first row, or None."""
    rows = fetch(db, statement, bindings)
    return rows[0][0] if rows else None


def key_use_of(db: Connection, actor: str, key: str) -> KeyUse | None:
    """The use of an idempotency key in the log."""
    rows = fetch(db, statements.KEY_USE, (actor.encode(), key.encode()))
    return KeyUse(*rows[0]) if rows else None


def stream_heads_of(db: Connection, after: int | None = None) -> dict[str, StreamHead]:
    """The last event of every stream, or of streams that grew after a position."""
    rows = (
        fetch(db, statements.STREAM_HEADS)
        if after is None
        else fetch(db, statements.STREAM_HEADS_AFTER, (after,))
    )
    return {stream: StreamHead(stream, seq, digest) for stream, seq, digest in rows}
