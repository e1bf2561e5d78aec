"""``fact_retractions``: when, why and by whom facts ended (seed §20.1.3).

``retracted_at`` is Unix milliseconds. ``cause`` separates a source's own retraction, which nodes
share, from a local decay sweep. If both happened, the source's retraction is the cause, whichever
came first.
"""

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import DecaySwept, FactRetracted
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.facts.decay import ends_facts
from engramlog.projections.tables.projector import Projector

RETRACTED_VALUE = "retracted"
"""Clients retract a whole key with this string value."""
_INSERT = """
INSERT INTO fact_retractions
    (fact_id, retracted_at, position, cause, reason, actor, marker_id)
VALUES (?,?,?,'retraction',?,?,?)
ON CONFLICT (fact_id) DO UPDATE SET cause = excluded.cause, reason = excluded.reason,
    actor = excluded.actor, marker_id = excluded.marker_id WHERE cause = 'decay'
"""
_SWEPT = """
INSERT OR IGNORE INTO fact_retractions (fact_id, retracted_at, position, cause, reason, actor)
SELECT id, ?, ?, 'decay', 'decay sweep', ? FROM fact_rows WHERE to_position = ?
"""


class FactRetractionsProjector(Projector):
    """Rows of ``fact_retractions``."""

    name = "fact_retractions"
    version = 2
    schema = """
    CREATE TABLE fact_retractions (
        fact_id TEXT PRIMARY KEY,
        retracted_at INTEGER NOT NULL,
        position INTEGER NOT NULL,
        cause TEXT NOT NULL,
        reason TEXT NOT NULL,
        actor TEXT NOT NULL,
        marker_id TEXT
    ) STRICT;
    """
    late_indexes = "CREATE INDEX fact_retractions_by_position ON fact_retractions (position);"
    kinds = frozenset({"fact_retracted", "decay_swept"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM fact_retractions WHERE fact_id IN {FACTS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        position, actor = event.position, event.header.actor
        if isinstance(payload, FactRetracted):
            at_ms = event.header.recorded_at // 1000
            rest = (at_ms, position, payload.reason, actor, payload.marker_id)
            db.executemany(_INSERT, [(fact, *rest) for fact in payload.fact_ids])
        elif isinstance(payload, DecaySwept) and ends_facts(payload):
            db.execute(_SWEPT, (payload.at_us // 1000, position, actor, position))
