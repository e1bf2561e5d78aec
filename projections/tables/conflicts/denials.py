"""``denials``: which facts another source denied, by which record, and how each denial ended.

A node denies by its own records, or by those that it took from a node without a log: a peer cannot
make another's record deny more than it says. A denial ends no fact. It may name facts that have not
arrived yet and then waits for them; it also outlives its fact's erasure, since it may arrive after
that on another node. Whether a denial is open depends on the facts at a Moment (``open_denials``
here and in the memory image): its target and its record are live, and the target's source
has not restated the value since. Source: wire 5.2.
"""

from collections.abc import Mapping

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ConflictResolved, FactAsserted, FactDenied
from engramlog.projections.columns.denied_facts import DeniedFacts, DeniedState
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.conflicts.identities import conflict_id
from engramlog.projections.tables.database import query
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.peers.protocol_facts import FOREIGN_PARTITION
from engramlog.projections.tables.projector import Projector, SmallPart

_ADD = """
INSERT OR IGNORE INTO denials (conflict_id, fact_id, marker_id, detected_at, position)
VALUES (?,?,?,?,?)
"""
_RESOLVE = """
UPDATE denials SET resolved_position=?, winner_id=?, resolution_fact_id=?, note=?, resolved_by=?
WHERE conflict_id=? AND resolved_position IS NULL
"""
_STANDING = f"""
SELECT marker.id, marker.source, marker.received_from, marker.hlc FROM denials
JOIN fact_rows AS target ON target.id = denials.fact_id
JOIN fact_rows AS marker ON marker.id = denials.marker_id
WHERE denials.fact_id = ?
  AND target.to_position = {LIVE} AND target.set_aside = {LIVE}
  AND marker.to_position = {LIVE} AND marker.set_aside = {LIVE} AND marker.base_confidence = 0
  AND marker.entity = target.entity AND marker.relation = target.relation
  AND marker.scope = target.scope AND marker.garden_id IS target.garden_id
ORDER BY denials.position
"""
_RESTATED = """
SELECT again.source, again.received_from, max(again.hlc) FROM fact_rows AS target
JOIN fact_rows AS again ON again.entity = target.entity AND again.relation = target.relation
  AND again.scope = target.scope AND again.garden_id IS target.garden_id
WHERE target.id = ? AND again.base_confidence > 0
  AND again.value_type = target.value_type AND again.value_v = target.value_v
GROUP BY again.source, again.received_from
"""
_MAY_DENY = f"""
SELECT 1 FROM fact_rows
WHERE id=? AND from_position<? AND (origin=? OR stream = origin || '/{FOREIGN_PARTITION}')
"""


class DenialsProjector(Projector):
    """Rows of ``denials``."""

    name = "denials"
    version = 4
    schema = """
    CREATE TABLE denials (
        conflict_id TEXT PRIMARY KEY,
        fact_id TEXT NOT NULL,
        marker_id TEXT NOT NULL,
        detected_at INTEGER NOT NULL,
        position INTEGER NOT NULL,
        resolved_position INTEGER,
        winner_id TEXT,
        resolution_fact_id TEXT,
        note TEXT,
        resolved_by TEXT
    ) STRICT;
    CREATE INDEX denials_by_fact ON denials (fact_id);
    CREATE INDEX denials_by_marker ON denials (marker_id);
    """
    late_indexes = """
    CREATE INDEX denials_by_position ON denials (position, conflict_id);
    CREATE INDEX denials_settled ON denials (position, conflict_id)
        WHERE resolved_position IS NOT NULL;
    """
    kinds = frozenset({"fact_denied", "conflict_resolved"})
    reads = frozenset({"facts"})
    erasing = (
        f"DELETE FROM denials WHERE marker_id IN {FACTS} OR position IN {POSITIONS}",
        "UPDATE denials SET resolved_position=NULL, winner_id=NULL, resolution_fact_id=NULL,"
        f" note=NULL, resolved_by=NULL WHERE resolved_position IN {POSITIONS}",
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, FactDenied):
            asked = (payload.marker_id, event.position, event.header.origin)
            if event.peer is None or query(db, _MAY_DENY, asked):
                _deny(event, payload, db)
        else:
            assert isinstance(payload, ConflictResolved)
            resolved = (event.position, payload.winner_id, payload.resolution_fact_id,
                        payload.note, event.header.actor, payload.conflict_id)  # fmt: skip
            db.execute(_RESOLVE, resolved)


def _deny(event: Recorded, denied: FactDenied, db: apsw.Connection) -> None:
    marker, at, position = denied.marker_id, event.received_at, event.position
    db.executemany(
        _ADD,
        [(conflict_id(marker, fact), fact, marker, at, position) for fact in denied.fact_ids],
    )


def open_denials(db: apsw.Connection, fact: str) -> list[str]:
    """The records whose denial of a fact is open, oldest first."""
    standing = query(db, _STANDING, (fact,))
    if not standing:
        return []
    rows = query(db, _RESTATED, (fact,))
    restated = {(source, peer): hlc for source, peer, hlc in rows}
    return [
        marker for marker, source, peer, hlc in standing if restated.get((source, peer), hlc) <= hlc
    ]


def is_denial(db: apsw.Connection, fact: str) -> bool:
    return bool(query(db, "SELECT 1 FROM denials WHERE marker_id=? LIMIT 1", (fact,)))


_EVERY = "SELECT position, fact_id, marker_id FROM denials ORDER BY position, fact_id"
_WRAPPED = """
SELECT DISTINCT fact_id FROM foreign_facts JOIN fact_rows ON id = fact_id WHERE base_confidence = 0
"""

_decode_state = msgspec.msgpack.Decoder(
    tuple[DeniedState, dict[str, list[tuple[int, str, str]]], set[str]]
).decode


class DenialsPart(SmallPart):
    """The denied facts and the records that deny them. A denial waits for facts still to come."""

    kinds = frozenset({"fact_asserted", "fact_denied"})

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.denied = DeniedFacts()
        """Readers hold it: an erasure makes another."""
        self._waiting: dict[str, list[tuple[int, str, str]]] = {}
        self._wrapped: set[str] = set()
        """Records of confidence 0 of nodes without a log, by id."""

    def __bool__(self) -> bool:
        return bool(self.denied)

    def load(self, db: apsw.Connection) -> None:
        self._wrapped = {str(row[0]) for row in query(db, _WRAPPED)}
        for position, fact, marker in query(db, _EVERY):
            self._add(position, fact, marker)

    def fold_event(self, event: Recorded) -> None:
        payload = event.payload
        if isinstance(payload, FactDenied):
            if event.peer is None or self._may_deny(event.header.origin, payload.marker_id):
                for fact in payload.fact_ids:
                    self._add(event.position, fact, payload.marker_id)
            return
        assert isinstance(payload, FactAsserted)
        if payload.foreign is not None and payload.confidence == 0.0:
            self._wrapped.add(fact_id(event))
        if self._waiting:
            for waiting in self._waiting.pop(fact_id(event), ()):
                self._add(*waiting)

    def _may_deny(self, origin: str, marker: str) -> bool:
        """Whether a node may deny by a record: its own, or one of a node without a log."""
        slot = self._facts.slot_of.get(marker)
        if slot is None:
            return False
        stated_on = self._facts.origins.text(int(self._facts.arrays["origin"][slot]))
        return stated_on == origin or marker in self._wrapped

    def forget(self, facts: Mapping[str, int]) -> None:
        self._wrapped.difference_update(facts)
        gone = frozenset(facts.values())
        if self.denied.names(gone):
            self.denied = self.denied.without(gone)

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self.denied.state(), self._waiting, self._wrapped))

    def restore(self, state: bytes) -> None:
        denied, self._waiting, self._wrapped = _decode_state(state)
        self.denied = DeniedFacts.of(denied)

    def _add(self, position: int, fact: str, marker: str) -> None:
        slot_of, arrays = self._facts.slot_of, self._facts.arrays
        for name in (fact, marker):
            if name not in slot_of:
                self._waiting.setdefault(name, []).append((position, fact, marker))
                return
        record = slot_of[marker]
        says = int(arrays["key"][record]), int(arrays["value"][record])
        self.denied.add(slot_of[fact], record, says, position)
