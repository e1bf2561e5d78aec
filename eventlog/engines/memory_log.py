"""An event log in plain lists: the protocol without durability.

For tests, for folding a prefix of another log, and as proof that the contract does not depend on
SQLite.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

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
from engramlog.eventlog.log import Head, StreamHead, check_limit, within


class MemoryLog(AppendingLog):
    """Implements ``EventLog``; its events live as long as the object."""

    def __init__(
        self, origin: str, epoch: int, clock: Clock, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        self.clock = clock
        self.chain = Chain(origin, epoch, Head(), {}, entropy)
        self._links: list[Link] = []
        self._received: list[int] = []
        self._ids: set[bytes] = set()
        self._keys: dict[tuple[str, str], KeyUse] = {}
        self._stream_heads: dict[str, StreamHead] = {}
        self._by_stream: dict[str, list[int]] = {}
        self._head = Head()
        self._turn = WriterTurn()
        self._signal = CommitSignal(live=True)

    def begin(self) -> Transaction:
        self._turn.take()
        if self._closed:
            self._turn.give_back()
            raise LogClosed("the log is closed")
        return Transaction(self)

    def key_use(self, actor: str, key: str) -> KeyUse | None:
        return self._keys.get((actor, key))

    def holds(self, event_id: bytes) -> bool:
        return event_id in self._ids

    def recorded(self, first: int, last: int) -> list[Recorded]:
        return [recorded for recorded, _ in self._links[first - 1 : last]]

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
            self._by_stream.setdefault(header.stream, []).append(recorded.position)
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
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Recorded]:
        return [recorded for recorded, _ in self._page(after, limit, streams)]

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        return [stored for _, stored in self._page(after, limit, streams)]

    def _page(self, after: int, limit: int, streams: Collection[str] | None) -> list[Link]:
        self._require_open()
        check_limit(limit)
        head = self._head.position
        if streams is None:
            return self._links[after : min(after + limit, head)]
        page: list[Link] = []
        for link in self._links[after:head]:
            if len(page) == limit:
                break
            if link[0].header.stream in streams:
                page.append(link)
        return page

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        self._require_open()
        check_limit(limit)
        positions = self._by_stream.get(stream, [])[after_seq : after_seq + limit]
        return within([self._links[position - 1][1] for position in positions], bytes_max)

    def head(self) -> Head:
        self._require_open()
        return self._head

    def stream_heads(self) -> dict[str, StreamHead]:
        self._require_open()
        return dict(self._stream_heads)

    def position_at(self, instant_us: int) -> int:
        self._require_open()
        return bisect_right(self._received, instant_us, hi=self._head.position)

    def received_at(self, position: int) -> int:
        self._require_open()
        if position == 0:
            return 0
        if not 0 < position <= self._head.position:
            raise IndexError(f"position {position} is beyond the head {self._head.position}")
        return self._received[position - 1]

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        self._require_open()
        asked = frozenset(event_ids)
        return {
            recorded.event_id: recorded.position
            for recorded, _ in self._links
            if recorded.event_id in asked
        }

    def close(self) -> None:
        self._closed = True
        self._signal.notify()
