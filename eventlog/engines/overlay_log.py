"""The start of a log with other events after it, in memory.

Reads up to the position come from the underlying log, which is never written; appended events
vanish with this object. It answers what-if questions.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from engramlog.eventlog.chain import Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.log import EventLog, Head, StreamHead, check_limit, within

Event = TypeVar("Event", Recorded, Stored)


class OverlayLog(MemoryLog):
    """A log over the start of another.

    Args:
        base: the underlying log.
        head: the position of ``base`` from which this log continues.
        streams: the state of every stream there.
    """

    def __init__(
        self, base: EventLog, head: Head, streams: Mapping[str, StreamHead], clock: Clock
    ) -> None:
        super().__init__(base.origin, base.epoch, clock)
        self.chain = Chain(base.origin, base.epoch, head, streams)
        self.held = base.held
        self._base = base
        self._from = head.position
        self._head = head
        self._stream_heads = dict(streams)

    def holds(self, event_id: bytes) -> bool:
        return super().holds(event_id) or bool(self._base_positions([event_id]))

    def recorded(self, first: int, last: int) -> list[Recorded]:
        return self.read(first - 1, last - first + 1)

    def read(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Recorded]:
        own = [each for each, _ in self._own(after, streams)]
        return self._joined(self._base.read, own, after, limit, streams)

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        own = [each for _, each in self._own(after, streams)]
        return self._joined(self._base.read_stored, own, after, limit, streams)

    def _joined(
        self,
        read: Callable[[int, int, Collection[str] | None], list[Event]],
        own: list[Event],
        after: int,
        limit: int,
        streams: Collection[str] | None,
    ) -> list[Event]:
        """The events of the log below, as far as this one includes it, then its own."""
        check_limit(limit)
        found = read(after, limit, streams) if after < self._from else []
        return [*(each for each in found if each.position <= self._from), *own][:limit]

    def read_stream(
        self, stream: str, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Stored]:
        check_limit(limit)
        found = self._base.read_stream(stream, after_seq, limit)
        below = [each for each in found if each.position <= self._from]
        mine = [
            stored
            for recorded, stored in self._links
            if recorded.header.stream == stream and recorded.header.stream_seq > after_seq
        ]
        return within([*below, *mine][:limit], bytes_max)

    def _own(self, after: int, streams: Collection[str] | None) -> list[Link]:
        self._require_open()
        return [
            link
            for link in self._links
            if link[0].position > after and (streams is None or link[0].header.stream in streams)
        ]

    def position_at(self, instant_us: int) -> int:
        mine = bisect_right(self._received, instant_us)
        if mine:
            return self._from + mine
        return min(self._base.position_at(instant_us), self._from)

    def received_at(self, position: int) -> int:
        if position <= self._from:
            return self._base.received_at(position)
        if position > self._head.position:
            raise IndexError(f"position {position} is beyond the head {self._head.position}")
        return self._received[position - self._from - 1]

    def positions_of(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        return super().positions_of(event_ids) | self._base_positions(event_ids)

    def _base_positions(self, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        found = self._base.positions_of(event_ids)
        return {name: position for name, position in found.items() if position <= self._from}
