"""Proves that a log is unchanged: finds the first fault, with its position and reason.

Everything is computed again from the stored bytes: gapless positions, non-decreasing local times,
every link of every hash chain, every payload against its commitment (a missing one must be named by
a ``fact_erased`` event: otherwise it was withheld), the columns against the header they repeat,
unique identifiers, and the storage as a whole. ``against`` compares with signed heads from
elsewhere; without them a cut-off tail cannot be detected.
"""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.engines.storage_audit import Auditable, RowFields
from engramlog.eventlog.errors import CorruptLog, StorageError
from engramlog.eventlog.log import Head, ReadableLog
from engramlog.eventlog.signing import SignedHeads, signature_fault
from engramlog.replay.verify_keys import Fault
from engramlog.replay.verify_rows import RowCheck, bare_row

PAGE_EVENTS = 500

Progress = Callable[[int, int], None]
"""Called with (events checked, all events)."""


class VerifyReport(Struct, frozen=True):
    """The verified part, up to ``head``, and the first fault, if any."""

    events: int
    streams: int
    head: Head
    fault: Fault | None = None


def verify(
    log: ReadableLog,
    *,
    against: SignedHeads | None = None,
    public_keys: Collection[str] | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check the whole log as of now; never raises for damage. ``public_keys`` (base64): the trusted
    keys of the node of ``against``; by default its node id decides."""
    check = _Check(log, against)
    fault = check.run(progress)
    if fault is None and against is not None:
        keys = None if public_keys is None else frozenset(public_keys)
        fault = check.compare(against, keys)
    return VerifyReport(check.rows.head.position, check.rows.streams, check.rows.head, fault)


def verify_file(
    path: Path,
    *,
    origin: str,
    epoch: int,
    against: SignedHeads | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """``verify`` for a ``log.db`` that may be too damaged to open, or in use by a server. Raises
    DataDirectoryError without a log."""
    try:
        log = SqliteLog.open(path, origin=origin, epoch=epoch, clock=SystemClock(), read_only=True)
    except CorruptLog as damage:
        return VerifyReport(0, 0, Head(), Fault(damage.position, "", 0, damage.reason))
    try:
        return verify(log, against=against, progress=progress)
    finally:
        log.close()


class _Check:
    """One pass over a log, in order."""

    def __init__(self, log: ReadableLog, against: SignedHeads | None) -> None:
        self._log = log
        self._auditable = log if isinstance(log, Auditable) else None
        sought = () if against is None else against.heads
        self.rows = RowCheck(
            f"{log.origin}/{log.epoch}/",
            self._auditable,
            {(head.stream, head.stream_seq) for head in sought},
        )

    def run(self, progress: Progress | None) -> Fault | None:
        """The log's first fault by itself."""
        # The database checks its file beside the interpreter.
        with ThreadPoolExecutor(1) as beside:
            storage = beside.submit(self._storage_fault)
            fault = self._first_fault(progress) or self.rows.withheld() or storage.result()
        return fault or self.rows.surplus_fault()

    def _first_fault(self, progress: Progress | None) -> Fault | None:
        """The first fault of the events, in order."""
        try:
            total = self._log.head().position
        except (CorruptLog, StorageError):  # the pass will find the place
            total = 0
        while True:
            rows, damage = self._page()
            fault = self.rows.page_fault(rows)
            if fault is not None:
                return fault
            position = self.rows.head.position
            if damage is not None:
                return Fault(position + 1, "", 0, damage)
            if (fault := self.rows.keys_fault()) is not None:
                return fault
            if progress is not None:
                progress(position, max(total, position))
            if len(rows) < PAGE_EVENTS:
                return None

    def compare(self, against: SignedHeads, keys: frozenset[str] | None) -> Fault | None:
        """The first disagreement with a signed statement about this log."""
        reason = signature_fault(against, keys)
        if reason is not None:
            return Fault(0, "", 0, reason)
        for head in against.heads:
            found = self.rows.found.get((head.stream, head.stream_seq))
            if found is None:
                end = self.rows.stream_seq(head.stream)
                reason = (
                    f"log was cut back: head says {head.stream} reached {head.stream_seq}, "
                    f"log ends at {end}"
                )
                return Fault(self.rows.head.position, head.stream, head.stream_seq, reason)
            position, digest = found
            if digest.hex() != head.hash:
                reason = f"another history: head says {head.hash}, log holds {digest.hex()}"
                return Fault(position, head.stream, head.stream_seq, reason)
        if against.node_id == self._log.origin and against.position > self.rows.head.position:
            reason = (
                f"log was cut back: heads were signed at position {against.position}, "
                f"log ends at {self.rows.head.position}"
            )
            return Fault(self.rows.head.position, "", 0, reason)
        return None

    def _page(self) -> tuple[list[RowFields], str | None]:
        """The next rows, and why reading stopped, if it did."""
        after = self.rows.head.position
        try:
            return self._rows(after, PAGE_EVENTS), None
        except (CorruptLog, StorageError) as damage:
            # One at a time, so that everything before the damage is still checked.
            rows: list[RowFields] = []
            while len(rows) < PAGE_EVENTS:
                try:
                    row = self._rows(after + len(rows), 1)
                except (CorruptLog, StorageError) as here:
                    return rows, _words(here)
                if not row:
                    break
                rows += row
            return rows, _words(damage)

    def _rows(self, after: int, limit: int) -> list[RowFields]:
        if self._auditable is not None:
            return self._auditable.read_rows(after, limit)
        return [bare_row(stored) for stored in self._log.read_stored(after, limit)]

    def _storage_fault(self) -> Fault | None:
        if self._auditable is None:
            return None
        try:
            reason = self._auditable.storage_fault()
        except (CorruptLog, StorageError) as damage:
            reason = _words(damage)
        return None if reason is None else Fault(0, "", 0, f"storage: {reason}")


def _words(damage: CorruptLog | StorageError) -> str:
    return damage.reason if isinstance(damage, CorruptLog) else str(damage)
