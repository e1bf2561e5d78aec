"""Questions about summaries: the current ones, and those visible to a caller at a moment."""

import json
import re

import apsw
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes.reading import rights
from engramlog.projections.memories.summary_naming import Tier
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_one

_STANDING = f"""
SELECT position, removed FROM summaries
WHERE partition=? AND owner=? AND name=? AND voice='' AND to_position={LIVE}
"""
_PARAGRAPHS = """
SELECT fact_id, value_v, to_position FROM summary_paragraphs JOIN fact_rows ON id=fact_id
WHERE position=? ORDER BY number
"""
_FILES = f"""
SELECT name, modified_us, size FROM summaries
WHERE partition=? AND owner=? AND voice='' AND removed=0 AND to_position={LIVE}
"""
_AT = """
SELECT position, name, tier, period_start, owner, scope, garden_id, recorded_at FROM summaries s
WHERE position<=:position AND to_position>:position AND removed=0
  AND (:tier IS NULL OR tier=:tier) AND (:since IS NULL OR period_start>=:since)
  AND (:until IS NULL OR period_start<=:until) AND (:owner IS NULL OR owner=:owner)
  AND (:start IS NULL OR (period_start, position) < (:start, :place)) AND {allowed}
ORDER BY period_start DESC, position DESC LIMIT :limit
"""
_FACTS_OF = """
SELECT p.position, p.fact_id FROM json_each(?) n
CROSS JOIN summary_paragraphs p ON p.position=n.value
JOIN summaries s ON s.position=p.position JOIN fact_rows f ON f.id=p.fact_id
WHERE s.voice='' OR f.origin=s.origin
ORDER BY p.position, p.number
"""


class SummaryParagraph(Struct, frozen=True):
    """A paragraph as stated; ``live``: whether its fact is live."""

    fact_id: str
    text: str
    live: bool


class RecordedFile(Struct, frozen=True):
    """A file at its last recording."""

    modified_us: int | None
    size: int | None


class SummaryRow(Struct, frozen=True):
    """A summary at a moment, without its text."""

    position: int
    name: str
    tier: Tier
    period_start: str
    owner: str
    scope: str
    garden_id: str | None
    recorded_at: int


class SummaryFilter(Struct, frozen=True, kw_only=True):
    """Which summaries. Days are ``YYYY-MM-DD``, both inclusive; ``before`` continues a list:
    (period_start, position) of its last entry."""

    tier: str | None = None
    since: str | None = None
    until: str | None = None
    owner: str | None = None
    before: tuple[str, int] | None = None


def current_paragraphs(
    db: apsw.Connection, partition: str, owner: str, name: str
) -> list[SummaryParagraph] | None:
    """The paragraphs of our own summary with this name, without erased ones; None if it does not
    exist or was removed."""
    found = query_one(db, _STANDING, (partition, owner, name))
    if found is None or found[1]:
        return None
    rows = query(db, _PARAGRAPHS, (found[0],))
    return [SummaryParagraph(fact, text, end == LIVE) for fact, text, end in rows]


def recorded_files(db: apsw.Connection, partition: str, owner: str) -> dict[str, RecordedFile]:
    """Our own current summaries, by name."""
    rows = query(db, _FILES, (partition, owner))
    return {name: RecordedFile(modified, size) for name, modified, size in rows}


def summaries_at(
    db: apsw.Connection,
    position: int,
    authorization: Authorization,
    chosen: SummaryFilter,
    limit: int,
) -> list[SummaryRow]:
    """Summaries in the caller's scopes and gardens as of a moment, newest period first; does not
    check whether the caller may read a paragraph."""
    allowed, bindings = rights(authorization, "s")
    start, place = chosen.before or (None, None)
    given = {**asdict(chosen), "position": position, "start": start, "place": place, "limit": limit}
    rows = query(db, _AT.format(allowed=allowed), {**given, **bindings})
    return [SummaryRow(*row) for row in rows]


def paragraphs_at(db: apsw.Connection, positions: list[int]) -> dict[int, list[str]]:
    """Fact ids of summaries' paragraphs, in order, by the summary's position."""
    found: dict[int, list[str]] = {position: [] for position in positions}
    for position, fact in query(db, _FACTS_OF, (json.dumps(positions),)):
        found[position].append(fact)
    return found


_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


def paragraphs_of(text: str) -> list[str]:
    """The paragraphs, in order: the text between blank lines, stripped."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return [each for part in _BLANK_LINES.split(lines) if (each := part.strip())]
