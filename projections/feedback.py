"""What became of facts that recalls returned: cited in an answer, or rejected (abmind #824)."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from eventlog.event import Recorded
from eventlog.kinds import FactFeedback, MemoriesMerged
from projections.database import query
from projections.erasing import FACTS, POSITIONS


class FeedbackProjector:
    """``fact_feedback``: how often each event says that a fact was cited, and rejected."""

    name = "feedback"
    version = 2
    tables = ("fact_feedback",)
    schema = """
    CREATE TABLE fact_feedback (
        position INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        cited INTEGER NOT NULL,
        rejected INTEGER NOT NULL,
        receipt_id TEXT,
        PRIMARY KEY (position, fact_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fact_feedback_by_fact ON fact_feedback (fact_id);
    CREATE INDEX fact_feedback_by_receipt ON fact_feedback (receipt_id);
    """
    late_indexes = ""
    kinds = frozenset({"fact_feedback", "memories_merged"})
    reads: frozenset[str] = frozenset()
    erasing = (
        f"DELETE FROM fact_feedback WHERE fact_id IN {FACTS}",
        f"DELETE FROM fact_feedback WHERE position IN {POSITIONS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[int, str, int, int, str | None]] = []
        for event in events:
            payload = event.payload
            if isinstance(payload, FactFeedback):
                rows += [
                    (event.position, fact, cited, rejected, payload.receipt_id)
                    for fact, cited, rejected in counts_of(payload)
                ]
            elif isinstance(payload, MemoriesMerged) and (payload.citations or payload.rejections):
                counts = (payload.citations, payload.rejections)
                rows.append((event.position, payload.kept_id, *counts, None))
        if rows:
            db.executemany("INSERT INTO fact_feedback VALUES (?,?,?,?,?)", rows)


def counts_of(feedback: FactFeedback) -> list[tuple[str, int, int]]:
    """(fact id, cited, rejected): each fact counts once an event, however often it is named."""
    cited, rejected = frozenset(feedback.cited), frozenset(feedback.rejected)
    return [(fact, int(fact in cited), int(fact in rejected)) for fact in sorted(cited | rejected)]


def load_feedback(db: apsw.Connection) -> list[tuple[int, str, int, int]]:
    """(position, fact id, cited, rejected) of all feedback, oldest first."""
    rows = query(
        db, "SELECT position, fact_id, cited, rejected FROM fact_feedback ORDER BY position"
    )
    return [(position, fact, cited, rejected) for position, fact, cited, rejected in rows]


def told_of(db: apsw.Connection, receipt_id: str) -> tuple[frozenset[str], frozenset[str]]:
    """Facts that were already cited, and rejected, on account of one recall."""
    rows = query(
        db,
        "SELECT fact_id, cited, rejected FROM fact_feedback WHERE receipt_id = ?",
        (receipt_id,),
    )
    return (
        frozenset(fact for fact, cited, _ in rows if cited),
        frozenset(fact for fact, _, rejected in rows if rejected),
    )
