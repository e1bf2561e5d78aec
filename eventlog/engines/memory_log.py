"""An event log in plain lists: the protocol without durability.

It may continue another log from a position on: then reads up to there come from that log, which is
never written. So it answers what-if questions. It is also the tests' model of the stored logs.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Self, TypeVar

import msgspec

from engramlog.eventlog.chain import Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.engines.appending import (
    AppendingLog,
    KeyUse,
    KeyUses,
    Transaction,
    WriterTurn,
)
from engramlog.eventlog.engines.following import CommitSignal
from engramlog.eventlog.errors import EraseRefused, LogClosed
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import EventLog, Head, StreamHead, check_limit, within

Event = TypeVar("Event", Recorded, Stored)


class MemoryLog(AppendingLog):
    """Implements ``EventLog``; its events live as long as the object."""

    def __init__(
        self, origin: str, epoch: int, clock: Clock, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        self.clock = clock
        self.chain = Chain(origin, epoch, Head(), {}, entropy)
        self._base: EventLog | None = None
        self._from = 0
        """The position at which the log below ends and this one begins."""
        self._links: list[Link] = []
        self._received: list[int] = []
        self._ids: set[bytes] = set()
        self._keys: dict[tuple[str, str], KeyUse] = {}
        self._stream_heads: dict[str, StreamHead] = {}
        self._head = Head()
        self._turn = WriterTurn()
        self._signal = CommitSignal(live=True)

    @classmethod
    def over(
        cls, base: EventLog, head: Head, streams: Mapping[str, StreamHead], clock: Clock
    ) -> Self:
        """A log that continues ``base`` from ``head`` on. ``streams``: every stream's end there."""
        log = cls(base.origin, base.epoch, clock)
        log.chain = Chain(base.origin, base.epoch, head, streams)
        log.held = base.held
        log._base, log._from = base, head.position
        log._head, log._stream_heads = head, dict(streams)
        return log

    def begin(self) -> Transaction:
        self._turn.take()
        if self._closed:
            self._turn.give_back()
            raise LogClosed("the log is closed")
        return Transaction(self)

    def key_use(self, actor: str, key: str) -> KeyUse | None:
        return self._keys.get((actor, key))

    def holds(self, event_id: bytes) -> bool:
        return event_id in self._ids or bool(self._positions_below([event_id]))

    def recorded(self, first: int, last: int) -> list[Recorded]:
        return self.read(first - 1, last - first + 1)

    def store(self, links: Sequence[Link], keys: KeyUses, erased: Sequence[bytes]) -> None:
        self._require_open()
        if erased:
            self._check_named(erased, links)
        self._keys.update(keys)
        self._links += links
        for recorded, _ in links:
            header = recorded.header
            self._received.append(recorded.received_at)
            self._ids.add(header.event_id)
            self._stream_heads[header.stream] = StreamHead(
                header.stream, header.stream_seq, recorded.hash
            )
        self._head = self.chain.settle()
        if erased:
            self._erase(frozenset(erased))

    def _check_named(self, erased: Sequence[bytes], links: Sequence[Link]) -> None:
        """Raises EraseRefused if no ``fact_erased`` event names one of the events."""
        named: set[str] = set()
        for recorded, _ in (*self._links, *links):
            if isinstance(recorded.payload, FactErased):
                named |= set(recorded.payload.events)
        for event_id in erased:
            if id_text(event_id) not in named:
                raise EraseRefused(f"no fact_erased event names {id_text(event_id)}")

    def _erase(self, erased: frozenset[bytes]) -> None:
        gone: set[int] = set()
        for index, (recorded, stored) in enumerate(self._links):
            if recorded.event_id in erased and not isinstance(recorded.payload, FactErased):
                gone.add(recorded.position)
                self._links[index] = (
                    msgspec.structs.replace(recorded, payload=None),
                    msgspec.structs.replace(stored, salt=None, payload=None),
                )
        for key, use in self._keys.items():
            if any(use.first_position <= position <= use.last_position for position in gone):
                self._keys[key] = KeyUse(b"", use.first_position, use.last_position)

    def scrub(self) -> None:
        self._require_open()

    def read(
        self,
        after: int = 0,
        limit: int = 1000,
        streams: Collection[str] | None = None,
        bytes_max: int | None = None,
    ) -> list[Recorded]:
        if bytes_max is not None:
            limit = len(within(self.read_stored(after, limit, streams), bytes_max))
        own = [recorded for recorded, _ in self._own(after, limit, streams)]
        base = self._below(after)
        return self._joined([] if base is None else base.read(after, limit, streams), own, limit)

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        own = [stored for _, stored in self._own(after, limit, streams)]
        base = self._below(after)
        found = [] if base is None else base.read_stored(after, limit, streams)
        return self._joined(found, own, limit)

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        check_limit(limit)
        found = [] if self._base is None else self._base.read_stream(stream, after_seq, limit)
        own = [
            stored
            for recorded, stored in self._own(0, len(self._links) + 1, (stream,))
            if recorded.header.stream_seq > after_seq
        ]
        return within(self._joined(found, own, limit), bytes_max)

    def _own(self, after: int, limit: int, streams: Collection[str] | None) -> list[Link]:
        """This log's own events after a position, of ``streams`` if given."""
        self._require_open()
        check_limit(limit)
        links = self._links[max(0, after - self._from) : self._head.position - self._from]
        if streams is None:
            return links[:limit]
        return list(islice((link for link in links if link[0].header.stream in streams), limit))

    def _below(self, after: int) -> EventLog | None:
        """The log below, if this one includes events of it after a position."""
        return self._base if after < self._from else None

    def _joined(self, below: list[Event], own: list[Event], limit: int) -> list[Event]:
        """Events of the log below, as far as this one includes it, then its own."""
        return [*(each for each in below if each.position <= self._from), *own][:limit]

    def head(self) -> Head:
        self._require_open()
        return self._head

    def stream_heads(self) -> dict[str, StreamHead]:
        self._require_open()
        return dict(self._stream_heads)

    def position_at(self, instant_us: int) -> int:
        self._require_open()
        own = bisect_right(self._received, instant_us, hi=self._head.position - self._from)
        if own or self._base is None:
            return self._from + own
        return min(self._base.position_at(instant_us), self._from)

    def received_at(self, position: int) -> int:
        self._require_open()
        if self._base is not None and position <= self._from:
            return self._base.received_at(position)
        if position == 0:
            return 0
        if not 0 < position <= self._head.position:
            raise IndexError(f"position {position} is beyond the head {self._head.position}")
        return self._received[position - self._from - 1]

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        self._require_open()
        asked = frozenset(event_ids)
        own = {
            recorded.event_id: recorded.position
            for recorded, _ in self._links
            if recorded.event_id in asked
        }
        return self._positions_below(event_ids) | own

    def _positions_below(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        found = {} if self._base is None else self._base.positions_of(event_ids)
        return {name: position for name, position in found.items() if position <= self._from}

    def close(self) -> None:
        self._closed = True
        self._signal.notify()
