"""The log for a reader: events newest first, one event with its links and causes, and the log's
pace.

The journal decides what a caller may know of an event. Callers without ``audit.read`` see only
events about facts that they may read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import Struct, structs

from engramlog.eventlog.chain import link_fault
from engramlog.eventlog.codec import decode
from engramlog.eventlog.event import Recorded, Stored
from engramlog.eventlog.log import EventLog, StreamHead, read_at
from engramlog.projections.archive.duck import cursor, literal
from engramlog.projections.arrays import I64
from engramlog.projections.audit.journal import SCANNED_MAX, Journal, JournalEntry

_PLACES = """
SELECT position FROM read_parquet([{files}]) WHERE position < $before AND {wanted}
ORDER BY position DESC LIMIT {limit}
"""
_WANTED = {
    "kind": "kind = $kind",
    "actor": "actor = $actor",
    "peer": "peer = $peer",
    "stream": "ends_with(stream, $stream)",
}
_READ_EVENTS = 1_000
_READ_CHOSEN = 200
CAUSES_MAX = 32
"""Most events in a chain of causes; a longer one ends there."""
FOLLOWING_READ = 64
"""Events read at once to find what one caused."""
CONSEQUENCES_MAX = 200


class LogFilter(Struct, frozen=True, kw_only=True):
    """Which events. ``stream`` is a name or its end, as in ``scope/public``. ``positions``: only
    events at these, ascending, if an index knows them."""

    kind: str | None = None
    stream: str | None = None
    actor: str | None = None
    peer: str | None = None
    positions: I64 | None = None

    @property
    def by_header(self) -> dict[str, str]:
        return {name: each for name in _WANTED if (each := getattr(self, name)) is not None}

    def keeps(self, event: Recorded) -> bool:
        return (
            (self.kind is None or event.kind == self.kind)
            and (self.stream is None or event.header.stream.endswith(self.stream))
            and (self.actor is None or event.header.actor == self.actor)
            and (self.peer is None or event.peer == self.peer)
        )


def placed(sources: Sequence[Path], asked: LogFilter, before: int) -> LogFilter:
    """``asked`` with the positions of matching events, from the archive, so that the others are not
    read: the newest below ``before``, one more than a page reads."""
    statement = _PLACES.format(
        files=", ".join(literal(str(path)) for path in sources),
        wanted=" AND ".join(_WANTED[name] for name in asked.by_header),
        limit=SCANNED_MAX + 1,
    )
    with cursor() as db:
        rows = db.execute(statement, {**asked.by_header, "before": before}).fetchall()
    places = np.array([row[0] for row in rows[::-1]], dtype=np.int64)
    return structs.replace(asked, positions=places)


class VisibleEvents(Protocol):
    """A log, and what a caller may know of its events."""

    log: EventLog

    def entry(self, event: Recorded) -> JournalEntry | None:
        """The visible part of an event; None if nothing is visible."""
        ...


class Chains:
    """Events as one caller may know of them, what led to them and what followed. A chain ends at
    the first event that the caller may not know of, as if the log did not have it. ``audits``:
    whether the caller may see events that concern no fact."""

    def __init__(self, journal: Journal, *, audits: bool) -> None:
        self.log = journal.log
        self._journal = journal
        self._audits = audits
        self._found: dict[bytes, JournalEntry | None] = {}

    def entry(self, event: Recorded) -> JournalEntry | None:
        """The visible part of an event; None if the caller may not know of it."""
        entry = self._journal.entry(event)
        if entry is not None and not (self._audits or entry.fact_ids):
            entry = None
        self._found[event.event_id] = entry
        return entry

    def known(self, event_id: bytes | None) -> JournalEntry | None:
        """The event of an id; None if the log has none, or none that the caller may know of."""
        if event_id is not None and event_id not in self._found:
            position = self.log.positions_of([event_id]).get(event_id)
            events = [] if position is None else self.log.read(position - 1, 1)
            self._found[event_id] = self.entry(events[0]) if events else None
        return None if event_id is None else self._found[event_id]

    def causes(self, event: Recorded) -> list[JournalEntry]:
        """The event's cause, the cause of that, and so on, the first cause first."""
        path: list[JournalEntry] = []
        cause = self.known(event.header.causation_id)
        while cause is not None and len(path) < CAUSES_MAX:
            if cause in path or cause.event.event_id == event.event_id:
                break  # a peer's events may lead in a circle
            path.append(cause)
            cause = self.known(cause.event.header.causation_id)
        return path[::-1]

    def consequences(self, event: Recorded) -> list[JournalEntry]:
        """The events that this one caused, and those that they caused, in log order; at most
        ``CONSEQUENCES_MAX``. A command's events follow each other, so reading ends with the first
        ``FOLLOWING_READ`` events of which none belongs to them."""
        caused = {event.event_id}
        found: list[JournalEntry] = []
        position, counted = event.position, -1
        while counted < len(found) < CONSEQUENCES_MAX:
            counted = len(found)
            for each in self.log.read(position, FOLLOWING_READ):
                position = each.position
                entry = self.entry(each) if each.header.causation_id in caused else None
                if entry is not None:
                    caused.add(each.event_id)
                    found.append(entry)
        return found[:CONSEQUENCES_MAX]


class EventPage(Struct, frozen=True):
    """Entries, newest first; ``reached``: continue before this position, None at the start of the
    log."""

    entries: list[JournalEntry]
    reached: int | None


def newest_first(visible: VisibleEvents, asked: LogFilter, before: int, limit: int) -> EventPage:
    """Events at positions below ``before``. One page reads at most ``SCANNED_MAX`` events."""
    entries: list[JournalEntry] = []
    reached = before
    for events in _runs_before(visible.log, asked, before, limit):
        for event in reversed(events):
            reached = event.position
            entry = visible.entry(event) if asked.keeps(event) else None
            if entry is not None:
                entries.append(entry)
                if len(entries) == limit:
                    return EventPage(entries, reached if reached > 1 else None)
    more = reached > 1 if asked.positions is None else _has_more(asked.positions, reached)
    return EventPage(entries, reached if more else None)


def _has_more(positions: I64, reached: int) -> bool:
    return bool(len(positions)) and int(positions[0]) < reached


def _runs_before(
    log: EventLog, asked: LogFilter, before: int, limit: int
) -> Iterator[Sequence[Recorded]]:
    """Runs of events below ``before``, the newest run first: of ``limit``, then longer ones."""
    if asked.positions is not None:
        chosen = asked.positions[asked.positions < before][-SCANNED_MAX:]
        size = min(limit, _READ_CHOSEN)
        for end in range(len(chosen), 0, -size):
            yield list(read_at(log, chosen[max(0, end - size) : end].tolist()))
        return
    end = before - 1
    floor = max(0, end - SCANNED_MAX)
    size = min(limit, _READ_EVENTS)
    while end > floor:
        begin = max(floor, end - size)
        yield log.read(begin, end - begin)
        end, size = begin, min(2 * size, _READ_EVENTS)


class Linked(Struct, frozen=True):
    """An event in its stream: the positions around it, and the fault in the chain here, if any."""

    stored: Stored
    recorded: Recorded
    previous: int | None
    next: int | None
    fault: str | None


def linked(log: EventLog, position: int) -> Linked | None:
    """An event with its hashes recomputed from the log's bytes. None if it does not exist."""
    found = log.read_stored(position - 1, 1)
    if not found or found[0].position != position:
        return None
    stored = found[0]
    recorded = decode(stored)
    header = recorded.header
    around = log.read_stream(header.stream, max(0, header.stream_seq - 2), 3)
    before = StreamHead(header.stream, 0, bytes(32))
    previous = following = None
    for each in around:
        sequence = decode(each).header.stream_seq
        if sequence == header.stream_seq - 1:
            previous, before = each.position, StreamHead(header.stream, sequence, each.hash)
        elif sequence == header.stream_seq + 1:
            following = each.position
    fault = link_fault(before, stored, header, erasable=True)
    return Linked(stored, recorded, previous, following, fault)


def timeline(log: EventLog, buckets: int) -> tuple[list[int], list[int]]:
    """Instants (microseconds) at even steps over the log, and the last position at each."""
    head = log.head().position
    if head == 0:
        return [], []
    first, last = log.received_at(1), log.received_at(head)
    instants = np.linspace(first, last, buckets + 1).astype(np.int64).tolist()
    positions = [log.position_at(instant) for instant in instants]
    instants[-1], positions[-1] = last, head
    return instants, positions
