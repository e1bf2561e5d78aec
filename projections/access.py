"""Access counts: how often recalls returned a fact (seed §20.3.3, §20.7)."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from eventlog.event import Recorded
from eventlog.kinds import MemoriesMerged, RecallServed, RecallUse
from projections.database import query
from projections.erasing import FACTS
from projections.recall_times import instants_of

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int]).decode

_COUNT = """
UPDATE facts SET access_count = access_count + ?,
    last_accessed_at = max(coalesce(last_accessed_at, 0), ?)
WHERE id = ?
"""


class AccessProjector:
    """``fact_accesses`` (history, for past moments) and the counters on ``facts``."""

    name = "access"
    version = 3
    tables = ("fact_accesses",)
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
    late_indexes = ""
    kinds = frozenset({"recall_served", "memories_merged"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM fact_accesses WHERE fact_id IN {FACTS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            payload = event.payload
            rows: list[tuple[int, str, int, int, str]] = []
            if isinstance(payload, RecallServed):
                rows = _rows(event, payload)
            elif isinstance(payload, MemoriesMerged) and payload.recalls:
                rows = [_inherited(event, payload)]
            db.executemany("INSERT INTO fact_accesses VALUES (?,?,?,?,?)", rows)
            db.executemany(
                _COUNT, [(count, last_us // 1000, fact) for _, fact, count, last_us, _ in rows]
            )


def _inherited(event: Recorded, merged: MemoriesMerged) -> tuple[int, str, int, int, str]:
    """What the kept memory takes over: without instants it was last recalled when it was."""
    instants = merged.instants_us
    text = _encode(instants).decode()
    return event.position, merged.kept_id, merged.recalls, max(instants, default=0), text


def _rows(event: Recorded, served: RecallServed) -> list[tuple[int, str, int, int, str]]:
    """A row a fact, however often the event names it; its instants as JSON."""
    by_fact: dict[str, list[RecallUse]] = {}
    for use in served.uses:
        by_fact.setdefault(use.fact_id, []).append(use)
    return [
        (
            event.position,
            fact,
            sum(use.count for use in uses),
            max(use.last_at_us for use in uses),
            _encode(instants_of(uses)).decode(),
        )
        for fact, uses in by_fact.items()
    ]


def load_accesses(db: apsw.Connection) -> list[tuple[int, str, int, list[int]]]:
    """(position, fact id, count, instants) of every recorded use, oldest first."""
    rows = query(
        db, "SELECT position, fact_id, count, instants FROM fact_accesses ORDER BY position"
    )
    return [(position, fact, count, _decode(text)) for position, fact, count, text in rows]
