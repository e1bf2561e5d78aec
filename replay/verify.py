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

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.eventlog.chain import PAYLOAD_MISSING, link_fault
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.codec import decode_header, decode_payload
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.engines.storage_audit import Auditable, Row
from engramlog.eventlog.errors import CorruptLog, StorageError
from engramlog.eventlog.event import Header, Stored
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import Head, ReadableLog, StreamHead
from engramlog.eventlog.signing import SignedHeads, signature_fault
from engramlog.replay.verify_keys import Fault, IdempotencyCheck

PAGE_EVENTS = 2_000

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
    return VerifyReport(check.head.position, len(check.tips), check.head, fault)


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
    """One pass over a log, in order, that keeps the end of every stream."""

    def __init__(self, log: ReadableLog, against: SignedHeads | None) -> None:
        self._log = log
        self._auditable = log if isinstance(log, Auditable) else None
        self._own_streams = f"{log.origin}/{log.epoch}/"
        # Storage with a unique index proves uniqueness itself, without all ids in memory.
        self._ids: set[bytes] | None = None if self._auditable else set()
        heads = () if against is None else against.heads
        self._sought = {(head.stream, head.stream_seq) for head in heads}
        self._found: dict[tuple[str, int], tuple[int, bytes]] = {}
        self._missing: dict[str, Fault] = {}
        self._erased: set[str] = set()
        self._keys = None if self._auditable is None else IdempotencyCheck(self._auditable)
        self._position = self._received_at = self._received_hlc = 0
        self.tips: dict[str, StreamHead] = {}

    @property
    def head(self) -> Head:
        """The last event that was checked."""
        return Head(self._position, self._received_at, self._received_hlc)

    def run(self, progress: Progress | None) -> Fault | None:
        """The log's first fault by itself."""
        # The database checks its file beside the interpreter.
        with ThreadPoolExecutor(1) as beside:
            storage = beside.submit(self._storage_fault)
            fault = self._first_fault(progress) or self._withheld() or storage.result()
        return fault or (None if self._keys is None else self._keys.surplus_fault())

    def _first_fault(self, progress: Progress | None) -> Fault | None:
        """The first fault of the events, in order."""
        try:
            total = self._log.head().position
        except (CorruptLog, StorageError):  # the pass will find the place
            total = 0
        while True:
            rows, damage = self._page()
            for row in rows:
                reason = self._reason(row)
                if reason is not None:
                    return Fault(row.position, row.stream, row.stream_seq, reason)
            if damage is not None:
                return Fault(self.head.position + 1, "", 0, damage)
            if self._keys is not None and (fault := self._keys.page_fault()) is not None:
                return fault
            if progress is not None:
                progress(self.head.position, max(total, self.head.position))
            if len(rows) < PAGE_EVENTS:
                return None

    def _withheld(self) -> Fault | None:
        """The first missing payload without a ``fact_erased`` event that names it."""
        faults = (fault for event, fault in self._missing.items() if event not in self._erased)
        return next(faults, None)

    def compare(self, against: SignedHeads, keys: frozenset[str] | None) -> Fault | None:
        """The first disagreement with a signed statement about this log."""
        reason = signature_fault(against, keys)
        if reason is not None:
            return Fault(0, "", 0, reason)
        for head in against.heads:
            found = self._found.get((head.stream, head.stream_seq))
            if found is None:
                tip = self.tips.get(head.stream)
                end = 0 if tip is None else tip.stream_seq
                reason = (
                    f"log was cut back: head says {head.stream} reached {head.stream_seq}, "
                    f"log ends at {end}"
                )
                return Fault(self.head.position, head.stream, head.stream_seq, reason)
            position, digest = found
            if digest.hex() != head.hash:
                reason = f"another history: head says {head.hash}, log holds {digest.hex()}"
                return Fault(position, head.stream, head.stream_seq, reason)
        if against.node_id == self._log.origin and against.position > self.head.position:
            reason = (
                f"log was cut back: heads were signed at position {against.position}, "
                f"log ends at {self.head.position}"
            )
            return Fault(self.head.position, "", 0, reason)
        return None

    def _page(self) -> tuple[list[Row], str | None]:
        """The next rows, and why reading stopped, if it did."""
        after = self.head.position
        try:
            return self._rows(after, PAGE_EVENTS), None
        except (CorruptLog, StorageError) as damage:
            # One at a time, so that everything before the damage is still checked.
            rows: list[Row] = []
            while len(rows) < PAGE_EVENTS:
                try:
                    row = self._rows(after + len(rows), 1)
                except (CorruptLog, StorageError) as here:
                    return rows, _words(here)
                if not row:
                    break
                rows += row
            return rows, _words(damage)

    def _rows(self, after: int, limit: int) -> list[Row]:
        if self._auditable is not None:
            return self._auditable.read_rows(after, limit)
        return [_bare_row(stored) for stored in self._log.read_stored(after, limit)]

    def _reason(self, row: Row) -> str | None:
        """Why this row cannot follow the previous ones; None if it can."""
        if row.position != self._position + 1:
            return f"position {self._position + 1} is missing"
        try:
            header = decode_header(row.header)
            reason = link_fault(self.tips.get(header.stream), row, header)
            if reason == PAYLOAD_MISSING and _may_be_erased(row, header):
                reason = None
            reason = reason or _column_fault(row, header) or self._local_fault(row, header)
            if reason is None:
                self._note_payload(row, header)
        except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as fault:
            return f"undecodable event: {fault}"
        except TypeError as fault:
            return f"a column holds another type than it was given: {fault}"
        if reason is None:
            self._accept(row, header)
        return reason

    def _note_payload(self, stored: Stored, header: Header) -> None:
        """Record missing payloads and named erasures. Raises msgspec's errors."""
        if stored.payload is None:
            words = f"{PAYLOAD_MISSING} and no fact_erased event names it: it was withheld"
            fault = Fault(stored.position, header.stream, header.stream_seq, words)
            self._missing[id_text(header.event_id)] = fault
            return
        payload = decode_payload(header, stored.payload)
        if isinstance(payload, FactErased):
            self._erased.update(payload.events)

    def _accept(self, stored: Stored, header: Header) -> None:
        stream, stream_seq = header.stream, header.stream_seq
        if self._keys is not None and stored.peer is None and header.idempotency_key is not None:
            self._keys.note(stored.position, header)
        self._position = stored.position
        self._received_at, self._received_hlc = stored.received_at, stored.received_hlc
        self.tips[stream] = StreamHead(stream, stream_seq, stored.hash)
        if self._sought and (stream, stream_seq) in self._sought:
            self._found[stream, stream_seq] = (stored.position, stored.hash)

    def _local_fault(self, stored: Stored, header: Header) -> str | None:
        """The fault of this node's own columns, or None."""
        if self._position and stored.received_at < self._received_at:
            return f"received_at went back from {self._received_at} to {stored.received_at}"
        if stored.received_hlc < self._received_hlc:
            return f"received_hlc went back from {self._received_hlc} to {stored.received_hlc}"
        if stored.peer is None:
            if stored.received_at != header.recorded_at or stored.received_hlc != header.hlc:
                return "local times do not match the header of an event recorded here"
        elif type(stored.peer) is not str or header.stream.startswith(self._own_streams):
            return f"an event of this node's own epoch came through peer {stored.peer!r}"
        if self._ids is not None:
            if header.event_id in self._ids:
                return f"event id {id_text(header.event_id)} occurs twice"
            self._ids.add(header.event_id)
        return None

    def _storage_fault(self) -> Fault | None:
        if self._auditable is None:
            return None
        try:
            reason = self._auditable.storage_fault()
        except (CorruptLog, StorageError) as damage:
            reason = _words(damage)
        return None if reason is None else Fault(0, "", 0, f"storage: {reason}")


def _column_fault(row: Row, header: Header) -> str | None:
    """Which column disagrees with the header it repeats."""
    if (
        row.stream == header.stream
        and row.stream_seq == header.stream_seq
        and row.event_id == header.event_id
        and row.kind == header.kind
    ):
        return None
    for name in ("stream", "stream_seq", "event_id", "kind"):
        column, field = getattr(row, name), getattr(header, name)
        if column != field:
            return f"column {name} is {column!r}, the header says {field!r}"
    return None


def _may_be_erased(stored: Stored, header: Header) -> bool:
    """Salt and payload are erased together, and the events that name erasures never are."""
    return stored.payload is None and stored.salt is None and header.kind != "fact_erased"


def _bare_row(stored: Stored) -> Row:
    """The row of an engine that repeats nothing: the header supplies the columns."""
    columns = asdict(stored)
    try:
        header = decode_header(stored.header)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return Row(**columns, stream="", stream_seq=0, event_id=b"", kind="")
    return Row(
        **columns,
        stream=header.stream,
        stream_seq=header.stream_seq,
        event_id=header.event_id,
        kind=header.kind,
    )


def _words(damage: CorruptLog | StorageError) -> str:
    return damage.reason if isinstance(damage, CorruptLog) else str(damage)
