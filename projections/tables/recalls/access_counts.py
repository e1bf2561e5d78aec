"""Access counts: how often recalls returned a fact (seed §20.3.3, §20.7)."""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import MemoriesMerged, RecallServed, RecallUse
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.columns.slot_counts import Counted, SlotCounts
from engramlog.projections.tables.database import query
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.projector import Projector, SmallPart

KEPT_MAX = 20
"""Instants kept per fact, at any moment."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int]).decode

_EVERY = "SELECT position, fact_id, count, instants FROM fact_accesses ORDER BY position"
_COUNT = """
INSERT INTO access_counts SELECT from_position, ?, ? FROM fact_rows WHERE id = ?
ON CONFLICT (from_position) DO UPDATE SET
    access_count = access_count + excluded.access_count,
    last_accessed_at = max(last_accessed_at, excluded.last_accessed_at)
"""


class AccessProjector(Projector):
    """``fact_accesses`` (history, for past moments) and ``access_counts`` (the present)."""

    name = "access"
    version = 4
    schema = """
    CREATE TABLE fact_accesses (
        position INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        count INTEGER NOT NULL,
        last_at_us INTEGER NOT NULL,
        instants TEXT NOT NULL,
        PRIMARY KEY (position, fact_id)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"recall_served", "memories_merged"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM fact_accesses WHERE fact_id IN {FACTS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        uses = _uses(event)
        db.executemany(
            "INSERT INTO fact_accesses VALUES (?,?,?,?,?)",
            [
                (event.position, fact, count, last_us, _encode(instants).decode())
                for fact, count, last_us, instants in uses
            ],
        )
        db.executemany(_COUNT, [(count, last_us // 1000, fact) for fact, count, last_us, _ in uses])


def _uses(event: Recorded) -> list[tuple[str, int, int, list[int]]]:
    """(fact, count, last time, last instants) that an event adds, in microseconds and oldest first:
    once per fact, however often the event names it. A merged memory's uses go to the memory that
    was kept. Without instants, its last recall is unchanged."""
    payload = event.payload
    if isinstance(payload, MemoriesMerged):
        instants = list(payload.instants_us)
        inherited = (payload.kept_id, payload.recalls, max(instants, default=0), instants)
        return [inherited] if payload.recalls else []
    assert isinstance(payload, RecallServed)
    by_fact: dict[str, list[RecallUse]] = {}
    for use in payload.uses:
        by_fact.setdefault(use.fact_id, []).append(use)
    return [
        (
            fact,
            sum(use.count for use in uses),
            max(use.last_at_us for use in uses),
            sorted(at for use in uses for at in (*use.earlier_us, use.last_at_us))[-KEPT_MAX:],
        )
        for fact, uses in by_fact.items()
    ]


TimesKept = tuple[bytes, bytes, dict[int, bytes]]
"""Positions and instants (int64), and by slot their places (int32 without a sign)."""


class AccessPart(SmallPart):
    """How often, and when last, recalls returned each fact."""

    kinds = AccessProjector.kinds

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.counts = SlotCounts()
        self.times = RecallTimes()

    def load(self, db: apsw.Connection) -> None:
        for position, rows in groupby(query(db, _EVERY), key=itemgetter(0)):
            self._add(position, [(fact, count, _decode(text)) for _, fact, count, text in rows])

    def fold_event(self, event: Recorded) -> None:
        self._add(event.position, [(fact, n, times) for fact, n, _, times in _uses(event)])

    def forget(self, facts: Mapping[str, int]) -> None:
        for slot in facts.values():
            self.times.drop(slot)

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self.counts.state(), self.times.state()))

    def restore(self, state: bytes) -> None:
        counts, times = msgspec.msgpack.decode(state, type=tuple[Counted, TimesKept])
        self.counts.restore(counts)
        self.times.restore(times)

    def _add(self, position: int, uses: Sequence[tuple[str, int, list[int]]]) -> None:
        counts: list[tuple[int, int]] = []
        for fact, count, instants in uses:
            slot = self._facts.slot_of.get(fact)
            if slot is not None:
                counts.append((slot, count))
                self.times.add(position, slot, instants)
        self.counts.add(position, counts)


class RecallTimes:
    """The instants by slot, in the order of the log. The facts of one recall share its instant."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._instants = array("q")
        self._by_slot: dict[int, array[int]] = {}
        """Places in both arrays."""
        self._latest: tuple[int, dict[int, int]] = (0, {})
        """The last event's position, and the places of its instants."""

    def add(self, position: int, slot: int, instants: Sequence[int]) -> None:
        """Add one event's instants of a slot."""
        if self._latest[0] != position:
            self._latest = (position, {})
        known = self._latest[1]
        for instant in instants:
            if instant not in known:
                known[instant] = len(self._positions)
                self._instants.append(instant)
                self._positions.append(position)
        places = self._by_slot.setdefault(slot, array("I"))
        places.extend([known[instant] for instant in instants])  # last: readers begin here

    def state(self) -> TimesKept:
        """Everything, for ``restore``."""
        slots = {slot: places.tobytes() for slot, places in self._by_slot.items()}
        return self._positions.tobytes(), self._instants.tobytes(), slots

    def restore(self, kept: TimesKept) -> None:
        """The opposite of ``state``."""
        positions, instants, slots = kept
        self._positions, self._instants = array("q", positions), array("q", instants)
        self._by_slot = {slot: array("I", places) for slot, places in slots.items()}
        self._latest = (0, {})

    def drop(self, slot: int) -> None:
        """Forget an erased fact."""
        self._by_slot.pop(slot, None)

    def at(self, slot: int, position: int) -> tuple[int, ...]:
        """The last instants known at a position, oldest first."""
        places = self._by_slot.get(slot)
        if places is None:
            return ()
        count = bisect_right(places, position, key=self._positions.__getitem__)
        return tuple(sorted(self._instants[at] for at in places[max(0, count - KEPT_MAX) : count]))
