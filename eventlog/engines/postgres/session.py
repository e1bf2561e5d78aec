"""A node's one writing connection: the log's lock, and commits that wait for durability."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.pq import TransactionStatus

from engramlog.eventlog.engines.postgres import statements
from engramlog.eventlog.engines.postgres.connecting import (
    Connection,
    connect,
    failures,
    is_lost,
    storage_error,
)
from engramlog.eventlog.engines.postgres.server import LOCK, ServerState, state_of
from engramlog.eventlog.errors import (
    EventLogError,
    LogBusy,
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
)

LOCK_SECONDS_MAX = 5.0
COMMIT_SECONDS_MAX = 10.0
HOLD_SECONDS_MAX = 30
"""How long a silent node may hold the lock: after that, a stopped or disconnected node loses the
lock and its transaction, by the server or by the next node that waits for it."""
SCRUB_SECONDS_MAX = 3600.0


def lock_timeout() -> str:
    return f"{int(LOCK_SECONDS_MAX * 1000)}"


@contextmanager
def locked(db: Connection) -> Generator[ServerState]:
    """A transaction that holds the log's lock, for a ``with`` block. A stuck node loses it. Raises
    psycopg.Error: another node does not release it within the connection's ``lock_timeout``."""
    try:
        with db.transaction():
            state_of(db, LOCK)
    except psycopg.errors.LockNotAvailable:
        _end_stuck(db)
    with db.transaction():
        yield state_of(db, LOCK)


def _end_stuck(db: Connection) -> None:
    """End the session of a node that holds the lock and is silent."""
    db.execute(statements.END_STUCK, (HOLD_SECONDS_MAX,))


class Figures(Struct, frozen=True):
    """Counters since the log was opened, and the lag of the fastest standby."""

    locks: int
    lock_seconds: float
    commits: int
    commit_seconds: float
    standby_lag_bytes: int | None


class WritingSession:
    """The writing connection. ``check`` tests the server's state under the lock and raises if it
    must not be written."""

    def __init__(self, url: str, check: Callable[[ServerState], None]) -> None:
        self._url = url
        self._check = check
        self._db: Connection | None = None
        self.refused: str | None = None
        self._locks = self._commits = 0
        self._lock_seconds = self._commit_seconds = 0.0

    @property
    def db(self) -> Connection:
        """The connection whose transaction holds the lock. Raises StorageFailed."""
        if self._db is None or is_lost(self._db):
            raise StorageFailed("the connection that held the log's lock is lost")
        return self._db

    def lock(self) -> ServerState:
        """Begin a transaction that holds the log's lock. Raises LogBusy: another node does not
        release it in time; a stuck one loses it to the next attempt. NotDurable, HistoryChanged:
        from ``check``. StorageFailed: the server cannot be reached."""
        started = time.perf_counter()
        kept = self._db
        try:
            with failures():
                try:
                    return self._lock_head(self._connected())
                except psycopg.OperationalError:
                    if kept is None or not is_lost(kept):
                        raise
                    # A restart, a failover or a limit of idleness ended it: nothing was written.
                    return self._lock_head(self._connected())
        except StorageFailed:
            self.close()  # the next connection may lead to another server
            raise
        except LogBusy:
            self.abandon()
            if self._db is not None:
                with suppress(psycopg.Error):
                    _end_stuck(self._db)
            raise
        except BaseException:
            self.abandon()
            raise
        finally:
            self._locks += 1
            self._lock_seconds += time.perf_counter() - started

    def _lock_head(self, db: Connection) -> ServerState:
        with db.pipeline():
            db.execute("BEGIN")
            locking = db.cursor(binary=True).execute(LOCK)
        row = locking.fetchone()
        if row is None:
            raise StorageFailed("the log has no head")
        state = ServerState(*row)
        self._check(state)
        return state

    def _connected(self) -> Connection:
        if self._db is not None and not is_lost(self._db):
            return self._db
        self._db = connect(
            self._url,
            lock_timeout=lock_timeout(),
            idle_in_transaction_session_timeout=f"{HOLD_SECONDS_MAX}s",
            tcp_keepalives_idle="10",
            tcp_keepalives_interval="5",
        )
        # A server may show commits that it did not replicate before it was lost.
        self._lock_head(self._db)
        self.prove()
        return self._db

    @contextmanager
    def refusals(self) -> Generator[None]:
        """Write events for a ``with`` block: ``refused`` says why the server takes none, until it
        takes some. Raise our errors for PostgreSQL's, and close the connection: after a refused
        statement a pipeline skips the rest, but the driver counts it as prepared."""
        try:
            with failures():
                yield
        except EventLogError as fault:
            if isinstance(fault, StorageFull | StorageFailed):
                self.refused = f"the log takes no writes: {fault}"
            self.close()
            raise
        self.refused = None

    def prove(self) -> None:
        """Wait for one commit: then the standbys also have everything before it."""
        self.commit([(statements.PROVE, ())])

    def commit(self, last: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Execute the last statements and commit, in one round trip. Raises OutcomeUnknown: the
        server did not confirm in time, or no standby has it (a cancelled wait ends with a warning,
        not an error). HistoryChanged, EraseRefused, StorageFull, StorageFailed: nothing was
        written."""
        db, warned, started = self.db, list[str](), time.perf_counter()

        def note(notice: psycopg.errors.Diagnostic) -> None:
            warned.append(notice.message_primary or "")

        db.add_notice_handler(note)
        try:
            with db.patience(COMMIT_SECONDS_MAX), db.pipeline():
                for statement, bindings in last:
                    db.execute(statement, bindings)  # pyright: ignore[reportArgumentType]
                db.execute("COMMIT")
        except psycopg.Error as fault:
            refused = not is_lost(db) and fault.sqlstate is not None
            db.close()  # same as ``refusals``
            if refused and (fault.sqlstate or "")[:2] != "57":
                raise storage_error(fault) from fault
            raise OutcomeUnknown(
                "the server was lost before it acknowledged the commit: it may have been written"
            ) from fault
        finally:
            self._commits += 1
            self._commit_seconds += time.perf_counter() - started
            with suppress(ValueError):
                db.remove_notice_handler(note)
        if warned:
            db.close()
            raise OutcomeUnknown(f"the commit was not waited for: {warned[0]}")

    def figures(self, standby_lag_bytes: int | None) -> Figures:
        return Figures(
            self._locks,
            self._lock_seconds,
            self._commits,
            self._commit_seconds,
            standby_lag_bytes,
        )

    def scrub(self) -> None:
        """Rewrite the tables without deleted rows, and commit."""
        with failures(), self.db.patience(SCRUB_SECONDS_MAX):
            self.db.execute(statements.SCRUB)
        self.prove()

    def abandon(self) -> None:
        """Roll back the open transaction, or close a connection that cannot: it does the same."""
        db = self._db
        if db is None or is_lost(db):
            self._db = None
        elif db.info.transaction_status != TransactionStatus.IDLE:
            try:
                db.execute("ROLLBACK")
            except psycopg.Error:
                self.close()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
