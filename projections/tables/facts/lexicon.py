"""``lexicon``: the full-text index (FTS5, porter stems) over the texts of facts.

FTS5 tokenizes and stores. Scores come from the memory image's posting lists, counted over the
caller's visible facts. So no statistic reveals unreadable facts.
"""

from collections.abc import Sequence

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.projector import Projector


def _path_of(uri: str) -> str:
    """``terms.uri_path`` in SQL."""
    rest = f"substr({uri}, instr({uri}, '://') + 3)"
    return f"""CASE WHEN instr({uri}, '://') = 0 THEN {uri}
        ELSE substr({rest}, instr({rest}, '/') + 1) END"""


_TEXT = f"""{_path_of("entity")} || ' ' || relation || ' ' || CASE value_type
    WHEN 'ref' THEN {_path_of("value_v")} WHEN 'null' THEN '' ELSE value_v END"""
_INDEX = f"""
INSERT INTO lexicon (rowid, text)
SELECT from_position, CASE
    WHEN octet_length(entity) + octet_length(relation) + octet_length(value_v)
        = length(entity) + length(relation) + length(value_v) THEN {_TEXT}
    ELSE in_pairs({_TEXT}) END
FROM fact_rows WHERE from_position BETWEEN ? AND ?
"""
"""The facts of a run, by the words of ``terms.lexical_text``. One statement leaves the interpreter
to other threads, but for texts that are not ASCII. It asks this of the columns: SQLite would make
the text again for each use."""


class LexiconProjector(Projector):
    """Rows of the FTS5 table; rowid is the fact's position."""

    name = "lexicon"
    version = 5
    schema = """
    CREATE VIRTUAL TABLE lexicon USING fts5 (
        text, content='', contentless_delete=1, detail=column,
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* M* N* Co'"
    );
    INSERT INTO lexicon (lexicon, rank) VALUES ('secure-delete', 1);
    """
    kinds = frozenset({"fact_asserted"})
    reads = frozenset({"facts"})
    erasing = (f"DELETE FROM lexicon WHERE rowid IN {POSITIONS}",)
    # A table without content only marks a deleted row, whatever secure-delete says: its words stay
    # in their segment until that is merged.
    scrubbing = ("INSERT INTO lexicon (lexicon) VALUES ('optimize')",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        db.execute(_INDEX, (events[0].position, events[-1].position))
