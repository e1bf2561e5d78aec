"""Access counts: how often recalls returned a fact (seed §20.3.3, §20.7)."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from eventlog.event import Recorded
from eventlog.kinds import RecallServed
from projections.database import query
from projections.erasing import FACTS

_USED = """
INSERT INTO fact_accesses VALUES (?,?,?,?)
ON CONFLICT DO UPDATE SET count = count + excluded.count,
    last_at_us = max(last_at_us, excluded.last_at_us)
"""
_COUNT = """
UPDATE facts SET access_count = access_count + ?,
    last_accessed_at = max(coalesce(last_accessed_at, 0), ?)
WHERE id = ?
"""


class AccessProjector:
    """``fact_accesses`` (history, for past moments) and the counters on ``facts``."""

    name = "access"
    version = 1
    tables = ("fact_accesses",)
    schema = """
    CREATE TABLE fact_accesses (
        position INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        count INTEGER NOT NULL,
        last_at_us INTEGER NOT NULL,
        PRIMARY KEY (position, fact_id)
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = ""
    kinds = frozenset({"recall_served"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM fact_accesses WHERE fact_id IN {FACTS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            served = event.payload
            assert isinstance(served, RecallServed)
            db.executemany(
                _USED,
                [(event.position, use.fact_id, use.count, use.last_at_us) for use in served.uses],
            )
            db.executemany(
                _COUNT,
                [(use.count, use.last_at_us // 1000, use.fact_id) for use in served.uses],
            )


def load_accesses(db: apsw.Connection) -> list[tuple[int, str, int]]:
    """(position, fact id, count) of every recorded use, oldest first."""
    rows = query(db, "SELECT position, fact_id, count FROM fact_accesses ORDER BY position")
    return [(position, fact, count) for position, fact, count in rows]
