"""Hash chains: linking drafts onto the streams of a log, and checking links.

``Chain`` is the writer's copy of the heads of the log and its streams. It gives drafts their
position, sequence, clock reading, salt and hash, and can undo a whole transaction. ``link_fault``
is for readers: whether stored bytes continue their stream. Neither does I/O.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from engramlog.eventlog.clock import HybridClock
from engramlog.eventlog.codec import (
    FORMAT_VERSION,
    HEADER_ALTERED,
    PAYLOAD_ALTERED,
    ZERO_HASH,
    decode,
    encode_header,
    header_hash,
    header_of,
    payload_hash,
)
from engramlog.eventlog.errors import CorruptLog, UnknownKind
from engramlog.eventlog.event import Draft, Header, Recorded, Stored, Verified, stream_name
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, kind_of
from engramlog.eventlog.log import Head, StreamHead

SALT_BYTES = 16
EVENT_ID_BYTES = 16
HASH_BYTES = 32
PAYLOAD_MISSING = "payload is missing"
"""The fault of a link whose payload was erased or withheld; a ``fact_erased`` that names it proves
an erasure."""
ARRAY_OF_14 = 0x9E
"""The first byte of every header: a MessagePack array of 14."""

Link = tuple[Recorded, Stored]
"""One event as decoded, and as stored."""


class Chain:
    """The heads of the log and its streams in the one writing thread. ``entropy`` gives the salts;
    fixtures pass a fixed one."""

    def __init__(
        self,
        origin: str,
        epoch: int,
        head: Head,
        streams: Mapping[str, StreamHead],
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.origin = origin
        self.epoch = epoch
        self._entropy = entropy
        self._undo: dict[str, tuple[int, bytes] | None] = {}
        self.restart(head, streams)

    def restart(self, head: Head, streams: Mapping[str, StreamHead]) -> None:
        """Replace the heads by those from the log."""
        self._tips: dict[str, tuple[int, bytes]] = {}
        self.advance(head, streams)

    def advance(self, head: Head, streams: Mapping[str, StreamHead]) -> None:
        """Continue after another writer of the same log; ``streams`` are the ones that grew."""
        self._settled = head
        self._position = head.position
        self._received_at = head.received_at
        self._hlc = HybridClock(head.received_hlc)
        self._tips.update({name: (tip.stream_seq, tip.hash) for name, tip in streams.items()})

    @property
    def position(self) -> int:
        """The last assigned position, committed or not."""
        return self._position

    def stream_seq(self, stream: str) -> int:
        """The last assigned sequence of a stream; 0 for a stream without events."""
        return self._tips.get(stream, (0, ZERO_HASH))[0]

    def link(
        self,
        drafts: Sequence[Draft],
        payloads: Sequence[bytes],
        now_us: int,
        idempotency_key: str | None,
    ) -> list[Link]:
        """Continue the log with ``drafts`` and their encoded payloads. All share one
        ``received_at``: ``now_us``, or the last recorded one if that is later."""
        if not drafts:
            return []
        kinds = [kind_and_version(draft) for draft in drafts]
        # the initial 1970 does not bind an empty log
        floor = now_us if self._position == 0 else self._received_at
        received_at = self._received_at = max(now_us, floor)
        salts = self._entropy(SALT_BYTES * len(drafts))
        origin, epoch, tips, undo, tick = (
            self.origin,
            self.epoch,
            self._tips,
            self._undo,
            self._hlc.tick,
        )
        names: dict[str, str] = {}
        position = self._position
        links: list[Link] = []
        for number, (draft, payload) in enumerate(zip(drafts, payloads, strict=True)):
            position += 1
            partition = draft.partition
            stream = names.get(partition)
            if stream is None:
                stream = names[partition] = stream_name(origin, epoch, partition)
                undo.setdefault(stream, tips.get(stream))
            stream_seq, prev_hash = tips.get(stream, (0, ZERO_HASH))
            salt = salts[number * SALT_BYTES : (number + 1) * SALT_BYTES]
            kind, schema_version = kinds[number]
            hlc = tick(received_at)
            header = Header(
                FORMAT_VERSION,
                draft.event_id,
                origin,
                stream,
                stream_seq + 1,
                kind,
                schema_version,
                hlc,
                received_at,
                draft.actor,
                draft.causation_id,
                idempotency_key,
                prev_hash,
                payload_hash(salt, payload),
            )
            data = encode_header(header)
            digest = header_hash(data)
            tips[stream] = (stream_seq + 1, digest)
            links.append(
                (
                    Recorded(position, received_at, hlc, None, header, digest, draft.payload),
                    Stored(position, received_at, hlc, None, data, digest, salt, payload),
                )
            )
        self._position = position
        return links

    def follow(self, events: Sequence[Stored]) -> list[Link]:
        """Continue the log with another log's events unchanged, positions included. Raises
        CorruptLog: an event does not continue this log or its stream; nothing is linked."""
        links: list[Link] = []
        tips: dict[str, StreamHead] = {}
        position, received_at, hlc = self._position, self._received_at, self._hlc.last
        for stored in events:
            position += 1
            if stored.position != position:
                raise CorruptLog(position, f"the next event given is at {stored.position}")
            if position > 1 and (stored.received_at < received_at or stored.received_hlc < hlc):
                raise CorruptLog(position, "it was received before the event it follows")
            header = header_of(stored)
            stream = header.stream
            before = tips.get(stream) or self._stream_head(stream)
            fault = link_fault(before, stored, header, erasable=True)
            if fault is not None:
                raise CorruptLog(position, fault)
            tips[stream] = StreamHead(stream, header.stream_seq, stored.hash)
            received_at, hlc = stored.received_at, stored.received_hlc
            links.append((decode(stored, header), stored))
        for stream, tip in tips.items():
            self._undo.setdefault(stream, self._tips.get(stream))
            self._tips[stream] = (tip.stream_seq, tip.hash)
        self._position, self._received_at, self._hlc.last = position, received_at, hlc
        return links

    def adopt(
        self,
        events: Sequence[Verified],
        peer: str,
        now_us: int,
    ) -> list[Link]:
        """Continue the log with another node's events, which came through ``peer``: their bytes,
        our positions and times.

        Raises:
            CorruptLog: an event does not continue its stream; nothing is linked.
            ClockSkew: an event's time is over 300 s ahead; nothing is linked.
        """
        links: list[Link] = []
        tips: dict[str, StreamHead] = {}
        position = self._position
        received_at = max(now_us, self._received_at)
        clock = HybridClock(self._hlc.last)
        for verified in events:
            position += 1
            event, header = verified.event, verified.header
            received_hlc = clock.receive(header.hlc, received_at)
            stream = header.stream
            fault = place_fault(tips.get(stream) or self._stream_head(stream), header)
            if fault is not None:
                raise CorruptLog(position, fault)
            tips[stream] = StreamHead(stream, header.stream_seq, event.hash)
            place = (position, received_at, received_hlc, peer)
            links.append(
                (
                    Recorded(*place, header, event.hash, verified.payload),
                    Stored(*place, event.header, event.hash, event.salt, event.payload),
                )
            )
        for stream, tip in tips.items():
            self._undo.setdefault(stream, self._tips.get(stream))
            self._tips[stream] = (tip.stream_seq, tip.hash)
        if links:
            self._position, self._received_at, self._hlc.last = position, received_at, clock.last
        return links

    def _stream_head(self, stream: str) -> StreamHead | None:
        tip = self._tips.get(stream)
        return None if tip is None else StreamHead(stream, *tip)

    def settle(self) -> Head:
        """Mark everything linked so far as durable; returns the log's head."""
        self._undo.clear()
        self._settled = Head(self._position, self._received_at, self._hlc.last)
        return self._settled

    def take_back(self) -> None:
        """Undo everything linked since the last ``settle``."""
        for stream, tip in self._undo.items():
            if tip is None:
                self._tips.pop(stream, None)
            else:
                self._tips[stream] = tip
        self._undo.clear()
        self._position = self._settled.position
        self._received_at = self._settled.received_at
        self._hlc.last = self._settled.received_hlc


_kinds: dict[type, tuple[str, int]] = {}


def kind_and_version(draft: Draft) -> tuple[str, int]:
    """A draft's kind, and the schema version to write. Raises UnknownKind."""
    shape = type(draft.payload)
    known = _kinds.get(shape)
    if known is None:
        kind = kind_of(draft.payload)
        if kind not in SCHEMA_VERSIONS:
            raise UnknownKind(f"no schema version is declared for kind {kind!r}")
        known = _kinds[shape] = (kind, SCHEMA_VERSIONS[kind])
    return known


def link_fault(
    previous: StreamHead | None, stored: Stored, header: Header, *, erasable: bool = False
) -> str | None:
    """Why ``stored``, with its decoded header, does not continue its stream after ``previous``;
    None if it does. ``erasable``: payload and salt may both be missing, as after an erasure."""
    if header_hash(stored.header) != stored.hash:
        return HEADER_ALTERED
    if header.format != FORMAT_VERSION:
        return f"format {header.format} is not readable here, only {FORMAT_VERSION}"
    fault = _shape_fault(stored, header) or place_fault(previous, header)
    if fault is not None:
        return fault
    if stored.payload is None or stored.salt is None:
        gone = stored.payload is None and stored.salt is None
        return None if erasable and gone else PAYLOAD_MISSING
    if payload_hash(stored.salt, stored.payload) != header.payload_hash:
        return PAYLOAD_ALTERED
    return None


def place_fault(previous: StreamHead | None, header: Header) -> str | None:
    """Why an event with this header does not come next in its stream; None if it does."""
    if previous is None:
        last_seq, last_hash = 0, ZERO_HASH
    else:
        last_seq, last_hash = previous.stream_seq, previous.hash
    if header.stream_seq != last_seq + 1:
        return f"stream {header.stream}: expected sequence {last_seq + 1}, is {header.stream_seq}"
    if header.prev_hash != last_hash:
        return f"stream {header.stream}: prev_hash does not match event {last_seq}"
    return None


def _shape_fault(stored: Stored, header: Header) -> str | None:
    """Why a header is impossible after any other, or None."""
    if stored.header[0] != ARRAY_OF_14:
        return "header is not an array of 14"
    if len(header.event_id) != EVENT_ID_BYTES or len(header.payload_hash) != HASH_BYTES:
        return "header holds an identifier or hash of the wrong length"
    if not header.stream.startswith(header.origin + "/"):
        return f"stream {header.stream} does not belong to origin {header.origin}"
    if header.schema_version < 1 or header.hlc < 0:
        return "header holds a number out of range"
    return None
