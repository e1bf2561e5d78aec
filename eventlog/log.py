"""The log's contract: four verbs, and one transaction for the writer.

``append`` makes drafts durable and returns them recorded; ``read`` returns events in order of
position; ``head`` is the log's end; ``subscribe`` waits for more. Positions are gapless from 1. One
thread writes; any number read. Every engine passes the same contract tests
(``tests/eventlog/contract.py``).
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from engramlog.eventlog.engines.following import LogSubscription
from engramlog.eventlog.event import Draft, Recorded, Stored, Verified

READ_LIMIT_MAX = 100_000
TRANSACTION_EVENTS_MAX = 200_000
NEAR = 64
"""Positions at most this far apart share one read (``read_at``)."""


def check_limit(limit: int) -> None:
    """Raises ValueError for a page size that engines do not serve."""
    if not 0 <= limit <= READ_LIMIT_MAX:
        raise ValueError(f"limit must be 0 to {READ_LIMIT_MAX}, is {limit}")


def within(events: Iterable[Stored], bytes_max: int | None) -> list[Stored]:
    """The first event, and those after it that fit into ``bytes_max`` with it; reads no further."""
    found: list[Stored] = []
    size = 0
    for event in events:
        size += len(event.header) + len(event.payload or b"")
        if found and bytes_max is not None and size > bytes_max:
            break
        found.append(event)
    return found


class Head(Struct, frozen=True):
    """The log's end: all zero for an empty log. ``received_at`` in microseconds."""

    position: int = 0
    received_at: int = 0
    received_hlc: int = 0


class StreamHead(Struct, frozen=True):
    """The last event of one stream."""

    stream: str
    stream_seq: int
    hash: bytes


class Idempotency(Struct, frozen=True):
    """The caller's key for one request; ``digest`` identifies the request's body."""

    actor: str
    key: str
    digest: bytes


class Expect(Struct, frozen=True):
    """The condition of an append: the named stream's sequence, or the log's position, or both."""

    stream: str | None = None
    stream_seq: int | None = None
    position: int | None = None


class Appended(Struct, frozen=True):
    """The events of an append; ``replayed`` if an idempotency key answered instead."""

    events: list[Recorded]
    replayed: bool = False


class AppendTransaction(Protocol):
    """Several appends that become durable together, or not at all."""

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        received_at: int | None = None,
        idempotency: Idempotency | None = None,
        since: int | None = None,
        expect: Expect | None = None,
    ) -> Appended:
        """Give each draft its position, sequence, clock reading and hash.

        With ``since``, the key covers every event of this transaction after that position, for a
        request that appends in several steps: check ``replayed`` before the first.

        ``received_at`` (microseconds) defaults to the log's clock, and never goes back: an earlier
        time is raised to the last recorded one. Raises IdempotencyConflict: the key was used for a
        request with another digest. ExpectationFailed: ``expect`` is not met. PayloadTooLarge: a
        payload is over the format's limit. AppendError: the log already has an event id, a payload
        could not be read back, or the transaction grows over ``TRANSACTION_EVENTS_MAX``.
        """
        ...

    def adopt(
        self,
        events: Sequence[Verified],
        peer: str,
        *,
        received_at: int | None = None,
    ) -> Appended:
        """Append another node's events unchanged, with positions and times of this log.

        ``peer``: the node they came through. Raises CorruptLog: one of them does not continue its
        stream. ClockSkew: one has a time over 300 s ahead. AppendError: the log already has an
        event id, or the transaction grows too large.
        """
        ...

    def replayed(self, idempotency: Idempotency) -> Appended | None:
        """What this key recorded before, or None. Raises IdempotencyConflict."""
        ...

    def erase(self, event_ids: Sequence[bytes]) -> None:
        """Delete the payloads (and salts) of events on commit, and the digests of the requests that
        wrote them. Headers stay. Skips events without payload.

        A ``fact_erased`` event in the log or in this transaction must name every event: otherwise
        ``commit`` raises EraseRefused and writes nothing.
        """
        ...

    def commit(self) -> None:
        """Return once everything is durable. Raises StorageFull or StorageFailed; the log then has
        nothing of the transaction."""
        ...

    def rollback(self) -> None:
        """Undo everything appended in this transaction. Idempotent."""
        ...


class KeyCopy(Struct, frozen=True, array_like=True):
    """What an idempotency key recorded, for a copy of the log."""

    actor: str
    key: str
    digest: bytes
    first_position: int
    last_position: int


class ReadableLog(Protocol):
    """An append-only, hash-chained log of events, for readers."""

    @property
    def origin(self) -> str:
        """This node's id, under which it signs."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of this node's streams."""
        ...

    @property
    def held(self) -> frozenset[str]:
        """The scopes whose events are read with payloads (``held_scopes``); usually all. Undecoded
        events are always complete."""
        ...

    def read(
        self,
        after: int = 0,
        limit: int = 1000,
        streams: Collection[str] | None = None,
        bytes_max: int | None = None,
    ) -> list[Recorded]:
        """Events with position > ``after`` in order, at most ``limit``, of ``streams`` if given.
        ``bytes_max``: as in ``read_stream``. Raises CorruptLog if bytes cannot be decoded (hashes
        are checked by ``verify``)."""
        ...

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        """Like ``read``, undecoded: exactly the hashed bytes."""
        ...

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        """Events of one stream after a sequence, in order, undecoded. ``bytes_max``: returns only
        the first event, and those whose headers and payloads together fit; reads no further."""
        ...

    def iterate(self, after: int = 0, until: int | None = None) -> Iterator[Recorded]:
        """All events after a position, read page by page, up to ``until`` (inclusive)."""
        ...

    def head(self) -> Head: ...

    def stream_heads(self) -> dict[str, StreamHead]:
        """The last event of every stream, by stream name."""
        ...

    def position_at(self, instant_us: int) -> int:
        """The last position with ``received_at`` <= instant; 0 if none."""
        ...

    def received_at(self, position: int) -> int:
        """When that position was received (microseconds); 0 for position 0. Raises IndexError
        beyond the head."""
        ...

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Positions of the events that the log has, by event id."""
        ...

    def subscribe(self, after: int = 0, streams: Collection[str] | None = None) -> LogSubscription:
        """A reader that follows the log; its owner stores the checkpoint."""
        ...

    def close(self) -> None:
        """Idempotent; later calls raise LogClosed."""
        ...


class EventLog(ReadableLog, Protocol):
    """A log to read and write."""

    @property
    def fault(self) -> str | None:
        """Why nothing can be acknowledged now, if known; None if it can."""
        ...

    def retry(self) -> None:
        """Test whether the log takes writes again. Raises StorageFull or StorageFailed, with
        ``fault``, if it does not."""
        ...

    def begin(self) -> AppendTransaction:
        """Open the one writing transaction."""
        ...

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        received_at: int | None = None,
        idempotency: Idempotency | None = None,
        expect: Expect | None = None,
    ) -> Appended:
        """``begin``, ``append``, ``commit`` in one call."""
        ...

    def scrub(self) -> None:
        """Remove all traces of erased payloads from the log's storage. Writes may wait. Call it
        between transactions, from any thread. Raises StorageFull or StorageFailed; then nothing is
        lost, and a retry is safe."""
        ...


class WholeLog(EventLog, Protocol):
    """A node's log: reads, writes, copies event by event, and can be a copy."""

    def keys_of(self, events: Sequence[Stored]) -> list[KeyCopy]:
        """The idempotency keys whose last event is among ``events``."""
        ...

    def copy(self, events: Sequence[Stored], keys: Sequence[KeyCopy] = ()) -> None:
        """Append another log's events unchanged: positions, times, bytes and hashes. Raises
        CorruptLog: they do not continue this log; nothing is appended. StorageError: the disk
        refused."""
        ...


def read_at(log: ReadableLog, positions: Iterable[int]) -> Iterator[Recorded]:
    """The events at positions, in order. One read covers positions at most ``NEAR`` apart."""
    left = sorted({position for position in positions if position > 0})
    while left:
        near = left[: bisect_left(left, left[0] + NEAR)]
        wanted = frozenset(near)
        for event in log.read(near[0] - 1, near[-1] - near[0] + 1):
            if event.position in wanted:
                yield event
        left = left[len(near) :]


def holds_event(log: ReadableLog, position: int, event_hash: bytes) -> bool:
    """Whether the log's event at a position has this hash: then all before it are the same too."""
    found = log.read(position - 1, 1) if position else []
    return [(event.position, event.hash) for event in found] == [(position, event_hash)]
