"""Questions about deltas: applied, rejected and quarantined, and the facts from them."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
from msgspec import Struct

from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes.classifying import KeyOfFact
from engramlog.projections.episodes.episode import FactOfDelta
from engramlog.projections.episodes.reading import find_episodes, full_page, rights, rows_of
from engramlog.projections.episodes.shown import Shown
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query, query_column
from engramlog.projections.tables.facts.attributes import cleared_rows

# CROSS JOIN fixes the join order: the planner would begin with all facts of the partition.
_STANDING = f"""
SELECT m.user, m.agent, f.source, m.subject, m.predicate, m.name, m.fact_id
FROM json_each(?) k
CROSS JOIN memory_facts m ON m.partition=? AND m.user=k.value->>0 AND m.agent=k.value->>1
    AND m.subject=k.value->>3 AND m.predicate=k.value->>4 AND m.replaced={LIVE}
CROSS JOIN fact_rows f ON f.id=m.fact_id AND f.origin=m.origin
WHERE f.to_position={LIVE} AND f.base_confidence>0
  AND f.source=k.value->>2 AND f.received_from IS NULL
ORDER BY f.from_position
"""

_KNOWN = """
SELECT delta_id FROM deltas
WHERE delta_id IN (SELECT value FROM json_each(?)) AND peer IS NULL
"""

_REPLACED = """
SELECT m.fact_id FROM json_each(?2) n CROSS JOIN memory_facts m ON m.partition=?1
    AND (m.name=n.value OR m.fact_id=n.value)
"""

_NOT_A_NAMESAKES = """NOT EXISTS (SELECT 1 FROM episodes o
CROSS JOIN derivations v ON v.parent_hash=o.hash
CROSS JOIN fact_rows f ON f.from_position=v.from_position
WHERE o.partition=d.partition AND o.id=:episode_id AND o.hash<>:episode_hash AND f.id=d.fact_id)"""


def live_facts_of_keys(
    db: apsw.Connection, keys: Iterable[KeyOfFact]
) -> dict[KeyOfFact, list[tuple[str, str]]]:
    """(name, fact id) of the live facts of these keys of one partition, oldest first."""
    asked = dict.fromkeys(keys)
    if not asked:
        return {}
    place = next(iter(asked))[0]
    wanted = [[each.user, each.agent, *said] for each, *said in asked]
    found: dict[KeyOfFact, list[tuple[str, str]]] = {}
    rows = query(db, _STANDING, (json_list(wanted), place.partition))
    for user, agent, source, subject, predicate, name, fact_id in rows:
        key = (MemoryPlace(user, agent, place.scope, place.garden_id), source, subject, predicate)
        found.setdefault(key, []).append((name, fact_id))
    return found


def known_deltas(db: apsw.Connection, delta_ids: Sequence[str]) -> set[str]:
    """Which of these deltas were applied here already."""
    return set(query_column(db, _KNOWN, (json_list(delta_ids),)))


def quarantined_of(
    db: apsw.Connection,
    authorization: Authorization,
    rule_id: str,
    position: int,
    shown: Shown,
) -> list[dict[str, Any]]:
    """Episodes that a rule could not use, newest first. ``shown``: as for ``recent``."""
    sql = """
    SELECT q.key, e.id, q.reason, q.run_id, q.position FROM quarantined_episodes q
    JOIN episodes e ON e.key=q.key
    WHERE q.rule_id=? AND q.position<=? ORDER BY q.position DESC, q.key LIMIT 100
    """
    rows = rows_of(db, sql, (rule_id, position))
    keys = [str(row["key"]) for row in rows]
    found = {each.key for each in find_episodes(db, authorization, position, keys, shown)}
    return [row for row in rows if row["key"] in found]


class DeltaFilter(Struct, frozen=True, kw_only=True):
    """Which deltas; None matches everything, all else by equality. ``episode_hash``: leaves out
    those of other episodes with the same ``episode_id``."""

    user: str | None = None
    agent: str | None = None
    rule_id: str | None = None
    run_id: str | None = None
    fact_id: str | None = None
    episode_id: str | None = None
    episode_hash: str | None = None
    name: str | None = None


def _chosen(
    authorization: Authorization, position: int, wanted: DeltaFilter, *columns: str
) -> tuple[list[str], dict[str, Any]]:
    """Conditions on readable deltas ``d``, filtered by these columns too, and their bindings."""
    allowed, bindings = rights(authorization, "d")
    names = ("user", "agent", "rule_id", "run_id", *columns)
    equal = {name: value for name in names if (value := getattr(wanted, name)) is not None}
    where = ["d.position<=:position", allowed, *(f"d.{name}=:{name}" for name in equal)]
    return where, {"position": position, **bindings, **equal}


def deltas_at(
    db: apsw.Connection,
    authorization: Authorization,
    position: int,
    wanted: DeltaFilter,
    *,
    limit: int,
    before: tuple[int, int] | None = None,
    shown: Shown | None = None,
) -> list[dict[str, Any]]:
    """Applied deltas, newest first. ``shown``: as for ``recent``."""
    where, given = _chosen(authorization, position, wanted, "fact_id", "name")
    cleared, levels = cleared_rows("d.fact_id", authorization)
    where.append(cleared)
    if wanted.episode_id is not None:
        where.append(
            "EXISTS (SELECT 1 FROM delta_sources s WHERE s.partition=d.partition"
            " AND s.episode_id=:episode_id AND s.position=d.position AND s.number=d.number)"
        )
    if wanted.episode_hash is not None:
        where.append(_NOT_A_NAMESAKES)
    sql = f"""
    SELECT d.* FROM deltas d
    WHERE {" AND ".join(where)} AND (d.position, d.number) < (:place, :number)
    ORDER BY d.position DESC, d.number DESC LIMIT :limit
    """
    given |= {**levels, "episode_id": wanted.episode_id, "limit": limit}
    given["episode_hash"] = wanted.episode_hash

    def page(last: dict[str, Any] | None) -> list[dict[str, Any]]:
        place, number = (last["position"], last["number"]) if last else before or (LIVE, 0)
        return rows_of(db, sql, {**given, "place": place, "number": number})

    if shown is None:
        return page(None)
    return [shown.of_delta(row) for row in full_page(page, shown.delta, limit)]


def named_facts(db: apsw.Connection, partition: str, names: Sequence[str]) -> list[str]:
    """Facts with these names in deltas, or with these ids, in a partition."""
    return query_column(db, _REPLACED, (partition, json_list(names)))


def rejections_at(
    db: apsw.Connection,
    authorization: Authorization,
    position: int,
    wanted: DeltaFilter,
    *,
    limit: int,
    before: tuple[int, int] | None = None,
    shown: Shown | None = None,
) -> list[dict[str, Any]]:
    """Rejected deltas, newest first. ``shown``: as for ``recent``."""
    where, given = _chosen(authorization, position, wanted)
    sql = f"""
    SELECT d.* FROM delta_rejections d WHERE {" AND ".join(where)} AND d.position<:place
    ORDER BY d.position DESC LIMIT :limit
    """

    def page(last: dict[str, Any] | None) -> list[dict[str, Any]]:
        place = last["position"] if last else before[0] if before else LIVE
        return rows_of(db, sql, {**given, "place": place, "limit": limit})

    def keep(row: dict[str, Any]) -> bool:
        if shown is None or row["reason"] == "missing":  # the missing fact reveals nothing
            return True
        return shown.rejection(
            query_column(db, _REPLACED, (row["partition"], row["replaces"])), row
        )

    return full_page(page, keep, limit)


def namesakes(db: apsw.Connection, fact: FactOfDelta) -> dict[str, int]:
    """The facts of a fact's place and name, itself included, and their positions."""
    sql = """
    SELECT v.fact_id, f.from_position FROM memory_facts v
    JOIN fact_rows f ON f.id=v.fact_id AND f.origin=v.origin
    WHERE v.partition=? AND v.name=? AND v.user=? AND v.agent=?
    """
    return dict(query(db, sql, (fact.partition, fact.name, fact.user, fact.agent)))


def memory_facts_at(
    db: apsw.Connection,
    position: int,
    *,
    user: str,
    agent: str | None = None,
) -> list[FactOfDelta]:
    """A user's facts from deltas that are live at a position, oldest first. The caller applies the
    rights to the facts."""
    sql = """
    WITH counted AS (
        SELECT m.*, f.from_position AS stated, f.to_position, f.base_confidence,
            count(*) OVER (
                PARTITION BY m.partition, m.name, m.agent ORDER BY f.from_position
            ) AS version
        FROM memory_facts m JOIN fact_rows f ON f.id=m.fact_id AND f.origin=m.origin
        WHERE m.user=?2 AND (?3 IS NULL OR m.agent=?3)
    )
    SELECT c.fact_id, c.user, c.agent, c.name, c.subject, c.partition, d.delta_id, d.rule_id,
        d.run_id, d.promotion_us, d.sources, d.payload, d.provenance, d.lineage, d.scope,
        d.garden_id, c.version
    FROM counted c JOIN deltas d ON d.position=c.from_position AND d.fact_id=c.fact_id
    WHERE stated<=?1 AND to_position>?1 AND base_confidence>0
    ORDER BY stated
    """
    return [FactOfDelta(*row) for row in query(db, sql, (position, user, agent))]
