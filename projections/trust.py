"""``source_trust``: how far this node trusts each source, over time.

Sources without a row have trust 1: they are bound to local keys or written over loopback.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from eventlog.event import Recorded
from eventlog.kinds import SourceTrustSet
from projections.database import query
from projections.moment import LIVE


class TrustProjector:
    """Rows of ``source_trust``."""

    name = "trust"
    version = 1
    tables = ("source_trust",)
    schema = f"""
    CREATE TABLE source_trust (
        source TEXT NOT NULL,
        trust REAL NOT NULL,
        reason TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (source, from_position)
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = ""
    kinds = frozenset({"source_trust_set"})
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            change = event.payload
            assert isinstance(change, SourceTrustSet)
            db.execute(
                "UPDATE source_trust SET to_position=? WHERE source=? AND to_position=?",
                (event.position, change.source, LIVE),
            )
            db.execute(
                "INSERT INTO source_trust (source, trust, reason, from_position) VALUES (?,?,?,?)",
                (change.source, change.trust, change.reason, event.position),
            )


def load_trust(db: apsw.Connection) -> list[tuple[int, str, float]]:
    """(position, source, trust) of every change, oldest first."""
    rows = query(db, "SELECT from_position, source, trust FROM source_trust ORDER BY from_position")
    return [(position, source, trust) for position, source, trust in rows]
