"""``lexicon``: the full-text index (FTS5, porter stems) over what a fact says.

FTS5 tokenizes and stores; scores come from the mirror's posting lists, counted over what
the caller may see at the moment asked, so nothing unreadable leaks through a statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import apsw

from eventlog.event import Recorded
from eventlog.kinds import FactAsserted
from projections.database import TOKENIZER
from projections.erasing import POSITIONS


def lexical_text(entity: str, relation: str, value_type: str, value_v: str) -> str:
    """The text of a fact that is searched: entity path, relation label and value.

    URIs lose scheme and authority, which all facts of a node share; the tokenizer splits
    at every other punctuation mark by itself.
    """
    named = f"{uri_path(entity)} {relation}"
    said = said_text(value_type, value_v)
    return f"{named} {said}" if said else named


def said_text(value_type: str, value_v: str) -> str:
    """What of that is the value."""
    if value_type == "ref":
        return uri_path(value_v)
    return "" if value_type == "null" else value_v


def uri_path(uri: str) -> str:
    """What follows the authority of a URI; the whole of it where there is none."""
    scheme_end = uri.find("://")
    if scheme_end < 0:
        return uri
    path_start = uri.find("/", scheme_end + 3)
    return uri[scheme_end + 3 :] if path_start < 0 else uri[path_start + 1 :]


def open_tokenizer() -> Callable[[str], list[str]]:
    """FTS5's own tokenizer as a function from text to terms.

    Each call opens its own in-memory connection, so use one tokenizer a thread.
    """
    name, arguments = TOKENIZER
    db = apsw.Connection(":memory:")
    cut = db.fts5_tokenizer(name, arguments)
    reason = apsw.FTS5_TOKENIZE_DOCUMENT

    def tokenize(text: str) -> list[str]:
        terms = cut(text.encode(), reason, None, include_offsets=False, include_colocated=False)
        return cast("list[str]", terms)  # plain terms, as neither option is asked for

    return tokenize


class LexiconProjector:
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
    late_indexes = ""
    kinds = frozenset({"fact_asserted"})
    reads: frozenset[str] = frozenset()
    erasing = (f"DELETE FROM lexicon WHERE rowid IN {POSITIONS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        rows: list[tuple[int, str]] = []
        for event in events:
            fact = event.payload
            assert isinstance(fact, FactAsserted)
            text = lexical_text(fact.entity, fact.relation, fact.value.type, fact.value.v)
            rows.append((event.position, text))
        db.executemany("INSERT INTO lexicon (rowid, text) VALUES (?,?)", rows)
