"""``entity_edges``: one edge per ``ref`` fact, with the seed's columns and its three indexes.

An edge gets its fact's confidence in the same transaction and carries the trust in its source. A
retraction soft-deletes it with its fact, and it cannot outlive the fact (foreign key). Source: seed
§20.1.2, §20.1.3, §20.1.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    DecaySwept,
    FactAsserted,
    FactRetracted,
    KeyIssued,
    SourceTrustSet,
    TrustPolicySet,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import normalize_ref
from engramlog.projections.tables.database import query
from engramlog.projections.tables.declared.trust import TrustAt
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.facts.decay import (
    GARDENS_SWEPT,
    MAY_DECAY,
    gardens_json,
    swept_rows,
)
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.projector import Projector

_INSERT = """
INSERT INTO entity_edges (id, subject, relation, object, scope, confidence, source_trust,
    created_at, from_position, source, warrant, peer)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
"""
_END = f"""
UPDATE entity_edges SET confidence=0.0, to_position=? WHERE id=? AND to_position={LIVE}
"""
_SWEEP_CANDIDATES = f"""
SELECT edges.rowid, facts.relation, facts.scope, facts.base_confidence, edges.confidence,
    facts.recorded_at
FROM entity_edges AS edges JOIN fact_rows AS facts USING (id)
WHERE edges.to_position={LIVE} AND facts.base_confidence>0 AND edges.from_position<?1
  AND ?2 IN ('*', edges.scope)
  AND {GARDENS_SWEPT} AND {MAY_DECAY}
"""
_DECAYED = "UPDATE entity_edges SET confidence=?, decay_epoch=? WHERE rowid=?"
_TTL_END = """
UPDATE entity_edges SET confidence=0.0, decay_epoch=?, to_position=? WHERE rowid=?
"""
_OF_SOURCE = "SELECT rowid, source, warrant, peer FROM entity_edges WHERE source=?1 OR peer=?1"
_ALL = "SELECT rowid, source, warrant, peer FROM entity_edges"
_TRUST = "UPDATE entity_edges SET source_trust=? WHERE rowid=?"


class EntityEdgesProjector(Projector):
    """Rows of ``entity_edges``."""

    name = "entity_edges"
    version = 4
    schema = f"""
    CREATE TABLE entity_edges (
        id TEXT PRIMARY KEY REFERENCES fact_rows (id) ON DELETE CASCADE,
        subject TEXT NOT NULL,
        relation TEXT NOT NULL,
        object TEXT NOT NULL,
        scope TEXT NOT NULL,
        confidence REAL NOT NULL,
        source_trust REAL,
        decay_epoch INTEGER,
        created_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        source TEXT NOT NULL,
        warrant INTEGER NOT NULL,
        peer TEXT
    ) STRICT;
    """
    late_indexes = """
    CREATE INDEX idx_edges_subject ON entity_edges (subject, scope, confidence);
    CREATE INDEX idx_edges_object ON entity_edges (object, scope, confidence);
    CREATE INDEX idx_edges_subject_rel ON entity_edges (subject, relation, scope);
    CREATE INDEX idx_edges_source ON entity_edges (source);
    CREATE INDEX idx_edges_peer ON entity_edges (peer) WHERE peer IS NOT NULL;
    """
    kinds = frozenset(
        {
            "fact_asserted",
            "fact_retracted",
            "decay_swept",
            "source_trust_set",
            "key_issued",
            "trust_policy_set",
        }
    )
    reads = frozenset({"facts", "trust"})
    erasing = (f"DELETE FROM entity_edges WHERE id IN {FACTS}",)  # as the cascade does

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        pending: list[tuple[apsw.SQLiteValue, ...]] = []
        trust: TrustAt | None = None  # valid until the next event that changes trust
        for event in events:
            payload = event.payload
            if isinstance(payload, FactAsserted):
                if payload.value.type == "ref":
                    trust = trust or TrustAt(db, event.position)
                    pending.append(_row(event, payload, trust))
                continue
            if pending:
                db.executemany(_INSERT, pending)
                pending = []
            if isinstance(payload, FactRetracted):
                db.executemany(_END, [(event.position, fact) for fact in payload.fact_ids])
            elif isinstance(payload, DecaySwept):
                _sweep(event.position, payload, db)
            else:
                trust = None
                _trust(event, db)
        if pending:
            db.executemany(_INSERT, pending)


def _sweep(position: int, sweep: DecaySwept, db: apsw.Connection) -> None:
    """Decay edges as their facts decay, from the edges' own state at the event."""
    epoch_ms = sweep.at_us // 1000
    rows = query(db, _SWEEP_CANDIDATES, (position, sweep.scope, gardens_json(sweep)))
    ended, weaker = swept_rows({sweep.scope: (position, sweep)}, rows)
    # In order: each page of a table larger than the cache is then written once.
    weaker.sort(key=itemgetter(1))
    db.executemany(_DECAYED, [(confidence, epoch_ms, row) for confidence, row in weaker])
    db.executemany(_TTL_END, [(epoch_ms, position, row) for _, row in sorted(ended)])


def _trust(event: Recorded, db: apsw.Connection) -> None:
    """Update this node's trust in a source on its edges, or on all edges if the formula changes."""
    payload = event.payload
    if isinstance(payload, TrustPolicySet):
        rows = query(db, _ALL)
    else:
        assert isinstance(payload, SourceTrustSet | KeyIssued)
        source = payload.source if isinstance(payload, SourceTrustSet) else payload.entity_uri
        rows = query(db, _OF_SOURCE, (source,))
    trust = TrustAt(db, event.position)
    db.executemany(_TRUST, [(trust.of(*said), row) for row, *said in rows])


def _row(event: Recorded, fact: FactAsserted, trust: TrustAt) -> tuple[apsw.SQLiteValue, ...]:
    warrant = trust.warrant(fact, event.header.actor, event.peer)
    return (
        fact_id(event),
        fact.entity,
        fact.relation,
        normalize_ref(fact.value.v),
        fact.scope,
        fact.confidence,
        trust.of(fact.source, warrant, event.peer),
        event.header.recorded_at // 1000,
        event.position,
        fact.source,
        warrant,
        event.peer,
    )
