"""Events of peers that are kept and chained, and mean nothing here: their content breaks a rule.

The receipt of their page says which (``PeerPageReceived.refused``) and precedes them, so
that later rules do not change the meaning of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import PeerPageReceived
from engramlog.projections.tables.database import query, query_one

Place = tuple[str, int]
"""A stream, and a sequence in it."""


class RefusedRow(Struct, frozen=True):
    """One such event."""

    stream: str
    stream_seq: int
    reason: str


def refused_places(event: Recorded) -> list[Place]:
    """What a receipt of this node refuses."""
    page = event.payload
    if not isinstance(page, PeerPageReceived) or event.peer is not None:
        return []
    return [(page.stream, each.stream_seq) for each in page.refused]


def meaning(events: Sequence[Recorded], is_refused: Callable[[Place], bool]) -> Sequence[Recorded]:
    """Events without those that a receipt refuses, be it one of ``events``.

    ``is_refused``: what the receipts before them say.
    """
    if all(event.peer is None for event in events):
        return events
    fresh: set[Place] = set()
    kept: list[Recorded] = []
    for event in events:
        if event.peer is None:
            fresh.update(refused_places(event))
        else:
            place = (event.header.stream, event.header.stream_seq)
            if place in fresh or is_refused(place):
                continue
        kept.append(event)
    return kept


def refused_in(db: apsw.Connection) -> Callable[[Place], bool]:
    """``is_refused`` of the tables."""
    if query_one(db, "SELECT 1 FROM refused_events LIMIT 1") is None:
        return lambda _: False
    sql = "SELECT 1 FROM refused_events WHERE stream=? AND stream_seq=?"
    return lambda place: query_one(db, sql, place) is not None


class RefusedPart:
    """Which events of peers mean nothing here."""

    kinds = frozenset({"peer_page_received"})

    def __init__(self) -> None:
        self.places: set[Place] = set()

    def load(self, db: apsw.Connection) -> None:
        self.places.update(query(db, "SELECT stream, stream_seq FROM refused_events"))

    def fold(self, events: Sequence[Recorded]) -> None:
        for event in events:
            self.places.update(refused_places(event))

    def forget(self, facts: Mapping[str, int]) -> None:
        """Such events stated none."""

    def state(self) -> bytes:
        return msgspec.msgpack.encode(sorted(self.places))

    def restore(self, state: bytes) -> None:
        self.places = set(msgspec.msgpack.decode(state, type=list[Place]))


def refused_of(db: apsw.Connection, node_id: str, limit: int) -> list[RefusedRow]:
    """The newest of a peer's."""
    rows = query(
        db,
        "SELECT r.stream, r.stream_seq, r.reason FROM refused_events r WHERE r.node_id=?"
        " ORDER BY r.position DESC, r.stream_seq DESC LIMIT ?",
        (node_id, limit),
    )
    return [RefusedRow(*row) for row in rows]


def count_refused(db: apsw.Connection) -> int:
    """How many there are, of all peers."""
    return int(query(db, "SELECT count(*) FROM refused_events")[0][0])
