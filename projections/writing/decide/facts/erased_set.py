"""Which facts an erasure covers: the named ones, and all their copies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import apsw
from msgspec import Struct

from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes.reading import rights
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.tables.database import json_list, query, query_column, query_value
from engramlog.projections.writing.commands import EraseFacts

ERASED_FACTS_MAX = 20_000
"""The most facts of one erasure; larger ones must be split."""

_COLUMNS = """facts.id, facts.from_position, facts.to_position, facts.set_aside, facts.entity,
    facts.relation, facts.value_type, facts.value_v, facts.source, facts.cid, facts.scope"""
_BY_ID = f"SELECT {_COLUMNS} FROM fact_rows AS facts WHERE id IN (SELECT value FROM json_each(?))"
_OF_ENTITY = f"SELECT {_COLUMNS} FROM fact_rows AS facts WHERE entity=? LIMIT ?"
_MENTIONS = f"SELECT {_COLUMNS} FROM fact_rows AS facts WHERE names(value_v) LIMIT ?"
_COPIES = f"""
SELECT {_COLUMNS} FROM json_each(?) AS asked JOIN fact_rows AS facts
  ON entity = asked.value ->> 0 AND relation = asked.value ->> 1
  AND value_type = asked.value ->> 2 AND value_v = asked.value ->> 3
  AND source = asked.value ->> 4
"""
_MARKERS = f"""
SELECT {_COLUMNS} FROM fact_retractions JOIN fact_rows AS facts ON facts.id = marker_id
  JOIN json_each(?1) AS asked ON fact_id = asked.value ->> 0
WHERE value_type = asked.value ->> 1 AND value_v = asked.value ->> 2
UNION
SELECT {_COLUMNS} FROM denials JOIN fact_rows AS facts ON facts.id = marker_id
  JOIN json_each(?1) AS asked ON fact_id = asked.value ->> 0
WHERE value_type = asked.value ->> 1 AND value_v = asked.value ->> 2
"""
_ADMITTED = """
SELECT admitted_fact_id, fact_id FROM quarantine
WHERE fact_id IN (SELECT value FROM json_each(?1))
   OR admitted_fact_id IN (SELECT value FROM json_each(?1))
"""
_NOTES = """
SELECT resolution_fact_id FROM conflicts
WHERE winner_id IN (SELECT value FROM json_each(?1)) AND resolution_fact_id IS NOT NULL
UNION
SELECT resolution_fact_id FROM denials
WHERE winner_id IN (SELECT value FROM json_each(?1)) AND resolution_fact_id IS NOT NULL
"""
_CHILDREN = f"""
SELECT {_COLUMNS} FROM derivations JOIN fact_rows AS facts USING (from_position)
WHERE parent_hash IN (SELECT value FROM json_each(?))
"""


class Doomed(Struct, frozen=True):
    """A fact to erase."""

    id: str
    position: int
    to_position: int
    set_aside: int
    entity: str
    relation: str
    value_type: str
    value_v: str
    source: str
    cid: str
    scope: str

    @property
    def is_ref(self) -> bool:
        return self.value_type == "ref"


def facts_named(db: apsw.Connection, fact_ids: Iterable[str]) -> list[Doomed]:
    """The existing facts among these ids."""
    return [Doomed(*row) for row in query(db, _BY_ID, (json_list(fact_ids),))]


def facts_about(db: apsw.Connection, entity: str, *, mentions: bool) -> list[Doomed]:
    """Facts about an entity and, with ``mentions``, facts with the entity as their value."""
    bound = ERASED_FACTS_MAX + 1
    rows = query(db, _OF_ENTITY, (entity, bound))
    if mentions:
        _teach_names(db, entity)
        rows += query(db, _MENTIONS, (bound,))
    return list({row[0]: Doomed(*row) for row in rows}.values())


def with_copies(
    db: apsw.Connection, chosen: Collection[Doomed], *, derived: bool
) -> dict[str, Doomed]:
    """Every fact that must go to erase the content of ``chosen``, by id.

    Copies are: facts of the same source and content (restated, or with another confidence, scope or
    garden), records that retracted them by repeating them, facts admitted from a quarantine, and
    notes of resolutions that they won. ``derived``: also everything derived from any of these.
    Stops beyond ``ERASED_FACTS_MAX``.
    """
    found: dict[str, Doomed] = {}
    fresh = {fact.id: fact for fact in chosen}
    while fresh and len(found) <= ERASED_FACTS_MAX:
        found |= fresh
        near = _near(db, list(fresh.values()), derived=derived)
        fresh = {fact.id: fact for fact in near if fact.id not in found}
    return found | fresh


_DELTAS = "SELECT position FROM deltas WHERE fact_id IN (SELECT value FROM json_each(?))"
_EPISODES = """
SELECT DISTINCT episodes.position FROM deltas
JOIN fact_rows AS facts ON facts.id = deltas.fact_id
    AND (facts.origin = deltas.origin OR deltas.peer IS NULL)
JOIN delta_sources USING (position, number)
JOIN episodes ON episodes.partition = delta_sources.partition
  AND episodes.id = delta_sources.episode_id
  AND NOT EXISTS (SELECT 1 FROM episodes AS namesakes
    CROSS JOIN derivations ON parent_hash = namesakes.hash
      AND derivations.from_position = facts.from_position
    WHERE namesakes.partition = episodes.partition AND namesakes.id = episodes.id
      AND namesakes.hash <> episodes.hash)
WHERE deltas.fact_id IN (SELECT value FROM json_each(?)) ORDER BY 1
"""
_EPISODES_OF = """
WITH named AS (SELECT raw_uri FROM aliases WHERE raw_uri = ?1 OR canonical_uri = ?1)
SELECT position FROM episodes
WHERE is_it(user) OR is_it(agent) OR is_it(session) OR names(content) OR names(metadata)
UNION SELECT position FROM delta_rejections WHERE is_it(user)
UNION SELECT from_position FROM aliases WHERE raw_uri IN named
UNION SELECT to_position FROM aliases WHERE raw_uri IN named
"""

_HAS_EPISODES = """
SELECT EXISTS (SELECT 1 FROM episodes
    WHERE (is_it(user) OR is_it(agent) OR is_it(session)) AND {allowed})
"""


def named_elsewhere(db: apsw.Connection, doomed: Collection[str], command: EraseFacts) -> set[int]:
    """Positions of deltas that made erased facts, of the episodes to erase, and of other events
    that name an erased entity."""
    found = set(query_column(db, _DELTAS, (json_list(doomed),)))
    if command.episodes:
        found |= set(source_episodes(db, doomed))
    if command.entity is not None and command.mentions:
        _teach_names(db, command.entity)
        found |= set(query_column(db, _EPISODES_OF, (command.entity,)))
    return found


def has_episodes(db: apsw.Connection, entity: str, authorization: Authorization) -> bool:
    """Whether readable episodes are of an entity (stored form), as their user, agent or session."""
    _teach_names(db, entity)
    allowed, bindings = rights(authorization, "episodes")
    return bool(query_value(db, _HAS_EPISODES.format(allowed=allowed), bindings))


_NAME = "[a-z0-9_-]"
_NAME_GOES_ON = "[a-z0-9_-]|[.:@+][a-z0-9]"
"""In ASCII alone: other scripts may write a name without a space before or after it."""


def spellings_of(entity: str) -> re.Pattern[str]:
    """Finds the names of an entity (stored form) in a text in lower case: any spelling that means
    it, but not as the beginning of a longer name."""
    spelt = re.escape(entity).replace(r"\-", r"(?:-|\s+)")
    return re.compile(f"(?<!{_NAME}){spelt}(?!{_NAME_GOES_ON})")


def _teach_names(db: apsw.Connection, entity: str) -> None:
    """Define two functions for SQL: whether a text names the entity, and whether it is its name."""
    pattern = spellings_of(entity)

    def is_it(*texts: apsw.SQLiteValue) -> bool:
        try:
            return normalize_uri(str(texts[0])) == entity
        except ValueError:
            return False

    def names(*texts: apsw.SQLiteValue) -> bool:
        return pattern.search(str(texts[0]).lower()) is not None

    db.create_scalar_function("names", names, 1)
    db.create_scalar_function("is_it", is_it, 1)


def source_episodes(db: apsw.Connection, facts: Collection[str]) -> list[int]:
    """Positions of the episodes behind facts."""
    return query_column(db, _EPISODES, (json_list(facts),))


def _near(db: apsw.Connection, facts: list[Doomed], *, derived: bool) -> list[Doomed]:
    ids = json_list(fact.id for fact in facts)
    said = [(f.entity, f.relation, f.value_type, f.value_v, f.source) for f in facts]
    rows = query(db, _COPIES, (json_list(said),))
    rows += query(db, _MARKERS, (json_list((f.id, f.value_type, f.value_v) for f in facts),))
    if derived:
        hashes = json_list(f.cid.removeprefix("sha256:") for f in facts)
        rows += query(db, _CHILDREN, (hashes,))
    linked = [each for row in query(db, _ADMITTED, (ids,)) for each in row if each is not None]
    linked += query_column(db, _NOTES, (ids,))
    return [Doomed(*row) for row in rows] + facts_named(db, linked)
