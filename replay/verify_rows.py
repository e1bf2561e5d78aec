"""Whether each row of a log can follow those before it, and why the first that cannot does not."""

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import astuple

from engramlog.eventlog.chain import ARRAY_OF_14, EVENT_ID_BYTES, PAYLOAD_MISSING, link_fault
from engramlog.eventlog.codec import (
    FORMAT_VERSION,
    ZERO_HASH,
    decode_header,
    decode_payload,
    read_payload,
)
from engramlog.eventlog.engines.storage_audit import Auditable, Row, RowFields
from engramlog.eventlog.event import Header, Stored
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import KINDS, SCHEMA_VERSIONS, FactErased
from engramlog.eventlog.log import Head, StreamHead
from engramlog.replay.verify_keys import Fault, IdempotencyCheck

_NO_EVENTS = 0, ZERO_HASH
_SHAPES = {(kind, version): KINDS[kind] for kind, version in SCHEMA_VERSIONS.items()}


class RowCheck:
    """Takes a log's rows in order and keeps the end of every stream.

    Args:
        own_streams: how the names of this node's streams of this epoch begin.
        storage: the log, to compare its idempotency keys; None without a database.
        sought: (stream, sequence) of the events to look out for.
    """

    def __init__(
        self, own_streams: str, storage: Auditable | None, sought: Collection[tuple[str, int]]
    ) -> None:
        self._own_streams = own_streams
        # A database with a unique index proves uniqueness itself, without all ids in memory.
        self._ids: set[bytes] | None = set() if storage is None else None
        self._keys = None if storage is None else IdempotencyCheck(storage)
        self._sought = frozenset(sought)
        self._missing: dict[str, Fault] = {}
        self._erased: set[str] = set()
        self._position = self._received_at = self._received_hlc = 0
        self._ends: dict[str, tuple[int, bytes]] = {}
        self.found: dict[tuple[str, int], tuple[int, bytes]] = {}
        """Position and hash of the sought events."""

    @property
    def head(self) -> Head:
        """The last event that was checked."""
        return Head(self._position, self._received_at, self._received_hlc)

    @property
    def streams(self) -> int:
        """How many streams have events."""
        return len(self._ends)

    def stream_seq(self, stream: str) -> int:
        """The last sequence of a stream; 0 without events."""
        return self._ends.get(stream, _NO_EVENTS)[0]

    def page_fault(self, rows: Sequence[RowFields]) -> Fault | None:
        """The first fault of the next rows."""
        left = iter(rows)
        while (unsure := self._accept_sound(left)) is not None:
            row = Row(*unsure)
            reason = self._reason(row)
            if reason is not None:
                return Fault(row.position, row.stream, row.stream_seq, reason)
        return None

    def keys_fault(self) -> Fault | None:
        """The first event since the last call whose idempotency key is not kept as it should."""
        return None if self._keys is None else self._keys.page_fault()

    def surplus_fault(self) -> Fault | None:
        """The fault of idempotency keys that no event names, after all events."""
        return None if self._keys is None else self._keys.surplus_fault(self._position)

    def withheld(self) -> Fault | None:
        """The first missing payload without a ``fact_erased`` event that names it."""
        faults = (fault for event, fault in self._missing.items() if event not in self._erased)
        return next(faults, None)

    def _accept_sound(self, rows: Iterator[RowFields]) -> RowFields | None:
        """Accept rows up to the first that is not plainly sound, and return that one. Nearly all
        rows are: for speed, this asks at once what ``_reason`` finds out step by step."""
        ends, ids = self._ends, self._ids
        last, last_at, last_hlc = self._position, self._received_at, self._received_hlc
        row = None
        try:
            for row in rows:
                position, at, hlc, peer, data, digest, salt, payload, stream, seq, name, kind = row
                header = decode_header(data)
                if (
                    position != last + 1 or at < last_at or hlc < last_hlc
                    or sha256(b"\x00" + data).digest() != digest
                    or sha256(salt + payload).digest() != header.payload_hash
                    or ends.get(stream, _NO_EVENTS) != (seq - 1, header.prev_hash)
                    or stream != header.stream or seq != header.stream_seq
                    or name != header.event_id or kind != header.kind
                    or (
                        (at != header.recorded_at or hlc != header.hlc)
                        if peer is None
                        else type(peer) is not str or stream.startswith(self._own_streams)
                    )
                    or header.format != FORMAT_VERSION or header.hlc < 0
                    or data[0] != ARRAY_OF_14 or len(name) != EVENT_ID_BYTES
                    or not stream.startswith(header.origin + "/")
                    or type(content := read_payload(payload))
                    is not _SHAPES.get((kind, header.schema_version))
                    or (ids is not None and name in ids)
                ):  # fmt: skip
                    return row
                if isinstance(content, FactErased):
                    self._erased.update(content.events)
                if peer is None and header.idempotency_key is not None and self._keys is not None:
                    self._keys.note(position, header)
                if ids is not None:
                    ids.add(name)
                if (stream, seq) in self._sought:
                    self.found[stream, seq] = position, digest
                ends[stream] = seq, digest
                last, last_at, last_hlc = position, at, hlc
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
            return row
        finally:
            self._position, self._received_at, self._received_hlc = last, last_at, last_hlc
        return None

    def _reason(self, row: Row) -> str | None:
        """Why this row cannot follow the previous ones; None if it can."""
        if row.position != self._position + 1:
            return f"position {self._position + 1} is missing"
        try:
            header = decode_header(row.header)
            end = self._ends.get(header.stream)
            before = None if end is None else StreamHead(header.stream, *end)
            # The events that name erasures are never erased.
            erasable = header.kind != "fact_erased"
            reason = link_fault(before, row, header, erasable=erasable)
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
        self._ends[stream] = stream_seq, stored.hash
        if (stream, stream_seq) in self._sought:
            self.found[stream, stream_seq] = stored.position, stored.hash

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


def bare_row(stored: Stored) -> RowFields:
    """The row of an engine that repeats nothing: the header supplies the columns."""
    try:
        header = decode_header(stored.header)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return (*astuple(stored), "", 0, b"", "")
    repeated = header.stream, header.stream_seq, header.event_id, header.kind
    return (*astuple(stored), *repeated)


def _column_fault(row: Row, header: Header) -> str | None:
    """Which column disagrees with the header it repeats."""
    for name in ("stream", "stream_seq", "event_id", "kind"):
        column, field = getattr(row, name), getattr(header, name)
        if column != field:
            return f"column {name} is {column!r}, the header says {field!r}"
    return None
