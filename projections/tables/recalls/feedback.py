"""Feedback on facts that recalls returned: cited in an answer, or rejected (abmind #824)."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactFeedback, MemoriesMerged
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.columns.slot_counts import Counted, SlotCounts
from engramlog.projections.tables.database import query
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.projector import Projector, SmallPart

_EVERY = "SELECT position, fact_id, cited, rejected FROM fact_feedback ORDER BY position"


class FeedbackProjector(Projector):
    """``fact_feedback``: how often each event reports a fact as cited or rejected."""

    name = "feedback"
    version = 2
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
    kinds = frozenset({"fact_feedback", "memories_merged"})
    erasing = (
        f"DELETE FROM fact_feedback WHERE fact_id IN {FACTS}",
        f"DELETE FROM fact_feedback WHERE position IN {POSITIONS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[int, str, int, int, str | None]] = []
        for event in events:
            receipt = event.payload.receipt_id if isinstance(event.payload, FactFeedback) else None
            rows += [
                (event.position, fact, cited, rejected, receipt)
                for fact, cited, rejected in _counts(event)
            ]
        if rows:
            db.executemany("INSERT INTO fact_feedback VALUES (?,?,?,?,?)", rows)


def _counts(event: Recorded) -> list[tuple[str, int, int]]:
    """(fact id, cited, rejected): each fact counts once per event, however often the event names
    it. A merged memory's feedback goes to the memory that was kept."""
    payload = event.payload
    if isinstance(payload, MemoriesMerged):
        inherited = (payload.kept_id, payload.citations, payload.rejections)
        return [inherited] if payload.citations or payload.rejections else []
    assert isinstance(payload, FactFeedback)
    cited, rejected = frozenset(payload.cited), frozenset(payload.rejected)
    return [(fact, int(fact in cited), int(fact in rejected)) for fact in sorted(cited | rejected)]


class FeedbackPart(SmallPart):
    """How often each fact was cited, and rejected."""

    kinds = FeedbackProjector.kinds

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.cited = SlotCounts()
        self.rejected = SlotCounts()

    def load(self, db: apsw.Connection) -> None:
        for position, rows in groupby(query(db, _EVERY), key=itemgetter(0)):
            self._add(position, [(fact, cited, rejected) for _, fact, cited, rejected in rows])

    def fold_event(self, event: Recorded) -> None:
        self._add(event.position, _counts(event))

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self.cited.state(), self.rejected.state()))

    def restore(self, state: bytes) -> None:
        cited, rejected = msgspec.msgpack.decode(state, type=tuple[Counted, Counted])
        self.cited.restore(cited)
        self.rejected.restore(rejected)

    def _add(self, position: int, counts: Sequence[tuple[str, int, int]]) -> None:
        slot_of = self._facts.slot_of
        known = [(slot_of[fact], *rest) for fact, *rest in counts if fact in slot_of]
        self.cited.add(position, [(slot, cited) for slot, cited, _ in known if cited])
        self.rejected.add(position, [(slot, rejected) for slot, _, rejected in known if rejected])


def outcomes_of(db: apsw.Connection, receipt_id: str) -> tuple[frozenset[str], frozenset[str]]:
    """Facts already reported as cited, and as rejected, for one recall."""
    rows = query(
        db,
        "SELECT fact_id, cited, rejected FROM fact_feedback WHERE receipt_id = ?",
        (receipt_id,),
    )
    return (
        frozenset(fact for fact, cited, _ in rows if cited),
        frozenset(fact for fact, _, rejected in rows if rejected),
    )
