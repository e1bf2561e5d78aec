"""Prepares a data directory as a replica, and copies its primary's log before it serves."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from engramlog.api.client.client import ClientError
from engramlog.api.client.log_source import HttpLogSource
from engramlog.api.node.log_place import log_inside
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.engines.sqlite.log import SqliteLog
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
from engramlog.replay.replication.state import ReplicaState, load_state, save_state
from engramlog.replay.snapshots import Snapshots

_log = logging.getLogger(__name__)


class ReplicaError(Exception):
    """The directory cannot be a replica of that primary; the message says what to do."""


def source_of(url: str, key: str) -> HttpLogSource:
    """A primary's log at ``url``. Raises ReplicaError if ``url`` is not one, or ``key`` is none."""
    try:
        return HttpLogSource(url, key)
    except ClientError as fault:
        raise ReplicaError(f"replica_key: {fault}") from fault
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
    """The directory's state as a replica, made at its first start. Raises ReplicaError."""
    data = directory.path
    state = load_state(data)
    if state is not None:
        if state.primary_url != url.rstrip("/"):
            state = ReplicaState(url.rstrip("/"), state.node_id, state.public_key)
            save_state(data, state)
        return state
    if log.head().position:
        raise ReplicaError(
            f"{data} holds a log of its own and follows no other: serve it without --replica-of, "
            "as after a promotion, or name a new directory with --data"
        )
    try:
        page = source.fetch(0, b"", 1, 0.0)
    except PrimaryUnreachable as fault:
        raise ReplicaError(str(fault)) from fault
    state = ReplicaState(url.rstrip("/"), page.node_id, page.public_key)
    directory.begin_copying()
    save_state(data, state)
    return state
