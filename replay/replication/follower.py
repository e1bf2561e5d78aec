"""Follows a primary: fetches a page, checks it, appends it, projects it, again.

One thread, one request at a time. The primary holds the request until an event comes, so a replica
is behind by little more than one round trip.
"""

import logging
import random
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from engramlog.eventlog.codec import header_of, is_later
from engramlog.eventlog.errors import CorruptLog, StorageError
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import KeyCopy, WholeLog
from engramlog.replay.replication.page import PAGE_EVENTS_MAX, CopyPage, ReplicationError

WAIT_SECONDS = 20.0
BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 5.0

_log = logging.getLogger(__name__)


class PrimaryUnreachable(Exception):
    """The primary did not answer with a page; the next attempt may succeed."""


class LogSource(Protocol):
    """A primary's log, over any transport."""

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
        """The events after ``after``, waiting at most that long for the first. Raises
        PrimaryUnreachable: no page came. ReplicationError: the answer can never be followed."""
        ...

    def close(self) -> None: ...


class FollowerStatus(Struct, frozen=True):
    """A replica's state. ``lag`` in positions; ``behind_us``: since it last had everything of the
    primary, None before the first time. ``fault`` needs an operator."""

    connected: bool
    primary_position: int
    lag: int
    behind_us: int | None
    pages: int
    events: int
    reason: str | None
    fault: str | None


Append = Callable[[Sequence[Stored], Sequence[KeyCopy]], None]


class PrimaryFollower:
    """Copies a primary's log through ``append`` until stopped.

    Args:
        source: of pages; closed with the follower.
        log: the copy, for its position.
        append: makes events durable and publishes them; raises CorruptLog or StorageError.
        node_id: the required node of the log.
        now_us: the clock of ``behind_us``.
        seen: called with the primary's current public key.
    """

    def __init__(
        self,
        source: LogSource,
        log: WholeLog,
        append: Append,
        node_id: str,
        now_us: Callable[[], int],
        seen: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._log = log
        self._append = append
        self._node_id = node_id
        self._now_us = now_us
        self._seen = seen
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connected = False
        self._primary_position = 0
        self._level_at_us: int | None = None
        self._reason: str | None = None
        self._fault: str | None = None
        self._pages = 0
        self._events = 0

    @property
    def status(self) -> FollowerStatus:
        position, level = self._log.head().position, self._level_at_us
        return FollowerStatus(
            connected=self._connected,
            primary_position=max(self._primary_position, position),
            lag=max(0, self._primary_position - position),
            behind_us=None if level is None else max(0, self._now_us() - level),
            pages=self._pages,
            events=self._events,
            reason=self._reason,
            fault=self._fault,
        )

    def start(self) -> None:
        """Follow in a new thread."""
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following; returns when nothing more will be appended. Idempotent."""
        self._stop.set()
        self._source.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def step(self, wait_seconds: float) -> bool:
        """Fetch and append one page; whether the copy now has everything of the primary.

        Raises: PrimaryUnreachable, ReplicationError, CorruptLog, StorageError.
        """
        head = self._log.head().position
        last = self._log.read_stored(head - 1, 1) if head else []
        last_hash = last[0].hash if last else b""
        page = self._source.fetch(head, last_hash, PAGE_EVENTS_MAX, wait_seconds)
        if page.node_id != self._node_id:
            raise ReplicationError(
                f"the node that answers is {page.node_id}, this is a replica of {self._node_id}: "
                "to follow another node, even a promoted replica of this one, start a new directory"
            )
        self._connected, self._reason = True, None
        self._primary_position = page.head
        self._seen(page.public_key)
        events = page.stored()
        if self._stop.is_set():
            return False
        _refuse_later(events)
        if events:
            self._append(events, page.keys)
            self._pages += 1
            self._events += len(events)
        level = self._log.head().position >= page.head
        if level:
            self._level_at_us = self._now_us()
        return level

    def _run(self) -> None:
        pause = BACKOFF_SECONDS_MIN
        while not self._stop.is_set():
            try:  # at first without a wait: the status is known at once
                self.step(WAIT_SECONDS if self._connected else 0.0)
                pause = BACKOFF_SECONDS_MIN
                continue
            except (ReplicationError, CorruptLog) as fault:
                self._connected, self._fault = False, str(fault)
                _log.error("this replica follows no more: %s", fault)
                return
            except (PrimaryUnreachable, StorageError) as fault:
                self._note(str(fault))
            except Exception as fault:
                _log.exception("following the primary")
                self._note(f"{type(fault).__name__}: {fault}")
            self._stop.wait(pause * (0.5 + random.random()))
            pause = min(pause * 2, BACKOFF_SECONDS_MAX)

    def _note(self, reason: str) -> None:
        if self._reason != reason and not self._stop.is_set():
            _log.warning("the primary cannot be followed now: %s", reason)
        self._connected, self._reason = False, reason


def _refuse_later(events: Sequence[Stored]) -> None:
    """Raises ReplicationError if the primary's release is later than this one, and wrote what this
    one cannot read: a key that it revoked would still open the replica."""
    for event in events:
        if event.peer is not None:
            continue
        header = header_of(event)
        if is_later(header.kind, header.schema_version):
            raise ReplicationError(
                f"position {event.position}: kind {header.kind!r} version {header.schema_version} "
                "is of a later release than this replica's: upgrade the replica"
            )


def catch_up(follower: PrimaryFollower, progress: Callable[[int, int], None]) -> None:
    """Copy until the copy has everything of the primary, for a start with much to copy. Raises as
    ``PrimaryFollower.step``."""
    while not follower.step(0.0):
        status = follower.status
        progress(status.primary_position - status.lag, status.primary_position)
