"""Erases payloads in ``log.db``: deletes them, then what is left of them elsewhere in the file."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw
import msgspec

from engramlog.eventlog.codec import decode_header
from engramlog.eventlog.engines.sqlite import schema
from engramlog.eventlog.errors import StorageFailed

TRUNCATE_ATTEMPTS = 5
"""Few: a node that ends waits for them. It cleans again later, or at its next start."""
TRUNCATE_PAUSE_SECONDS = 1.0


def positions_of(db: apsw.Connection, event_ids: Sequence[bytes]) -> dict[bytes, int]:
    """Positions of the events that the log has."""
    asked = msgspec.json.encode([event_id.hex() for event_id in event_ids]).decode()
    return dict(cast("Iterator[tuple[bytes, int]]", db.execute(schema.SELECT_POSITIONS, (asked,))))


def erase(db: apsw.Connection, event_ids: Sequence[bytes]) -> None:
    """Delete the payloads of events inside the open transaction, and blank the digests of the
    requests that wrote them. Raises apsw.ConstraintError if no event names one of them."""
    db.executemany(schema.ERASE, [(event_id,) for event_id in event_ids])
    named = msgspec.json.encode([event_id.hex() for event_id in event_ids]).decode()
    headers = cast("Iterator[tuple[bytes]]", db.execute(schema.SELECT_HEADERS, (named,)))
    keys = {decode_header(header).idempotency_key for (header,) in headers} - {None}
    if keys:
        asked = msgspec.json.encode(sorted(key for key in keys if key is not None)).decode()
        used = db.execute(schema.SELECT_KEYS_OF, (asked,)).fetchall()
        db.executemany(schema.BLANK, cast("list[tuple[str, str]]", used))


def forget_digests(db: apsw.Connection) -> None:
    """Rewrite the idempotency keys if a digest was blanked: rows move between pages there, and
    copies of it may be left. The trigger that forbids deleting keys rests meanwhile."""
    if not db.execute(schema.HAS_BLANK).get:
        return
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        db.execute("BEGIN IMMEDIATE")
        for statement in schema.REWRITE_KEYS:
            db.execute(statement)
        db.execute("COMMIT")
    finally:
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
        if db.in_transaction:
            db.execute("ROLLBACK")


def is_named(db: apsw.Connection, position: int) -> bool:
    """Whether a ``fact_erased`` event names the event at a position."""
    with schema.reading(position):
        return db.execute(schema.IS_NAMED, (position,)).fetchone() is not None


@contextmanager
def temporary_files_in(folder: Path, db: apsw.Connection) -> Generator[None]:
    """Let SQLite make its temporary files in ``folder`` for a ``with`` block: VACUUM makes a copy
    of the file, and the machine's folder for such files is often small, or memory."""
    db.execute(f"PRAGMA temp_store_directory={apsw.format_sql_value(str(folder))}")
    try:
        yield
    finally:
        db.execute("PRAGMA temp_store_directory=''")


def truncate_wal(db: apsw.Connection) -> None:
    """Empty a database's write-ahead log, waiting for readers to finish.
    Raises StorageFailed if they do not."""
    for _ in truncate_attempts():
        if is_wal_truncated(db):
            return


def truncate_attempts() -> Iterator[int]:
    """Numbers of attempts, with pauses. Raises StorageFailed after the last one."""
    for number in range(TRUNCATE_ATTEMPTS):
        yield number
        time.sleep(TRUNCATE_PAUSE_SECONDS)
    raise StorageFailed("the write-ahead log cannot be emptied: a reader does not finish")


def is_wal_truncated(db: apsw.Connection) -> bool:
    """Empty a database's write-ahead log; False if a reader keeps it beyond the busy timeout."""
    busy, *_ = cast(
        "tuple[int, int, int]", db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    )
    return not busy
