"""Connections to a log's server: bounded waits, our errors for PostgreSQL's.

No call waits for ever: a stopped server, or a network that drops packets, must look like a server
that is gone.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engramlog.eventlog.errors import (
    AppendError,
    CorruptLog,
    EraseRefused,
    EventLogError,
    LogBusy,
    StorageFailed,
    StorageFull,
)

CONNECT_SECONDS_MAX = 5
ANSWER_SECONDS_MAX = 10.0
ERASE_REFUSED = "EGE01"
SESSION_SETTINGS = {
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
}
"""In place of the role's: what waited for the log's lock must see what its holder wrote, scrubbing
takes long, and idle readers stay connected."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself if an answer takes longer than ``patience_seconds``."""

    patience_seconds: float = ANSWER_SECONDS_MAX

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        deadline = time.monotonic() + self.patience_seconds
        try:
            return super().wait(gen, interval, self.patience_seconds)
        except psycopg.OperationalError:
            if time.monotonic() >= deadline:
                self.pgconn.finish()  # drops late answers
            raise

    @contextmanager
    def pipeline(self) -> Generator[psycopg.Pipeline]:
        """As psycopg's, which would log what ending a failed pipeline adds to its first error."""
        first: psycopg.Error | None = None
        try:
            with super().pipeline() as pipeline:
                try:
                    yield pipeline
                except psycopg.Error as fault:
                    first = fault
        except psycopg.Error:
            if first is None:
                raise
        if first is not None:
            raise first

    @contextmanager
    def patience(self, seconds: float) -> Generator[None]:
        """Wait at most this long for each answer within a ``with`` block."""
        before, self.patience_seconds = self.patience_seconds, seconds
        try:
            yield
        finally:
            self.patience_seconds = before


def connect(url: str, **server_settings: str) -> Connection:
    """A connection to the server that takes writes, among those in ``url``. ``server_settings`` are
    set for the session. Raises psycopg.Error."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as fault:  # it quotes a part, perhaps the password
        words = str(fault).partition('"')[0].strip(" :\n")
        raise psycopg.ProgrammingError(f"the log's address is malformed: {words}") from None
    options = [str(given.get("options", ""))]
    settings = {**SESSION_SETTINGS, **server_settings}
    options += [f"-c {name}={value}" for name, value in settings.items()]
    complete = make_conninfo(
        url,
        options=" ".join(filter(None, options)),
        target_session_attrs=given.get("target_session_attrs", "read-write"),
        # After a failover the first of several may be the replaced one.
        load_balance_hosts=given.get("load_balance_hosts", "random"),
        connect_timeout=given.get("connect_timeout", CONNECT_SECONDS_MAX),
        application_name=given.get("application_name", "engramlog"),
    )
    return Connection.connect(complete, autocommit=True, client_encoding="utf8")


@contextmanager
def failures() -> Generator[None]:
    """Raise our errors for PostgreSQL's."""
    try:
        yield
    except psycopg.Error as fault:
        raise storage_error(fault) from fault


def storage_error(fault: psycopg.Error) -> EventLogError:
    """The log's own error for one of PostgreSQL's."""
    text = " ".join(str(fault).split()) or type(fault).__name__
    match fault:
        case errors.DiskFull():
            return StorageFull(f"no space left for the log: {text}")
        case errors.LockNotAvailable():
            return LogBusy("another node holds the log's lock")
        case psycopg.DataError():
            return AppendError(f"PostgreSQL cannot hold it: {text}")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return CorruptLog(0, text)
        case _ if fault.sqlstate == ERASE_REFUSED:
            return EraseRefused(text)
        case _:
            return StorageFailed(f"PostgreSQL: {text}")


def is_lost(db: Connection) -> bool:
    return db.closed or db.pgconn.status != pq.ConnStatus.OK
