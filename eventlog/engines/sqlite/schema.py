"""The tables of ``log.db``, all statements on them, and opening the file safely.

The triggers are part of the format: nothing in the log is updated or deleted, except payloads that
a ``fact_erased`` event in it names.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from engramlog.eventlog.errors import (
    CorruptLog,
    DataDirectoryError,
    StorageError,
    StorageFailed,
    StorageFull,
)

APPLICATION_ID = 0x656E676D
"""``engm`` in ASCII, so that ``file`` and people can identify the database."""
SCHEMA_VERSION = 2
"""1: payloads could not be erased. Version 1 is readable, and upgraded on the first write."""
BUSY_TIMEOUT_MS = 5_000
LIMITS = {errno.EDQUOT, errno.EFBIG}
"""A quota, and a process's limit of its files: SQLite calls them I/O errors."""

TABLES = (
    """
CREATE TABLE streams (
  stream_no INTEGER PRIMARY KEY,
  stream TEXT NOT NULL UNIQUE
) STRICT""",
    """
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  stream_no INTEGER NOT NULL,
  stream_seq INTEGER NOT NULL,
  event_id BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  received_hlc INTEGER NOT NULL,
  peer TEXT,
  header BLOB NOT NULL,
  hash BLOB NOT NULL,
  UNIQUE (stream_no, stream_seq)
) STRICT""",
    """
CREATE TABLE payloads (
  position INTEGER PRIMARY KEY,
  salt BLOB NOT NULL,
  payload BLOB NOT NULL
) STRICT""",
    """
CREATE TABLE idempotency (
  actor TEXT NOT NULL,
  key TEXT NOT NULL,
  digest BLOB NOT NULL,
  first_position INTEGER NOT NULL,
  last_position INTEGER NOT NULL,
  PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX events_received_at ON events (received_at)",
    "CREATE INDEX events_stream ON events (stream_no)",
)
ERASED_TABLE = """
CREATE TABLE erased (
  event_id BLOB PRIMARY KEY,
  position INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""
"""Events whose payload may be deleted, and the first ``fact_erased`` event that names each."""


def _forbid(table: str, verb: str) -> str:
    return f"""
CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the log is append-only: no {verb} on {table}'); END"""


NAME_UNERASED = """
CREATE TRIGGER erased_only_named BEFORE INSERT ON erased
WHEN NOT EXISTS (SELECT 1 FROM events e JOIN payloads p ON p.position = e.position,
    json_each(CAST(p.payload AS TEXT), '$.events') j
  WHERE e.position = NEW.position AND e.kind = 'fact_erased'
    AND replace(j.value, '-', '') = lower(hex(NEW.event_id)))
BEGIN SELECT RAISE(ABORT, 'the fact_erased event does not name this event'); END"""
DELETE_UNERASED = """
CREATE TRIGGER payloads_no_delete BEFORE DELETE ON payloads
WHEN NOT EXISTS (SELECT 1 FROM events JOIN erased USING (event_id)
  WHERE events.position = OLD.position AND kind <> 'fact_erased')
BEGIN SELECT RAISE(ABORT, 'the log is append-only: no DELETE on payloads but erased ones'); END"""
"""A payload may be deleted only if an event of this log names it."""
BLANK_UNERASED = """
CREATE TRIGGER idempotency_no_update BEFORE UPDATE ON idempotency
WHEN NOT (NEW.actor = OLD.actor AND NEW.key = OLD.key AND NEW.digest = x''
  AND NEW.first_position = OLD.first_position AND NEW.last_position = OLD.last_position
  AND EXISTS (SELECT 1 FROM events e LEFT JOIN payloads p ON p.position = e.position
    WHERE e.position BETWEEN OLD.first_position AND OLD.last_position AND p.position IS NULL))
BEGIN SELECT RAISE(ABORT, 'the log is append-only: no UPDATE on idempotency'); END"""
"""The digest of a request's body, an unsalted hash, is deleted with what the request wrote. The key
stays used: repeating the request does not restore the text."""

_FORBIDDEN = tuple(
    (table, verb)
    for table in ("streams", "events", "payloads", "idempotency")
    for verb in ("UPDATE", "DELETE")
)
_REPLACED = {("payloads", "DELETE"): DELETE_UNERASED, ("idempotency", "UPDATE"): BLANK_UNERASED}
_ADDED = (ERASED_TABLE, NAME_UNERASED, _forbid("erased", "UPDATE"), _forbid("erased", "DELETE"))
TRIGGERS = tuple(_REPLACED.get(each) or _forbid(*each) for each in _FORBIDDEN)
STATEMENTS = {
    1: TABLES + tuple(_forbid(*each) for each in _FORBIDDEN),
    2: (*TABLES, *TRIGGERS, *_ADDED),
}
"""The expected schema of a file, by version."""

INSERT_STREAM = "INSERT INTO streams (stream_no, stream) VALUES (?, ?)"
INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_PAYLOAD = "INSERT INTO payloads VALUES (?, ?, ?)"
INSERT_KEY = "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?)"

_STORED = """
SELECT e.position, e.received_at, e.received_hlc, e.peer, e.header, e.hash, p.salt, p.payload
FROM events e LEFT JOIN payloads p ON p.position = e.position
"""
READ_ALL = _STORED + "WHERE e.position > ? ORDER BY e.position LIMIT ?"
READ_STREAM = _STORED + "WHERE e.stream_no = ? AND e.position > ? ORDER BY e.position LIMIT ?"
READ_STREAM_SEQ = (
    _STORED
    + """WHERE e.stream_no = (SELECT stream_no FROM streams WHERE stream = ?)
  AND e.stream_seq > ? ORDER BY e.stream_seq LIMIT ?"""
)
READ_ROWS = """
SELECT e.position, e.received_at, e.received_hlc, e.peer, e.header, e.hash, p.salt, p.payload,
  s.stream, e.stream_seq, e.event_id, e.kind
FROM events e LEFT JOIN payloads p ON p.position = e.position
  LEFT JOIN streams s ON s.stream_no = e.stream_no
WHERE e.position > ? ORDER BY e.position LIMIT ?"""
"""With the columns that repeat the header, for ``verify``."""

ERASE = """
DELETE FROM payloads WHERE position = (SELECT position FROM events WHERE event_id = ?)"""
SELECT_KEYS_OF = """
SELECT actor, key FROM idempotency
WHERE digest <> x'' AND key IN (SELECT value FROM json_each(?))
  AND EXISTS (SELECT 1 FROM events e LEFT JOIN payloads p ON p.position = e.position
    WHERE e.position BETWEEN first_position AND last_position AND p.position IS NULL)"""
BLANK = "UPDATE idempotency SET digest = x'' WHERE actor = ? AND key = ?"
HAS_BLANK = "SELECT EXISTS (SELECT 1 FROM idempotency WHERE digest = x'')"
REWRITE_KEYS = (
    "CREATE TEMP TABLE kept AS SELECT * FROM idempotency",
    "DELETE FROM idempotency",
    "INSERT INTO idempotency SELECT * FROM kept ORDER BY actor, key",
    "DROP TABLE temp.kept",
)
SELECT_HEADERS = """
SELECT header FROM events WHERE event_id IN (SELECT unhex(value) FROM json_each(?))"""
IS_NAMED = """
SELECT 1 FROM events JOIN erased USING (event_id) WHERE events.position = ?
  AND kind <> 'fact_erased'"""
NAME = "INSERT OR IGNORE INTO erased VALUES (?, ?)"
SELECT_POSITIONS = """
SELECT event_id, position FROM events
WHERE event_id IN (SELECT unhex(value) FROM json_each(?))"""

SELECT_HEAD = """
SELECT position, received_at, received_hlc FROM events ORDER BY position DESC LIMIT 1"""
SELECT_LAST_HASH = "SELECT position, hash FROM events ORDER BY position DESC LIMIT 1"
SELECT_HASH = "SELECT hash FROM events WHERE position = ?"
COUNT_MISSING = "SELECT max(position) - count(*) FROM events"
SELECT_STREAMS = "SELECT stream, stream_no FROM streams"
SELECT_STREAM_HEADS = """
SELECT s.stream, e.stream_seq, e.hash FROM streams s CROSS JOIN events e
WHERE e.position = (
    SELECT position FROM events WHERE stream_no = s.stream_no ORDER BY stream_seq DESC LIMIT 1)"""
"""Peers need this after every commit: one look-up in the index per stream, however many events."""
SELECT_LAST_EVENT_ID = "SELECT max(event_id) FROM events"
SELECT_EVENT_ID = "SELECT 1 FROM events WHERE event_id = ?"
SELECT_KEY = """
SELECT digest, first_position, last_position FROM idempotency WHERE actor = ? AND key = ?"""
SELECT_POSITION_AT = """
SELECT position FROM events WHERE received_at <= ? ORDER BY received_at DESC, position DESC
LIMIT 1"""
SELECT_RECEIVED_AT = "SELECT received_at FROM events WHERE position = ?"
SELECT_SCHEMA = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql"


def is_full(fault: BaseException | None) -> bool:
    """Whether no space is left. If it is the ``-shm`` file that finds none, SQLite calls it an I/O
    error."""
    precise = getattr(fault, "extendedresult", None)
    return isinstance(fault, apsw.FullError) or precise == apsw.SQLITE_IOERR_SHMSIZE


def no_space(what: str, fault: BaseException) -> StorageFull:
    """The error of a full disk. In VACUUM and other statements SQLite may lose its own words."""
    detail = "" if str(fault) == "not an error" else f": {fault}"
    return StorageFull(f"no space left for {what}{detail}")


def words_of(fault: BaseException) -> str:
    """SQLite's words, which it may lose, and the name of a precise error."""
    text = str(fault)
    lost = "disk I/O error" if isinstance(fault, apsw.IOError) else type(fault).__name__
    words = lost if text in ("", "not an error") else text
    names = cast("dict[int, str]", apsw.mapping_extended_result_codes)
    precise = names.get(getattr(fault, "extendedresult", -1))
    return f"{words} ({precise})" if precise else words


def storage_error(fault: apsw.Error, db: apsw.Connection | None = None) -> StorageError:
    """The log's own error for one of SQLite's. ``db``: where it occurred, which has the system's
    reason."""
    if is_full(fault):
        return no_space("the log", fault)
    reason = db.system_errno if db is not None and isinstance(fault, apsw.IOError) else 0
    if reason in LIMITS:
        return StorageFull(f"no space left for the log: {os.strerror(reason)}")
    if isinstance(fault, apsw.CantOpenError | apsw.ReadOnlyError):
        words = str(fault).replace("not an error", "unable to open database file")
        return StorageFailed(
            f"{words}: even to read, the process must be able to write log.db, the -wal and -shm "
            "files beside it, and their directory"
        )
    system = f": {os.strerror(reason)}" if reason else ""
    return StorageFailed(f"{type(fault).__name__}: {words_of(fault)}{system}")


@contextmanager
def reading(position: int = 0) -> Generator[None]:
    """Raise our errors for SQLite's while reading; ``position``: the place, if known."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as fault:
        raise CorruptLog(position, f"the database is malformed: {fault}") from fault
    except apsw.Error as fault:
        raise storage_error(fault) from fault


def connect_writer(path: Path) -> apsw.Connection:
    """The writing connection; creates the file and its tables if missing."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    if db.pragma("application_id") == 0 and not db.execute(SELECT_SCHEMA).fetchall():
        _create(db)
    version = _check_version(db, path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")  # macOS alone has another sync, which reaches the drive
    db.execute("PRAGMA secure_delete = ON")
    if version < SCHEMA_VERSION:
        _upgrade_schema(db)
    return db


@reading()
def connect_reader(path: Path) -> apsw.Connection:
    """A read-only connection. Raises DataDirectoryError without a log."""
    if not path.exists():
        raise DataDirectoryError(f"there is no log at {path}")
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    _check_version(db, path)
    return db


def _create(db: apsw.Connection) -> None:
    with db:
        for statement in STATEMENTS[SCHEMA_VERSION]:
            db.execute(statement)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", SCHEMA_VERSION)


def _upgrade_schema(db: apsw.Connection) -> None:
    """Version 1 to 2: named payloads may be deleted."""
    with db:
        for table, verb in _REPLACED:
            db.execute(f"DROP TRIGGER {table}_no_{verb.lower()}")
        for statement in (*_REPLACED.values(), *_ADDED):
            db.execute(statement)
        db.pragma("user_version", SCHEMA_VERSION)


def _check_version(db: apsw.Connection, path: Path) -> int:
    application = db.pragma("application_id")
    if application != APPLICATION_ID:
        raise DataDirectoryError(
            f"{path} is no event log: expected application id {APPLICATION_ID:#x}, "
            f"is {application:#x}"
        )
    version = db.pragma("user_version")
    if version not in STATEMENTS:
        raise DataDirectoryError(
            f"{path} has log schema {version}, this release reads 1 to {SCHEMA_VERSION}: "
            "use a release that knows it"
        )
    return int(version)


def schema_fault(db: apsw.Connection) -> str | None:
    """How the file's tables, indexes and triggers differ from those above."""
    version = int(db.pragma("user_version"))
    expected = {statement.strip() for statement in STATEMENTS[version]}
    present = {str(sql) for (sql,) in db.execute(SELECT_SCHEMA)}
    missing, surplus = sorted(expected - present), sorted(present - expected)
    if missing:
        return f"missing from the schema: {missing[0]}"
    return f"not part of the schema: {surplus[0]}" if surplus else None
