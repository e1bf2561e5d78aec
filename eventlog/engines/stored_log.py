"""What the engines over a database share: rows, copying, closing, the check of the log's end."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Self

from engramlog.eventlog.chain import Link, link_fault
from engramlog.eventlog.codec import decode, decode_header, header_of
from engramlog.eventlog.engines.appending import AppendingLog, KeyUse
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Header, Recorded, Stored
from engramlog.eventlog.identifiers import event_ids_of
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import KeyCopy, StreamHead

TAIL_CHECK_EVENTS = 64


class StoredLog(AppendingLog):
    """An ``EventLog`` that outlives its process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @abstractmethod
    def uses_of(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], KeyUse]:
        """See ``Auditable``."""

    @abstractmethod
    def _close_connections(self) -> None: ...

    def copy(self, events: Sequence[Stored], keys: Sequence[KeyCopy] = ()) -> None:
        self.begin()
        stored = False
        try:
            links = self.chain.follow(events)
            uses = {
                (each.actor, each.key): KeyUse(each.digest, each.first_position, each.last_position)
                for each in keys
            }
            # Also erase what the other log erased, at any progress of the copy.
            erased = [event_id for event_id, by in names_in(links) if by.peer is None]
            self.store(links, uses, erased)
            stored = True
        finally:
            if not stored:
                self.chain.take_back()
            self.release()

    def keys_of(self, events: Sequence[Stored]) -> list[KeyCopy]:
        headers = (decode_header(stored.header) for stored in events)
        names = {
            (header.actor, header.idempotency_key): None
            for header in headers
            if header.idempotency_key is not None
        }
        positions = {stored.position for stored in events}
        return [
            KeyCopy(*name, use.digest, use.first_position, use.last_position)
            for name, use in self.uses_of(names.keys()).items()
            if use.last_position in positions
        ]

    def close(self) -> None:
        """Waits for another thread's transaction; one of this thread is lost."""
        self._closed = True
        self._signal.notify()
        waits = not self._turn.is_mine
        if waits:
            self._turn.take()
        try:
            self._close_connections()
        finally:
            if waits:
                self._turn.give_back()


def check_tail(
    tail: Iterable[Stored], after: int, may_be_erased: Callable[[Stored, Header], bool]
) -> None:
    """Raises CorruptLog if the last events, which follow a position, contradict themselves.
    ``may_be_erased``: whether an event without payload is one that an erasure names, or will
    name."""
    tips: dict[str, StreamHead] = {}
    for stored in tail:
        if stored.position != after + 1:
            raise CorruptLog(after + 1, f"missing: the next event is at {stored.position}")
        after = stored.position
        header = header_of(stored)
        # The event before a stream's first one in the tail was not read.
        before = StreamHead(header.stream, header.stream_seq - 1, header.prev_hash)
        erased = stored.payload is None and may_be_erased(stored, header)
        fault = link_fault(tips.get(header.stream, before), stored, header, erasable=erased)
        if fault is not None:
            raise CorruptLog(stored.position, fault)
        decode(stored, header)
        tips[header.stream] = StreamHead(header.stream, header.stream_seq, stored.hash)


def new_streams(links: Sequence[Link], numbers: Mapping[str, int]) -> dict[str, int]:
    """Numbers of the streams among ``links`` that have none yet."""
    names = dict.fromkeys(recorded.header.stream for recorded, _ in links)
    fresh = (stream for stream in names if stream not in numbers)
    return {stream: number for number, stream in enumerate(fresh, len(numbers) + 1)}


def event_rows(
    links: Sequence[Link], numbers: Mapping[str, int]
) -> list[tuple[int, int, int, bytes, str, int, int, str | None, bytes, bytes]]:
    """The rows of ``events``; ``numbers`` has every stream's."""
    return [
        (
            stored.position,
            numbers[recorded.header.stream],
            recorded.header.stream_seq,
            recorded.header.event_id,
            recorded.header.kind,
            stored.received_at,
            stored.received_hlc,
            stored.peer,
            stored.header,
            stored.hash,
        )
        for recorded, stored in links
    ]


def payload_rows(links: Sequence[Link]) -> list[tuple[int, bytes | None, bytes]]:
    return [
        (stored.position, stored.salt, stored.payload)
        for _, stored in links
        if stored.payload is not None
    ]


def names_in(links: Sequence[Link]) -> list[tuple[bytes, Recorded]]:
    """The events that ``fact_erased`` events among ``links`` name, each with the one that does."""
    return [
        (event_id, recorded)
        for recorded, _ in links
        if isinstance(recorded.payload, FactErased)
        for event_id in event_ids_of(recorded.payload.events)
    ]
