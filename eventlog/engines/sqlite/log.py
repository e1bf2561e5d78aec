"""The event log in one SQLite file: one writing connection, a pool of reading ones.

A transaction stays in memory until ``commit``, which writes it in one ``BEGIN IMMEDIATE`` with an
fsync (WAL, ``synchronous=FULL``). After a failed commit the heads are read from the file before the
next transaction, so that memory and disk agree.
"""

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self, cast

import apsw

from engramlog.eventlog.chain import Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.appending import KeyUse, KeyUses, Transaction, WriterTurn
from engramlog.eventlog.engines.following import CommitSignal
from engramlog.eventlog.engines.reader_pool import ReaderPool
from engramlog.eventlog.engines.sqlite import schema
from engramlog.eventlog.engines.sqlite.erasing import (
    erase,
    forget_digests,
    is_named,
    is_wal_truncated,
    temporary_files_in,
    truncate_attempts,
)
from engramlog.eventlog.engines.sqlite.log_files import LogFiles
from engramlog.eventlog.engines.sqlite.reading import (
    SqliteReading,
    last_hash,
    log_head,
    stored_rows,
    stream_heads,
)
from engramlog.eventlog.engines.sqlite.remnants import (
    are_clean,
    are_free_pages_clean,
    with_remnants,
)
from engramlog.eventlog.engines.stored_log import (
    TAIL_CHECK_EVENTS,
    StoredLog,
    check_tail,
    event_rows,
    names_in,
    new_streams,
    payload_rows,
)
from engramlog.eventlog.errors import EraseRefused, StorageError, StorageFailed, StorageFull
from engramlog.eventlog.event import Header, Recorded, Stored
from engramlog.eventlog.log import Head

ROOM_BYTES_MIN = 4 << 20
"""Free space with which a disk that was full counts as usable."""
FREE_SHARE_MAX = 0.25
"""The share of free pages with which scrubbing rewrites a file."""

READER_WAIT_MS = 200
"""How long scrubbing lets writes wait for a reader at a time."""


class SqliteLog(SqliteReading, StoredLog):
    """Implements ``EventLog``. Open it with ``SqliteLog.open``."""

    def __init__(
        self,
        clock: Clock,
        chain: Chain,
        writer: apsw.Connection | None,
        readers: ReaderPool[apsw.Connection],
        files: LogFiles,
    ) -> None:
        super().__init__(readers)
        self.clock = clock
        self.chain = chain
        self._writer = writer
        self._files = files
        self._head = Head()
        self._stream_numbers: dict[str, int] = {}
        self._last_event_id = b""
        self._stale = False
        self._full = False
        self._turn = WriterTurn()
        self._signal = CommitSignal(live=writer is not None)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        origin: str,
        epoch: int,
        clock: Clock,
        read_only: bool = False,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> Self:
        """Open or create the log at ``path``.

        A writing log first checks its last ``TAIL_CHECK_EVENTS`` events. A read-only one checks
        nothing, so that ``verify`` can read damaged logs, and may be open beside a writer in
        another process. Raises DataDirectoryError: no log, not a log, or of another schema version.
        CorruptLog: the file or its last events contradict themselves. StorageFailed: the file
        cannot be opened.
        """
        with schema.reading():
            writer = None if read_only else schema.connect_writer(path)
            readers = ReaderPool(partial(schema.connect_reader, path))
            with readers.connection():
                pass  # a path without a log fails now, not at the first read
        chain = Chain(origin, epoch, Head(), {}, entropy)
        log = cls(clock, chain, writer, readers, LogFiles(path))
        if writer is None:
            return log
        try:
            log._check_tail(writer)
            log._load_heads(writer)
            log._files.note(writer)
            log._files.hold(*last_hash(writer))
        except BaseException:
            log.close()
            raise
        return log

    def begin(self) -> Transaction:
        """Open the one writing transaction; waits for that of another thread."""
        self._turn.take()
        try:
            writer = self._require_writer()
            if self._stale:
                self._load_heads(writer)
        except BaseException:
            self.release()
            raise
        return Transaction(self)

    def key_use(self, actor: str, key: str) -> KeyUse | None:
        with schema.reading():
            row = self._require_writer().execute(schema.SELECT_KEY, (actor, key)).fetchone()
        return None if row is None else KeyUse(*cast("tuple[bytes, int, int]", row))

    def holds(self, event_id: bytes) -> bool:
        # Identifiers are time-ordered: one beyond the last is new. Asking the index for every event
        # would halve the speed of appending.
        if event_id > self._last_event_id:
            return False
        with schema.reading():
            found = self._require_writer().execute(schema.SELECT_EVENT_ID, (event_id,)).fetchone()
        return found is not None

    def recorded(self, first: int, last: int) -> list[Recorded]:
        bindings = first - 1, max(0, last - first + 1)
        rows = stored_rows(self._require_writer(), schema.READ_ALL, bindings, first - 1)
        return [decode(Stored(*row)) for row in rows]

    def store(self, links: Sequence[Link], keys: KeyUses, erased: Sequence[bytes]) -> None:
        db = self._require_writer()
        try:
            with self._committing(db):
                self._insert(db, links, keys)
                names = [(event_id, by.position) for event_id, by in names_in(links)]
                db.executemany(schema.NAME, names)
                if erased:
                    erase(db, erased)
        except BaseException as fault:
            self._stale = True
            if isinstance(fault, apsw.ConstraintError) and erased:
                raise EraseRefused(str(fault)) from fault
            raise
        newest = max([recorded.header.event_id for recorded, _ in links], default=b"")
        self._last_event_id = max(self._last_event_id, newest)
        self._head = self.chain.settle()
        for recorded, _ in links[-1:]:
            self._files.hold(recorded.position, recorded.hash)

    @contextmanager
    def _committing(self, db: apsw.Connection) -> Generator[None]:
        """A transaction of the file. Raises StorageError if it fails; ``fault`` then gives the
        reason until one succeeds."""
        try:
            self._files.check(db)
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("COMMIT")
            self._files.note(db)
        except apsw.ConstraintError:
            _abandon(db)
            raise
        except (apsw.Error, StorageError) as fault:
            _abandon(db)
            failure = schema.storage_error(fault, db) if isinstance(fault, apsw.Error) else fault
            self._full = isinstance(failure, StorageFull)
            self.fault = f"the log takes no writes: {failure}"
            raise failure from fault
        except BaseException:
            _abandon(db)
            raise
        if self.fault is not None and not self._is_short_of_room(db):
            self.fault = None

    def _is_short_of_room(self, db: apsw.Connection) -> bool:
        """Whether a full disk has too little room again: it takes some writes and refuses others,
        and ``fault`` would come and go with each."""
        with suppress(OSError):  # it is moved away; the next write says so
            return self._full and shutil.disk_usage(Path(db.filename).parent).free < ROOM_BYTES_MIN
        return False

    def retry(self) -> None:
        """See ``EventLog``: rewrites the file's version number and syncs it."""
        self._turn.take()
        try:
            db = self._require_writer()
            if self._is_short_of_room(db):
                return
            with self._committing(db):
                version = db.pragma("user_version")
                db.execute(f"PRAGMA user_version = {version}")
        finally:
            self.release()

    def scrub(self) -> None:
        """See ``EventLog``. Rewrites the file only if it still holds more than its rows, or much of
        it is free: that takes long, and writes wait."""
        with self._alone() as db:
            forget_digests(db)
        with self._merged() as db:
            rewriting = not are_free_pages_clean(db) or _is_mostly_free(db)
        with self._reader() as reader, schema.reading():
            suspects = [] if rewriting else with_remnants(reader)
        with self._merged() as db:  # the file has what was being written
            if not rewriting and are_clean(db, suspects):
                return
            db.execute("VACUUM")
        with self._merged():
            pass

    @contextmanager
    def _merged(self) -> Generator[apsw.Connection]:
        """As ``_alone``, with an empty write-ahead log. While a reader keeps that, writes go on.
        Raises StorageFailed if the reader does not finish."""
        for _ in truncate_attempts():
            with self._alone() as db:
                db.set_busy_timeout(READER_WAIT_MS)
                try:
                    truncated = is_wal_truncated(db)
                finally:
                    db.set_busy_timeout(schema.BUSY_TIMEOUT_MS)
                if truncated:
                    yield db
                    return

    @contextmanager
    def _alone(self) -> Generator[apsw.Connection]:
        """The writing connection, between transactions; SQLite's temporary files, which may be as
        large as the log, are beside it."""
        db = self._require_writer()
        self._turn.take()
        try:
            with schema.reading():
                self._files.check(db)
                try:
                    with temporary_files_in(Path(db.filename).parent, db):
                        yield db
                finally:
                    self._files.note(db)
        finally:
            self.release()

    def _insert(self, db: apsw.Connection, links: Sequence[Link], keys: KeyUses) -> None:
        numbers = self._stream_numbers
        for stream, number in new_streams(links, numbers).items():
            numbers[stream] = number
            db.execute(schema.INSERT_STREAM, (number, stream))
        db.executemany(schema.INSERT_EVENT, event_rows(links, numbers))
        db.executemany(schema.INSERT_PAYLOAD, payload_rows(links))
        db.executemany(
            schema.INSERT_KEY,
            [
                (actor, key, use.digest, use.first_position, use.last_position)
                for (actor, key), use in keys.items()
            ],
        )

    def _load_heads(self, db: apsw.Connection) -> None:
        with schema.reading():
            self._stream_numbers = {
                str(stream): cast("int", number)
                for stream, number in db.execute(schema.SELECT_STREAMS)
            }
            last_id = cast("bytes | None", db.execute(schema.SELECT_LAST_EVENT_ID).get)
            self._head = log_head(db)
            self.chain.restart(self._head, stream_heads(db))
        self._last_event_id = last_id or b""
        self._stale = False

    def _check_tail(self, db: apsw.Connection) -> None:
        with schema.reading():
            after = max(0, log_head(db).position - TAIL_CHECK_EVENTS)
        rows = stored_rows(db, schema.READ_ALL, (after, TAIL_CHECK_EVENTS), after)

        def may_be_erased(stored: Stored, header: Header) -> bool:
            # The erasure of another node's event, also in a replica, may arrive on a later page.
            foreign = stored.peer is not None or header.origin != self.origin
            return foreign or is_named(db, stored.position)

        check_tail((Stored(*row) for row in rows), after, may_be_erased)

    def head(self) -> Head:
        self._require_open()
        if self._writer is not None:
            return self._head
        with self._reader() as db, schema.reading():
            return log_head(db)

    def _close_connections(self) -> None:
        # The writer last: the last connection to close merges the write-ahead log into the file.
        self._readers.close()
        if self._writer is not None:
            self._writer.close()

    def _require_writer(self) -> apsw.Connection:
        self._require_open()
        if self._writer is None:
            raise StorageFailed("the log was opened for reading only")
        return self._writer


def _abandon(db: apsw.Connection) -> None:
    """Roll back after a failed commit, if SQLite has not done so itself."""
    if db.in_transaction:
        try:
            db.execute("ROLLBACK")
        except apsw.Error:
            # The first error says more; the next transaction starts from the file.
            return


def _is_mostly_free(db: apsw.Connection) -> bool:
    free, pages = (cast("int", db.pragma(name)) for name in ("freelist_count", "page_count"))
    return free > FREE_SHARE_MAX * pages
