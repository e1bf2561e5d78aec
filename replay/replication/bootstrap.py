"""A new replica's tables from a snapshot of its primary, to avoid projecting the whole log.

The log comes first, checked event by event. A snapshot counts only if it ends at an event of that
log and this release's projectors made it. It must match its document, and its rows must give the
document's digests. Otherwise the log is replayed.
"""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.log import EventLog
from engramlog.replay.replication.follower import PrimaryUnreachable
from engramlog.replay.snapshot import Snapshot, SnapshotFault, mismatch
from engramlog.replay.snapshots import Progress, Snapshots

_log = logging.getLogger(__name__)


class SnapshotSource(Protocol):
    """A primary's snapshots, over any transport."""

    def documents(self) -> list[Snapshot]:
        """The primary's snapshots, newest first. Raises PrimaryUnreachable: no answer came.
        SnapshotFault: the answer cannot be read."""
        ...

    def contents(self, position: int) -> Iterator[bytes]:
        """The file of one, in parts. Raises PrimaryUnreachable."""
        ...


def fetch_snapshot(
    source: SnapshotSource,
    snapshots: Snapshots,
    log: EventLog,
    now_us: int,
    progress: Progress = lambda _done, _total: None,
) -> Snapshot | None:
    """Fetch the newest valid snapshot, to make the tables from it; None if there is none and the
    log alone must make them. ``progress``: called with (bytes so far, all bytes)."""
    try:
        offered = source.documents()
    except (PrimaryUnreachable, SnapshotFault) as fault:
        _log.warning("the tables are made from the log alone: %s", fault)
        return None
    head = log.head().position
    for snapshot in offered:
        if snapshot.position > head:
            continue  # it has events after the last page
        try:
            return _fetch_one(source, snapshots, log, snapshot, now_us, progress)
        except SnapshotFault as fault:
            _log.warning("the primary's snapshot is passed over: %s", fault)
        except (PrimaryUnreachable, StorageError) as fault:
            _log.warning("the tables are made from the log alone: %s", fault)
            return None
    return None


def _fetch_one(
    source: SnapshotSource,
    snapshots: Snapshots,
    log: EventLog,
    snapshot: Snapshot,
    now_us: int,
    progress: Progress,
) -> Snapshot:
    reason = mismatch(snapshot, log)
    if reason is not None:
        raise SnapshotFault(f"snapshot {snapshot.position}: {reason}")

    def fill(target: Path) -> None:
        done, digest = 0, hashlib.sha256()
        with target.open("xb") as file:
            for part in source.contents(snapshot.position):
                done += len(part)
                if done > snapshot.bytes:
                    raise SnapshotFault(f"snapshot {snapshot.position} is larger than announced")
                file.write(part)
                digest.update(part)
                progress(done, snapshot.bytes)
        if digest.hexdigest() != snapshot.sha256:  # before anything reads it as a database
            raise SnapshotFault(f"snapshot {snapshot.position} has other bytes than announced")

    return snapshots.make(fill, now_us, automatic=True, expected=snapshot)
