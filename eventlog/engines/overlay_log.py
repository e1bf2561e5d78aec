"""The start of a log with other events after it, in memory.

Reads up to the position come from the underlying log, which is never written; appended events
vanish with this object. It answers what-if questions.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from engramlog.eventlog.chain import Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.log import EventLog, Head, StreamHead, check_limit, within


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

    # -- writing

    def holds(self, event_id: bytes) -> bool:
        return super().holds(event_id) or bool(self._base_positions([event_id]))

    def recorded(self, first: int, last: int) -> list[Recorded]:
        return self.read(first - 1, last - first + 1)

    # -- reading

    def read(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Recorded]:
        check_limit(limit)
        until = self._from
        below: list[Recorded] = []
        if after < until:
            below = [e for e in self._base.read(after, limit, streams) if e.position <= until]
        return [
            *below,
            *(each for each, _ in self._read_overlay(after, limit - len(below), streams)),
        ]

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        check_limit(limit)
        until = self._from
        below: list[Stored] = []
        if after < until:
            found = self._base.read_stored(after, limit, streams)
            below = [each for each in found if each.position <= until]
        return [
            *below,
            *(each for _, each in self._read_overlay(after, limit - len(below), streams)),
        ]

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

    def _read_overlay(self, after: int, limit: int, streams: Collection[str] | None) -> list[Link]:
        self._require_open()
        chosen = [
            link
            for link in self._links
            if link[0].position > after and (streams is None or link[0].header.stream in streams)
        ]
        return chosen[:limit]

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
