"""Positions of the receipts of recalls.

Only the log holds the receipt itself and its question, so erasing the event erases both. A log may
hold a receipt twice, written again before the first was acknowledged: an erasure must find both.
Readers see the first.
"""

from collections.abc import Sequence

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import RecallAnswered
from engramlog.projections.tables.database import query_column, query_value
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.projector import Projector


class RecallReceiptsProjector(Projector):
    """``recall_receipts``: the principal and position of each receipt."""

    name = "recall_receipts"
    version = 2
    schema = """
    CREATE TABLE recall_receipts (
        receipt_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        principal TEXT NOT NULL,
        at_us INTEGER NOT NULL,
        PRIMARY KEY (receipt_id, position)
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = """
    CREATE INDEX recall_receipts_by_principal ON recall_receipts (principal, position);
    CREATE INDEX recall_receipts_by_position ON recall_receipts (position);
    """
    kinds = frozenset({"recall_answered"})
    erasing = (f"DELETE FROM recall_receipts WHERE position IN {POSITIONS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows = [
            (receipt.receipt_id, event.position, receipt.principal, receipt.at_us)
            for event in events
            if isinstance(receipt := event.payload, RecallAnswered)
        ]
        db.executemany("INSERT INTO recall_receipts VALUES (?,?,?,?)", rows)


_FIND = "SELECT position FROM recall_receipts WHERE receipt_id=? ORDER BY position LIMIT 1"
_FIRST = """
NOT EXISTS (SELECT 1 FROM recall_receipts AS earlier
            WHERE earlier.receipt_id = here.receipt_id AND earlier.position < here.position)
"""


def find_receipt(db: apsw.Connection, receipt_id: str) -> int | None:
    """The receipt's position, readable or not."""
    return query_value(db, _FIND, (receipt_id,))


def list_receipts(db: apsw.Connection, principal: str | None, before: int, limit: int) -> list[int]:
    """Positions of receipts before a position, newest first; of one principal, or of all."""
    whose = "" if principal is None else "principal = ? AND"
    given = () if principal is None else (principal,)
    return query_column(
        db,
        f"SELECT position FROM recall_receipts AS here WHERE {whose} position < ? AND {_FIRST}"
        " ORDER BY position DESC LIMIT ?",
        (*given, before, limit),
    )


def receipt_positions(db: apsw.Connection) -> list[int]:
    """Of all, repeated ones too."""
    return query_column(db, "SELECT position FROM recall_receipts ORDER BY position")
