"""Connections to the server of a log: bounded waits, our errors for PostgreSQL's, and a pool.

No call waits for ever: a server that was stopped, or a network that swallows packets, must look
like one that is gone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
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
IDLE_READERS_MAX = 8
ERASE_REFUSED = "EGE01"


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself where an answer takes longer than ``patience_seconds``."""

    patience_seconds: float = ANSWER_SECONDS_MAX

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        deadline = time.monotonic() + self.patience_seconds
        try:
            return super().wait(gen, interval, self.patience_seconds)
        except psycopg.OperationalError:
            if time.monotonic() >= deadline:
                self.pgconn.finish()  # what the server still answers is dropped
            raise

    @contextmanager
    def patience(self, seconds: float) -> Generator[None]:
        """Wait up to so many seconds for each answer in the length of a ``with``."""
        before, self.patience_seconds = self.patience_seconds, seconds
        try:
            yield
        finally:
            self.patience_seconds = before


def connect(url: str, **server_settings: str) -> Connection:
    """A connection to the server that takes writes, of those that ``url`` names.

    ``server_settings`` are set for the session. Raises psycopg.Error.
    """
    given = conninfo_to_dict(url)
    options = [str(given.get("options", ""))]
    options += [f"-c {name}={value}" for name, value in server_settings.items()]
    complete = make_conninfo(
        url,
        options=" ".join(filter(None, options)),
        target_session_attrs=given.get("target_session_attrs", "read-write"),
        # After a failover the first of several may be the one that was replaced.
        load_balance_hosts=given.get("load_balance_hosts", "random"),
        connect_timeout=given.get("connect_timeout", CONNECT_SECONDS_MAX),
        application_name=given.get("application_name", "engramlog"),
    )
    return Connection.connect(complete, autocommit=True, client_encoding="utf8")


class ReaderPool:
    """Connections that only read, as many as there are readers at a time. ``check`` looks at
    each new one and raises where it leads to a server that nothing should be read from."""

    def __init__(self, url: str, check: Callable[[Connection], None] = lambda _: None) -> None:
        self._url = url
        self._check = check
        self._idle: deque[Connection] = deque()
        self._closed = False

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """A connection for the length of a ``with``; dropped where that ends in an error.
        Raises our errors for PostgreSQL's."""
        with failures():
            try:
                db = self._idle.pop()
            except IndexError:
                db = connect(self._url)
            try:
                self._check(db)
                yield db
            except BaseException:
                db.close()
                raise
            if self._closed or len(self._idle) >= IDLE_READERS_MAX:
                db.close()
            else:
                self._idle.append(db)

    def drop_idle(self) -> None:
        """Forget connections that may lead to a server that is the primary no more."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close the idle connections now and each other one when its reader is done."""
        self._closed = True
        self.drop_idle()


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
    """Whether a connection is unusable."""
    return db.closed or db.pgconn.status != pq.ConnStatus.OK
