"""``lexicon``: the full-text index (FTS5, porter stems) over the texts of facts.

FTS5 tokenizes and stores. Scores come from the memory image's posting lists, counted over the
caller's visible facts. So no statistic reveals unreadable facts.
"""

from collections.abc import Sequence

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.text.terms import lexical_text


class LexiconProjector(Projector):
    """Rows of the FTS5 table; rowid is the fact's position."""

    name = "lexicon"
    version = 2
    tables = ()
    schema = """
    CREATE VIRTUAL TABLE lexicon USING fts5 (
        text, content='', contentless_delete=1, detail=column,
        tokenize='porter unicode61 remove_diacritics 2'
    );
    INSERT INTO lexicon (lexicon, rank) VALUES ('secure-delete', 1);
    """
    kinds = frozenset({"fact_asserted"})
    erasing = (f"DELETE FROM lexicon WHERE rowid IN {POSITIONS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[int, str]] = []
        for event in events:
            fact = event.payload
            assert isinstance(fact, FactAsserted)
            text = lexical_text(fact.entity, fact.relation, fact.value.type, fact.value.v)
            rows.append((event.position, text))
        db.executemany("INSERT INTO lexicon (rowid, text) VALUES (?,?)", rows)
