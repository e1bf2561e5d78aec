"""Prepares a data directory as a replica, and copies its primary's log before it serves."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from engramlog.api.client.client import failure_of
from engramlog.api.client.page_size import PageSize
from engramlog.api.node.log_place import log_inside
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.projections.http_exchange import AnswerLimits, BlockingHttp, HttpAnswer, HttpFault
from engramlog.projections.tables.store import current_generation
from engramlog.replay.replication.bootstrap import fetch_snapshot
from engramlog.replay.replication.follower import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    LogSource,
    PrimaryFollower,
    PrimaryUnreachable,
    catch_up,
)
from engramlog.replay.replication.page import (
    PAGE_BYTES_MAX,
    PAGE_EVENTS_MAX,
    CopyPage,
    Diverged,
    decode_page,
)
from engramlog.replay.replication.state import ReplicaState, load_state, save_state
from engramlog.replay.snapshot import Snapshot, decode_snapshot
from engramlog.replay.snapshots import Snapshots

PATH = "/v1/replication/events"
SNAPSHOTS_PATH = "/v1/replication/snapshots"
SNAPSHOTS_BYTES_MAX = 16 * 1024 * 1024
LIMITS = AnswerLimits(silence_seconds=30.0, whole_seconds=600.0)
"""In addition to the requested wait."""


class HttpLogSource:
    """A primary's log and snapshots (``LogSource``, ``SnapshotSource``) over one connection, kept
    open. ``close`` works from another thread and ends a wait."""

    def __init__(self, url: str, key: str) -> None:
        self._http = BlockingHttp(url, {"Authorization": f"Bearer {key}"} if key else {})
        self.url = self._http.url
        self._size = PageSize(PAGE_EVENTS_MAX)

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
        given = {"after": after, "hash": after_hash.hex(), "wait_s": wait_seconds}

        def page(size: int) -> HttpAnswer:
            query = urlencode({**given, "limit": size})
            return self._get(f"{PATH}?{query}", PAGE_BYTES_MAX, wait_seconds)

        answer = self._size.fetched(limit, page)
        if answer.status != 200:
            raise self._refusal(answer)
        return decode_page(answer.body)

    def documents(self) -> list[Snapshot]:
        """See ``SnapshotSource``. Primaries of older releases have none."""
        answer = self._get(SNAPSHOTS_PATH, SNAPSHOTS_BYTES_MAX)
        if answer.status == 404:
            return []
        if answer.status != 200:
            raise self._refusal(answer)
        return [decode_snapshot(line) for line in answer.body.splitlines()]

    def contents(self, position: int) -> Iterator[bytes]:
        try:
            yield from self._http.parts(f"{SNAPSHOTS_PATH}/{position}", LIMITS)
        except HttpFault as fault:
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault

    def close(self) -> None:
        """End the connection, even during a request. Idempotent."""
        self._http.close()

    def _get(self, target: str, most: int, waited_seconds: float = 0.0) -> HttpAnswer:
        try:
            return self._http.ask(
                "GET", target, limits=LIMITS, bytes_max=most, waited_seconds=waited_seconds
            )
        except HttpFault as fault:
            raise PrimaryUnreachable(f"cannot reach {self.url}: {fault}") from fault

    def _refusal(self, answer: HttpAnswer) -> Exception:
        try:
            failure = failure_of(answer.status, msgspec.json.decode(answer.body))
        except ValueError:
            return PrimaryUnreachable(f"{self.url} answered {answer.status}")
        if failure.code == "replication_diverged":
            return Diverged(str(failure))
        return PrimaryUnreachable(f"{self.url} answered {answer.status}: {failure}")


_log = logging.getLogger(__name__)


class ReplicaError(Exception):
    """The directory cannot be a replica of that primary; the message says what to do."""


def source_of(url: str, key: str) -> HttpLogSource:
    """A primary's log at ``url``. Raises ReplicaError if ``url`` is not one."""
    try:
        return HttpLogSource(url, key)
    except ValueError as fault:
        raise ReplicaError(f"replica_of: {fault}") from fault


def prepare(
    data: Path,
    url: str,
    key: str,
    progress: Callable[[int, int], None],
    fetching: Callable[[int, int], None] | None = None,
) -> None:
    """Copy the primary's log. A later step builds the tables from it in one go.

    The first copy waits for the primary until it has the whole log. If the primary does not answer
    later, the replica starts with the events it has.

    Args:
        progress: called with (events copied, events in all).
        fetching: called with (bytes, bytes in all) of the snapshot from which a replica without
            tables builds them; None: build them from the log alone.

    Raises:
        ReplicaError: the directory is an independent node, or a new replica finds no primary.
        ReplicationError, CorruptLog: the primary's log does not continue the copy.
        DataDirectoryError, StorageError: the directory is not usable.
    """
    source = source_of(url, key)
    directory = HeldDirectory.open(data)
    try:
        clock = SystemClock()
        with log_inside(directory, clock) as log:
            state = _state(directory, log, source, url)
            follower = PrimaryFollower(source, log, log.copy, state.node_id, clock.now_us)
            if not _caught_up(follower, directory, progress):
                return
            if fetching is not None and current_generation(directory.projections_path) is None:
                snapshots = Snapshots(directory)
                snapshots.sweep()
                fetch_snapshot(source, snapshots, log, clock.now_us(), fetching)
    finally:
        source.close()
        directory.close()


def _caught_up(
    follower: PrimaryFollower, directory: HeldDirectory, progress: Callable[[int, int], None]
) -> bool:
    """Copy everything of the primary; False if it cannot be reached and the copy was whole
    before. A part of a first copy would answer as if the rest had never been written."""
    pause = BACKOFF_SECONDS_MIN
    while True:
        try:
            catch_up(follower, progress)
        except PrimaryUnreachable as fault:
            status = follower.status
            copied = status.primary_position - status.lag
            if not directory.copying:
                _log.warning("serving this replica's events up to position %d: %s", copied, fault)
                return False
            far = f"{copied} of {status.primary_position}" if status.lag else str(copied)
            _log.warning("the first copy has %s events and waits for the primary: %s", far, fault)
            time.sleep(pause)
            pause = min(2 * pause, BACKOFF_SECONDS_MAX)
        else:
            directory.end_copying()
            return True


def _state(directory: HeldDirectory, log: SqliteLog, source: LogSource, url: str) -> ReplicaState:
    data = directory.path
    state = load_state(data)
    if state is not None:
        if state.primary_url != url.rstrip("/"):
            state = ReplicaState(url.rstrip("/"), state.node_id, state.public_key)
            save_state(data, state)
        return state
    if log.head().position:
        raise ReplicaError(
            f"{data} holds the log of another node; a replica needs its own directory: "
            "name a new one with --data"
        )
    try:
        page = source.fetch(0, b"", 1, 0.0)
    except PrimaryUnreachable as fault:
        raise ReplicaError(str(fault)) from fault
    state = ReplicaState(url.rstrip("/"), page.node_id, page.public_key)
    directory.begin_copying()
    save_state(data, state)
    return state
