"""Follows the log's head from a thread: by NOTIFY, and by polling as a fallback."""

import logging
import threading
import time
from collections.abc import Callable

import psycopg

from engramlog.eventlog.engines.postgres import statements
from engramlog.eventlog.engines.postgres.connecting import Connection, connect
from engramlog.eventlog.engines.postgres.server import STATE, ServerState
from engramlog.eventlog.errors import LogClosed, StorageError

POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0
SLICE_SECONDS = 0.05
"""How soon the thread notices that it must end."""
IDLE_SECONDS_MAX = 30
"""How long the server keeps a silent node's connection, and its lead."""

_log = logging.getLogger(__name__)


class Listener:
    """Calls ``seen`` with the server's state whenever the log may have grown, and at least every
    ``POLL_SECONDS``; calls ``lost`` with the reason while the server does not answer. ``leads``:
    whether this connection, of all nodes', has the lead; never if it may not.
    ``standby_lag_bytes``: how far the fastest standby is behind; None if unknown."""

    def __init__(
        self,
        url: str,
        seen: Callable[[ServerState], None],
        lost: Callable[[str], None],
        *,
        may_lead: bool = True,
    ) -> None:
        self._may_lead = may_lead
        self._url = url
        self._seen = seen
        self._lost = lost
        self.leads = False
        self.standby_lag_bytes: int | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns once the thread has ended, or soon before if it is still connecting."""
        self._ending.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(SLICE_SECONDS * 5)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with connect(self._url, idle_session_timeout=f"{IDLE_SECONDS_MAX}s") as db:
                    db.execute(statements.LISTEN)
                    self._listen(db)
            except LogClosed:
                return
            except Exception as fault:
                if not isinstance(fault, psycopg.Error | StorageError):
                    _log.exception("following the log's server")
                self.leads = False
                if not self._ending.is_set():
                    self._lost(" ".join(str(fault).split()))
                    self._ending.wait(RETRY_SECONDS)

    def _listen(self, db: Connection) -> None:
        while not self._ending.is_set():
            if self._may_lead and not self.leads:
                self.leads = db.execute(statements.LEAD).fetchone() == (True,)
            lag = db.execute(statements.STANDBY_LAG).fetchone()
            self.standby_lag_bytes = None if lag is None or lag[0] is None else int(lag[0])
            row = db.cursor(binary=True).execute(STATE).fetchone()
            if row is not None:
                self._seen(ServerState(*row))
            until = time.monotonic() + POLL_SECONDS
            while time.monotonic() < until and not self._ending.is_set():
                if any(db.notifies(timeout=SLICE_SECONDS, stop_after=1)):
                    break
