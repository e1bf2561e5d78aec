"""Events of peers that break a rule: kept and chained, but without meaning here.

The receipt of their page lists them (``PeerPageReceived.refused``) and precedes them, so later
rules do not change the meaning of a log. ``is_misplaced`` holds besides for what no rule could read
when it came: events of a later release than this node then ran.
"""

from collections.abc import Callable, Sequence

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Header, Recorded, fact_partition
from engramlog.eventlog.kinds import (
    REPLICATED,
    DeltaApplied,
    EpisodeRecorded,
    FactAsserted,
    PeerPageReceived,
    SummaryRecorded,
)
from engramlog.projections.tables.database import query, query_one, query_value
from engramlog.projections.tables.projector import SmallPart
from engramlog.projections.tables.struct_rows import rows_as

_OWN = frozenset({None})
Place = tuple[str, int]
"""A stream, and a sequence number in it."""


class RefusedRow(Struct, frozen=True):
    """One refused event."""

    stream: str
    stream_seq: int
    reason: str


def refused_places(event: Recorded) -> list[Place]:
    """The events that a receipt of this node refuses."""
    page = event.payload
    if not isinstance(page, PeerPageReceived) or event.peer is not None:
        return []
    return [(page.stream, each.stream_seq) for each in page.refused]


def is_misplaced(header: Header, payload: object) -> bool:
    """Whether an event is in a stream that may not hold it: of a kind that never leaves its node,
    or of another scope or garden."""
    if header.kind not in REPLICATED:
        return True
    if not isinstance(payload, FactAsserted | EpisodeRecorded | DeltaApplied | SummaryRecorded):
        return False
    return not header.stream.endswith(f"/{fact_partition(payload.scope, payload.garden_id)}")


def meaning(events: Sequence[Recorded], is_refused: Callable[[Place], bool]) -> Sequence[Recorded]:
    """Events without those of peers that are misplaced, or that a receipt refuses, including
    receipts among ``events``. ``is_refused``: the refusals of earlier receipts."""
    if {event.peer for event in events} <= _OWN:
        return events
    fresh: set[Place] = set()
    kept: list[Recorded] = []
    for event in events:
        if event.peer is None:
            fresh.update(refused_places(event))
        else:
            place = (event.header.stream, event.header.stream_seq)
            if place in fresh or is_refused(place) or is_misplaced(event.header, event.payload):
                continue
        kept.append(event)
    return kept


def refused_in(db: apsw.Connection) -> Callable[[Place], bool]:
    """``is_refused`` from the tables."""
    if query_one(db, "SELECT 1 FROM refused_events LIMIT 1") is None:
        return lambda _: False
    sql = "SELECT 1 FROM refused_events WHERE stream=? AND stream_seq=?"
    return lambda place: query_one(db, sql, place) is not None


class RefusedPart(SmallPart):
    """Which events of peers are refused."""

    kinds = frozenset({"peer_page_received"})

    def __init__(self) -> None:
        self.places: set[Place] = set()

    def load(self, db: apsw.Connection) -> None:
        self.places.update(query(db, "SELECT stream, stream_seq FROM refused_events"))

    def fold_event(self, event: Recorded) -> None:
        self.places.update(refused_places(event))

    def state(self) -> bytes:
        return msgspec.msgpack.encode(sorted(self.places))

    def restore(self, state: bytes) -> None:
        self.places = set(msgspec.msgpack.decode(state, type=list[Place]))


def refused_of(db: apsw.Connection, node_id: str, limit: int) -> list[RefusedRow]:
    """The newest refused events of a peer."""
    sql = "FROM refused_events WHERE node_id=? ORDER BY position DESC, stream_seq DESC LIMIT ?"
    return rows_as(RefusedRow, db, sql, (node_id, limit))


def count_refused(db: apsw.Connection) -> int:
    """The number of refused events of all peers."""
    return query_value(db, "SELECT count(*) FROM refused_events")
