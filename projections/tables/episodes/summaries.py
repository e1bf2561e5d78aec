"""``summaries``: the summaries and the interval of each; their paragraphs are facts.

Name, owner, scope and garden identify a summary. A peer's summaries lie beside ours and end none of
ours (``voice``: the peer's origin, empty for ours).
"""

import apsw

from engramlog.eventlog.event import Recorded, fact_partition
from engramlog.eventlog.kinds import SummaryRecorded
from engramlog.projections.memories.summary_naming import TIERS
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import end_rows, insert_row

_PARAGRAPH = "INSERT OR IGNORE INTO summary_paragraphs VALUES (?,?,?)"


class SummariesProjector(Projector):
    """Rows of ``summaries`` and ``summary_paragraphs``."""

    name = "summaries"
    version = 1
    schema = f"""
    CREATE TABLE summaries (
        position INTEGER PRIMARY KEY,
        partition TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        voice TEXT NOT NULL,
        tier TEXT NOT NULL,
        period_start TEXT NOT NULL,
        removed INTEGER NOT NULL,
        modified_us INTEGER,
        size INTEGER,
        recorded_at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        hlc INTEGER NOT NULL,
        origin TEXT NOT NULL,
        stream TEXT NOT NULL,
        stream_seq INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE}
    ) STRICT;
    CREATE INDEX summaries_by_name ON summaries (partition, owner, name, voice, to_position);
    CREATE INDEX summaries_by_period ON summaries (period_start, position);
    CREATE TABLE summary_paragraphs (
        position INTEGER NOT NULL,
        number INTEGER NOT NULL,
        fact_id TEXT NOT NULL,
        PRIMARY KEY (position, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX summary_paragraphs_by_fact ON summary_paragraphs (fact_id);
    """
    kinds = frozenset({"summary_recorded"})
    erasing = (f"DELETE FROM summary_paragraphs WHERE fact_id IN {FACTS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        summary = event.payload
        assert isinstance(summary, SummaryRecorded)
        assert summary.tier in TIERS
        voice = "" if event.peer is None else event.header.origin
        partition = fact_partition(summary.scope, summary.garden_id)
        key = {"partition": partition, "owner": summary.owner, "name": summary.name}
        end_rows(db, "summaries", event, voice=voice, **key)
        insert_row(db, "summaries", event, partition=partition, voice=voice)
        db.executemany(
            _PARAGRAPH,
            [(event.position, number, fact) for number, fact in enumerate(summary.fact_ids)],
        )
