"""Snapshots of the tables: consistent copies at chosen positions; rebuilds start from them.

A snapshot is ``snapshots/POSITION.db`` with ``POSITION.json``, which appears last and complete: a
file without its document is unfinished, and removed at the next start. An erasure removes every
snapshot with the erased text before the tables are rewritten.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, structs

from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.durable_file import replace, sync_file, sync_folder
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.log import EventLog
from engramlog.projections.tables.database import remove_database
from engramlog.projections.tables.digest import TableDigests
from engramlog.projections.tables.storage_faults import DAMAGED, TablesDamaged
from engramlog.replay.snapshot import (
    Snapshot,
    SnapshotFault,
    check_equal,
    copy_in_use,
    decode_snapshot,
    described,
    differing,
    encode_snapshot,
    file_fault,
    mismatch,
    name_of,
    position_named,
)

FOLDER = "snapshots"
UNFINISHED = "unfinished.db"
Progress = Callable[[int, int], None]
"""Called with (steps done, all steps)."""
_STEPS = 3

_log = logging.getLogger(__name__)


class PassedOver(Struct, frozen=True):
    """A snapshot that a rebuild could not start from, with the reason."""

    position: int
    reason: str


class Snapshots:
    """The snapshots of one node. Thread-safe: taking, reading and removing exclude each other, so
    an erasure also sees one under construction."""

    def __init__(self, data: HeldDirectory) -> None:
        self.folder = data.path / FOLDER
        self._lock = threading.RLock()

    def all(self) -> tuple[list[Snapshot], list[PassedOver]]:
        """Every snapshot, newest first, and those with an unreadable document."""
        snapshots: list[Snapshot] = []
        broken: list[PassedOver] = []
        for path in sorted(self.folder.glob("*.json"), reverse=True):
            position = position_named(path.stem)
            if position is None:
                continue
            try:
                snapshot = decode_snapshot(path.read_bytes())
            except FileNotFoundError:
                continue  # removed since the folder was read
            except (OSError, SnapshotFault) as fault:
                broken.append(PassedOver(position, str(fault)))
                continue
            if snapshot.position == position:
                snapshots.append(snapshot)
            else:
                broken.append(PassedOver(position, "its document is another snapshot's"))
        return snapshots, broken

    def get(self, position: int) -> Snapshot:
        """The snapshot at a position. Raises SnapshotFault without one."""
        snapshots, broken = self.all()
        for snapshot in snapshots:
            if snapshot.position == position:
                return snapshot
        for each in broken:
            if each.position == position:
                raise SnapshotFault(f"snapshot {position}: {each.reason}")
        raise SnapshotFault(f"there is no snapshot at position {position}")

    def path(self, position: int) -> Path:
        return self.folder / f"{name_of(position)}.db"

    def take(
        self,
        link: Path,
        now_us: int,
        progress: Progress = lambda _done, _total: None,
        *,
        automatic: bool = False,
    ) -> Snapshot:
        """Copy the tables in use, in one read transaction, while writes continue. Raises
        SnapshotFault: a projector is halted, or nothing has been written yet. StorageError: a file
        cannot be read or written."""

        def copy(target: Path) -> None:
            progress(0, _STEPS)
            copy_in_use(link, target)
            progress(1, _STEPS)

        return self.make(copy, now_us, progress, automatic=automatic)

    def make(
        self,
        fill: Callable[[Path], object],
        now_us: int,
        progress: Progress = lambda _done, _total: None,
        *,
        automatic: bool = False,
        expected: Snapshot | None = None,
    ) -> Snapshot:
        """A snapshot of the tables that ``fill`` writes to the given path. ``expected``: the
        tables' digests, if another node made them. Raises SnapshotFault: the file cannot be a
        snapshot, or is not ``expected``; StorageError: a file cannot be read or written."""
        with self._lock:
            target = self.folder / UNFINISHED
            try:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                remove_database(target)
                fill(target)
                target.chmod(0o600)
                snapshot = described(target, now_us, automatic=automatic)
                if self._is_manual(snapshot.position):
                    snapshot = structs.replace(snapshot, automatic=False)
                if expected is not None:
                    check_equal(snapshot, expected)
                progress(2, _STEPS)
                sync_file(target)
                self._store_file(target, snapshot)
            except OSError as fault:
                raise StorageFailed(f"snapshot: {fault}") from fault
            except DAMAGED as fault:
                raise TablesDamaged(fault) from fault
            finally:
                remove_database(target)
            progress(_STEPS, _STEPS)
            return snapshot

    def _is_manual(self, position: int) -> bool:
        """Whether a user took a snapshot there, which the node must not remove by itself."""
        found, _ = self.all()
        return any(each.position == position and not each.automatic for each in found)

    def _store_file(self, file: Path, snapshot: Snapshot) -> None:
        self._remove(snapshot.position)
        file.rename(self.path(snapshot.position))
        sync_folder(self.folder)
        replace(self._document(snapshot.position), encode_snapshot(snapshot))

    def fault(self, snapshot: Snapshot, log: EventLog) -> str | None:
        """Why a snapshot is unusable, after reading every row; None if it is usable."""
        with self._lock:
            unfit = mismatch(snapshot, log)
            return unfit or file_fault(snapshot, self.path(snapshot.position), rows=True)

    def replay_fault(self, snapshot: Snapshot, build: Callable[[Path], TableDigests]) -> str | None:
        """Why a snapshot differs from the log's tables; ``build`` writes those to its path."""
        with self._lock:
            target = self.folder / UNFINISHED
            remove_database(target)
            try:
                digests = build(target)
            finally:
                remove_database(target)
        wrong = differing(snapshot, digests)
        return f"the log makes other tables: {', '.join(wrong)}" if wrong else None

    def copy_newest(
        self, target: Path, log: EventLog, until: int
    ) -> tuple[Snapshot | None, list[PassedOver]]:
        """Copy the newest snapshot that fits this release, the log and ``until`` to ``target``;
        None without one. Also returns the damaged or unfitting ones. Raises StorageFailed: the copy
        cannot be written."""
        head = log.head().position
        with self._lock:
            found, passed = self.all()
            for snapshot in found:
                if until < snapshot.position <= head:
                    continue  # newer than the requested position
                reason = mismatch(snapshot, log) or self._copy_fault(snapshot, target)
                if reason is None:
                    return snapshot, passed
                passed.append(PassedOver(snapshot.position, reason))
        return None, passed

    def _copy_fault(self, snapshot: Snapshot, target: Path) -> str | None:
        """Copy a snapshot's file; returns why it is unusable, or None."""
        try:
            shutil.copyfile(self.path(snapshot.position), target)
        except FileNotFoundError:
            return "its file is missing"
        except OSError as fault:
            remove_database(target)
            raise StorageFailed(f"snapshot {snapshot.position}: {fault}") from fault
        reason = file_fault(snapshot, target, rows=False)
        if reason is not None:
            remove_database(target)
        return reason

    def open_file(self, position: int) -> tuple[Snapshot, BinaryIO]:
        """A snapshot and its open file, which stays readable even if it is removed meanwhile.
        Raises SnapshotFault."""
        snapshot = self.get(position)
        try:
            return snapshot, self.path(position).open("rb")
        except OSError as fault:
            raise SnapshotFault(f"snapshot {position}: its file cannot be read") from fault

    def remove(self, position: int) -> None:
        """Remove a snapshot, damaged or not. Raises SnapshotFault without one."""
        with self._lock:
            if not self._document(position).exists() and not self.path(position).exists():
                raise SnapshotFault(f"there is no snapshot at position {position}")
            self._remove(position)
            sync_folder(self.folder)

    def remove_holding(self, positions: Iterable[int]) -> list[int]:
        """Remove every snapshot that applied one of these events; returns their positions."""
        first = min(positions, default=None)
        removed: list[int] = []
        if first is None:
            return removed
        with self._lock:
            for position in self._positions():
                if position >= first:
                    self._remove(position)
                    removed.append(position)
            if removed:
                sync_folder(self.folder)
                _log.info("snapshots that hold what is erased are removed: %s", removed)
        return removed

    def prune(self, keep: int) -> None:
        """Keep the newest ``keep`` of the automatic ones, remove the others."""
        with self._lock:
            found, _ = self.all()
            for snapshot in [each for each in found if each.automatic][keep:]:
                self._remove(snapshot.position)

    def sweep(self) -> None:
        """Remove files that an earlier process left unfinished."""
        with self._lock:
            remove_database(self.folder / UNFINISHED)
            for document in self.folder.glob("*.json.next"):
                document.unlink()
            for position in self._positions():
                document = self._document(position)
                # Earlier releases, if killed, left an empty one.
                if not document.exists() or not document.stat().st_size:
                    self._remove(position)

    def _positions(self) -> list[int]:
        found = {position_named(path.stem) for path in self.folder.glob("*.*")}
        return sorted(position for position in found if position is not None)

    def _document(self, position: int) -> Path:
        return self.folder / f"{name_of(position)}.json"

    def _remove(self, position: int) -> None:
        self._document(position).unlink(missing_ok=True)
        remove_database(self.path(position))
