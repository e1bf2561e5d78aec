"""Questions about episodes, deltas and rules, as of any position and within a caller's rights.

Rights are part of every statement here that answers a caller; ``of_partition`` and what else
takes none is for the node's own work (passes of rules, decisions).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import garden_partition, scope_partition
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.classifying import KeyOfFact
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.shown import Shown
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import Bindings, query, query_one
from engramlog.projections.tables.facts.attributes import cleared_rows

_READABLE = """{t}scope IN (SELECT value FROM json_each(?)) AND (CASE WHEN {t}garden_id IS NULL
    THEN ? ELSE ? OR {t}garden_id IN (SELECT value FROM json_each(?)) END)"""
_COLUMNS = """e.key, e.id, e.user, e.session, e.agent, e.content, e.at_us, e.scope, e.garden_id,
    e.source_node, e.metadata, e.run_id, e.step, e.position, e.hash, e.actor,
    (SELECT count(*) FROM episode_accesses a WHERE a.key=e.key AND a.position<=?1),
    (SELECT max(at_us) FROM episode_accesses a WHERE a.key=e.key AND a.position<=?1)"""
_BEHIND = f"""
SELECT {_COLUMNS} FROM episodes e
WHERE e.partition=?2 AND e.position>?3 AND e.position<=?4
  AND (?5 IS NULL OR e.user=?5) AND (?6 IS NULL OR e.agent=?6) AND (?7 OR e.peer IS NULL)
ORDER BY e.position LIMIT ?8
"""
_COUNT_BEHIND = """
SELECT count(*), min(position), max(position) FROM episodes e
WHERE e.partition=?1 AND e.position>?2 AND e.position<=?6
  AND (?3 IS NULL OR e.user=?3) AND (?4 IS NULL OR e.agent=?4) AND (?5 OR e.peer IS NULL)
"""
_NTH_BEHIND = """
SELECT position FROM episodes e
WHERE e.partition=?1 AND e.position>?2
  AND (?3 IS NULL OR e.user=?3) AND (?4 IS NULL OR e.agent=?4) AND (?5 OR e.peer IS NULL)
ORDER BY position LIMIT 1 OFFSET ?6
"""
# CROSS JOIN: the order as written. The planner would begin with all facts of the partition.
_STANDING = f"""
SELECT m.user, m.agent, m.subject, m.predicate, m.name, m.fact_id
FROM json_each(?) k
CROSS JOIN memory_facts m ON m.partition=? AND m.user=k.value->>0 AND m.agent=k.value->>1
    AND m.subject=k.value->>2 AND m.predicate=k.value->>3 AND m.replaced={LIVE}
CROSS JOIN facts f ON f.id=m.fact_id AND f.origin=m.origin
WHERE f.to_position={LIVE} AND f.base_confidence>0
ORDER BY f.from_position
"""
_WATERMARK = """
SELECT max(to_position) FROM consolidation_runs
WHERE rule_id=? AND replay=0 AND position<=?
"""
_KNOWN = "SELECT delta_id FROM deltas WHERE delta_id IN (SELECT value FROM json_each(?))"
_REPLACED = """
SELECT m.fact_id FROM json_each(?2) n CROSS JOIN memory_facts m ON m.partition=?1
    AND (m.name=n.value OR m.fact_id=n.value)
"""
_metadata = msgspec.json.Decoder(dict[str, Any]).decode


Row = TypeVar("Row")


class Readers(Struct, frozen=True):
    """Whose episodes a rule reads: a partition, perhaps of one user or agent, and whether
    those that came from peers count."""

    partition: str
    user: str | None = None
    agent: str | None = None
    peers: bool = False


def rights(authorization: Authorization, table: str = "") -> tuple[str, list[Any]]:
    """A condition and its bindings that hold for the rows a caller may read, by where they lie;
    what else is asked of them is ``shown.Shown``'s."""
    scopes = authorization.scopes if authorization.ceiling >= OPEN_CLASS else ()
    bindings = [
        json.dumps(sorted(scopes)),
        int(not authorization.only_gardens),
        int(authorization.every_garden),
        json.dumps(sorted(authorization.gardens)),
    ]
    return _READABLE.format(t=f"{table}." if table else ""), bindings


# -- episodes -----------------------------------------------------------------------------


def recent(
    db: apsw.Connection,
    authorization: Authorization,
    position: int,
    *,
    user: str,
    session: str | None = None,
    agent: str | None = None,
    scope: str | None = None,
    garden_id: str | None = None,
    limit: int,
    before: tuple[int, int] | None = None,
    shown: Shown | None = None,
) -> list[Episode]:
    """A user's episodes, newest first; of one session or agent where they are given.

    ``before``: (instant, position) of the last one of the page before. ``shown``: what the
    caller sees; None for the node's own work.
    """
    allowed, bindings = rights(authorization, "e")
    where = [
        "e.position<=?1",
        "e.user=?2",
        "(?3 IS NULL OR e.session=?3)",
        "(?4 IS NULL OR e.agent=?4)",
        "(?5 IS NULL OR e.scope=?5)",
        "(?6 IS NULL OR e.garden_id=?6)",
        "(?7 IS NULL OR (e.at_us, e.position) < (?7, ?8))",
        numbered(allowed, 9),
    ]
    sql = f"""
    SELECT {_COLUMNS} FROM episodes e WHERE {" AND ".join(where)}
    ORDER BY e.at_us DESC, e.position DESC LIMIT ?{9 + len(bindings)}
    """

    def page(last: Episode | None) -> list[Episode]:
        at_us, place = (last.at_us, last.position) if last else before or (None, None)
        given = (position, user, session, agent, scope, garden_id, at_us, place, *bindings, limit)
        return [_episode(row) for row in query(db, sql, given)]

    return _filled(page, (lambda _: True) if shown is None else shown.episode, limit)


def _filled(
    page: Callable[[Row | None], list[Row]], keep: Callable[[Row], bool], limit: int
) -> list[Row]:
    """The first ``limit`` rows to ``keep``, of as many pages of ``limit`` rows as that takes;
    each is asked for behind the last row of the one before."""
    kept: list[Row] = []
    last: Row | None = None
    while len(kept) < limit:
        found = page(last)
        kept += [row for row in found if keep(row)]
        if len(found) < limit:
            break
        last = found[-1]
    return kept[:limit]


def find_episodes(
    db: apsw.Connection,
    authorization: Authorization,
    position: int,
    names: Sequence[str],
    shown: Shown | None = None,
) -> list[Episode]:
    """Readable episodes of these ids or keys, oldest first."""
    allowed, bindings = rights(authorization, "e")
    sql = f"""
    SELECT {_COLUMNS} FROM episodes e
    WHERE e.position IN (
        SELECT position FROM episodes WHERE key IN (SELECT value FROM json_each(?2))
        UNION SELECT i.position FROM json_each(?3) p CROSS JOIN json_each(?2) n
        CROSS JOIN episodes i ON i.partition=p.value AND i.id=n.value)
      AND e.position<=?1 AND {numbered(allowed, 4)} ORDER BY e.position
    """
    partitions = [scope_partition(scope) for scope in sorted(authorization.scopes)]
    gardens: list[str] = sorted(authorization.gardens)
    if authorization.every_garden:
        gardens = [row[0] for row in query(db, "SELECT DISTINCT id FROM gardens ORDER BY id")]
    partitions += [garden_partition(garden) for garden in gardens]
    given = (position, json.dumps(list(names)), json.dumps(partitions), *bindings)
    found = [_episode(row) for row in query(db, sql, given)]
    return found if shown is None else [each for each in found if shown.episode(each)]


def numbered(condition: str, first: int) -> str:
    """A condition with numbered parameters, for statements that number theirs."""
    for number in range(first, first + condition.count("?")):
        condition = condition.replace("?", f"\x00{number}", 1)
    return condition.replace("\x00", "?")


def same_episode(
    db: apsw.Connection, partition: str, episode: EpisodeRecorded
) -> tuple[str, str, int] | None:
    """Key, hash and position of the episode that has this id or, without one, says just this;
    the oldest of several. For the node's own tools."""
    if episode.id is not None:
        sql = """SELECT key, hash, position FROM episodes WHERE partition=? AND id=?
            ORDER BY position LIMIT 1"""
        found = query_one(db, sql, (partition, episode.id))
    else:
        sql = """SELECT key, hash, position FROM episodes WHERE partition=? AND user=?
            AND at_us=? AND session=? AND agent=? AND content=? AND source_node=? AND metadata=?
            ORDER BY position LIMIT 1"""
        metadata = msgspec.json.encode(episode.metadata).decode() if episode.metadata else "{}"
        said = (episode.user, episode.at_us, episode.session, episode.agent, episode.content)
        found = query_one(db, sql, (partition, *said, episode.source_node, metadata))
    return None if found is None else (found[0], found[1], found[2])


def place_of_episode(db: apsw.Connection, key: str) -> int | None:
    """The position of an episode, by its key. For the node's own tools."""
    found = query_one(db, "SELECT position FROM episodes WHERE key=?", (key,))
    return None if found is None else found[0]


def behind(
    db: apsw.Connection,
    who: Readers,
    *,
    after: int,
    until: int,
    limit: int,
) -> list[Episode]:
    """Episodes in ``(after, until]``, in log order."""
    row = (until, who.partition, after, until, who.user, who.agent, int(who.peers), limit)
    return [_episode(each) for each in query(db, _BEHIND, row)]


def pending(
    db: apsw.Connection, who: Readers, after: int, until: int = LIVE
) -> tuple[int, int | None]:
    """How many episodes there are in ``(after, until]``, and where the last of them is."""
    row = (who.partition, after, who.user, who.agent, int(who.peers), until)
    found = query_one(db, _COUNT_BEHIND, row)
    return (0, None) if found is None else (found[0], found[2])


def nth_behind(db: apsw.Connection, who: Readers, after: int, number: int) -> int | None:
    """Position of the ``number``-th episode behind a position."""
    row = (who.partition, after, who.user, who.agent, int(who.peers), number - 1)
    found = query_one(db, _NTH_BEHIND, row)
    return None if found is None else found[0]


def _episode(row: Sequence[Any]) -> Episode:
    (key, id_, user, session, agent, content, at_us, scope, garden_id, source_node, metadata,
     run_id, step, position, hash_, actor, count, last) = row  # fmt: skip
    return Episode(
        key=key,
        id=id_,
        user=user,
        session=session,
        agent=agent,
        content=content,
        at_us=at_us,
        scope=scope,
        garden_id=garden_id,
        source_node=source_node,
        metadata={} if metadata == "{}" else _metadata(metadata),
        run_id=run_id,
        step=step,
        position=position,
        hash=hash_,
        actor=actor,
        access_count=count,
        last_access_us=last,
    )


# -- what rules need ----------------------------------------------------------------------


def standing_facts(
    db: apsw.Connection, keys: Iterable[KeyOfFact]
) -> dict[KeyOfFact, list[tuple[str, str]]]:
    """(name, fact id) of the live facts of these keys, oldest first. All keys are of one
    partition."""
    asked = dict.fromkeys(keys)
    if not asked:
        return {}
    place = next(iter(asked))[0]
    wanted = [[each.user, each.agent, subject, predicate] for each, subject, predicate in asked]
    found: dict[KeyOfFact, list[tuple[str, str]]] = {}
    rows = query(db, _STANDING, (json.dumps(wanted), place.partition))
    for user, agent, subject, predicate, name, fact_id in rows:
        key = (MemoryPlace(user, agent, place.scope, place.garden_id), subject, predicate)
        found.setdefault(key, []).append((name, fact_id))
    return found


def known_deltas(db: apsw.Connection, delta_ids: Sequence[str]) -> set[str]:
    """Which of these deltas were applied already."""
    return {row[0] for row in query(db, _KNOWN, (json.dumps(list(delta_ids)),))}


def watermark(db: apsw.Connection, rule_id: str, position: int = LIVE) -> int:
    """How far a rule has read, as of a position."""
    found = query_one(db, _WATERMARK, (rule_id, position))
    return 0 if found is None or found[0] is None else found[0]


# -- rules, runs, deltas ------------------------------------------------------------------


def rules_at(db: apsw.Connection, position: int) -> list[tuple[str, dict[str, Any], str, int]]:
    """(id, document, who set it, when) of the rules in force, by id."""
    sql = """
    SELECT rule_id, document, set_by, set_at FROM consolidation_rules
    WHERE from_position<=? AND to_position>? ORDER BY rule_id
    """
    return [
        (rule_id, _metadata(document), set_by, set_at)
        for rule_id, document, set_by, set_at in query(db, sql, (position, position))
    ]


def rows_of(db: apsw.Connection, sql: str, bindings: Bindings) -> list[dict[str, Any]]:
    """Rows of a statement by the names of their columns."""
    cursor = db.execute(sql, bindings)
    names: list[str] | None = None
    rows: list[dict[str, Any]] = []
    for row in cursor:
        if names is None:
            names = [column[0] for column in cursor.description]
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def rule_places(db: apsw.Connection, position: int) -> dict[str, set[tuple[str, str | None]]]:
    """Where each rule has ever read, by id: a scope, and the garden in it where it was one."""
    sql = "SELECT rule_id, document FROM consolidation_rules WHERE from_position<=?"
    places: dict[str, set[tuple[str, str | None]]] = {}
    for rule_id, text in query(db, sql, (position,)):
        document = _metadata(text)
        place = (document.get("scope", "local"), document.get("garden_id"))
        places.setdefault(rule_id, set()).add(place)
    return places


def runs_of(db: apsw.Connection, rule_id: str, position: int, limit: int) -> list[dict[str, Any]]:
    """The newest runs of a rule; the parts of a long one are summed."""
    sql = """
    SELECT run_id, cause, max(replay) AS replay, min(from_position) AS from_position,
        max(to_position) AS to_position, max(at_us) AS at_us, max(scheduled_us) AS scheduled_us,
        sum(episodes) AS episodes, sum(applied) AS applied, sum(known) AS known,
        sum(rejected) AS rejected, sum(gated) AS gated, sum(quarantined) AS quarantined,
        max(position) AS position, max(asked_by) AS asked_by
    FROM consolidation_runs WHERE rule_id=? AND position<=?
    GROUP BY run_id, cause ORDER BY max(position) DESC LIMIT ?
    """
    return rows_of(db, sql, (rule_id, position, limit))


def episodes_read(db: apsw.Connection, rule_id: str, position: int) -> int:
    """How many episodes a rule has read, each once."""
    sql = """
    SELECT coalesce(sum(episodes), 0) FROM consolidation_runs
    WHERE rule_id=? AND replay=0 AND position<=?
    """
    found = query_one(db, sql, (rule_id, position))
    return 0 if found is None else found[0]


def last_fire(db: apsw.Connection, rule_id: str) -> int | None:
    """The newest instant at which a timetable's fire of a rule was carried out."""
    sql = "SELECT max(scheduled_us) FROM consolidation_runs WHERE rule_id=?"
    found = query_one(db, sql, (rule_id,))
    return None if found is None else found[0]


def quarantined_of(
    db: apsw.Connection,
    authorization: Authorization,
    rule_id: str,
    position: int,
    shown: Shown | None = None,
) -> list[dict[str, Any]]:
    """Episodes that a rule could make nothing of, newest first. ``shown``: as for ``recent``."""
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
    """Which deltas; None matches everything, all else by equality."""

    user: str | None = None
    agent: str | None = None
    rule_id: str | None = None
    run_id: str | None = None
    fact_id: str | None = None
    episode_id: str | None = None
    delta_id: str | None = None
    name: str | None = None


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
    allowed, bindings = rights(authorization, "d")
    cleared, levels = cleared_rows("d.fact_id", authorization)
    where = ["d.position<=?", allowed, cleared]
    given = [position, *bindings, *levels]
    for column in ("user", "agent", "rule_id", "run_id", "fact_id", "delta_id", "name"):
        value = getattr(wanted, column)
        if value is not None:
            where.append(f"d.{column}=?")
            given.append(value)
    if wanted.episode_id is not None:
        where.append(
            "EXISTS (SELECT 1 FROM delta_sources s WHERE s.partition=d.partition"
            " AND s.episode_id=? AND s.position=d.position AND s.number=d.number)"
        )
        given.append(wanted.episode_id)
    where.append("(d.position, d.number) < (?, ?)")
    sql = f"""
    SELECT d.* FROM deltas d WHERE {" AND ".join(where)}
    ORDER BY d.position DESC, d.number DESC LIMIT ?
    """

    def page(last: dict[str, Any] | None) -> list[dict[str, Any]]:
        place = (last["position"], last["number"]) if last else before or (LIVE, 0)
        return rows_of(db, sql, (*given, *place, limit))

    if shown is None:
        return page(None)
    return [shown.of_delta(row) for row in _filled(page, shown.delta, limit)]


def named_facts(db: apsw.Connection, partition: str, names: Sequence[str]) -> list[str]:
    """The facts that deltas gave these names, or that have these ids, in a partition."""
    rows = query(db, _REPLACED, (partition, json.dumps(list(names))))
    return [fact for (fact,) in rows]


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
    allowed, bindings = rights(authorization)
    where, given = ["position<=?", allowed], [position, *bindings]
    for column in ("user", "agent", "rule_id", "run_id", "delta_id"):
        value = getattr(wanted, column)
        if value is not None:
            where.append(f"{column}=?")
            given.append(value)
    where.append("position<?")
    sql = f"""
    SELECT * FROM delta_rejections WHERE {" AND ".join(where)} ORDER BY position DESC LIMIT ?
    """

    def page(last: dict[str, Any] | None) -> list[dict[str, Any]]:
        place = last["position"] if last else before[0] if before else LIVE
        return rows_of(db, sql, (*given, place, limit))

    def keep(row: dict[str, Any]) -> bool:
        if shown is None or row["reason"] == "missing":  # whatever was named, it was not there
            return True
        named = query(db, _REPLACED, (row["partition"], row["replaces"]))
        return shown.rejection([fact for (fact,) in named], row)

    return _filled(page, keep, limit)


def namesakes(db: apsw.Connection, fact_id: str) -> list[str]:
    """The facts of a place that had a fact's name by the time it was stated, itself among them."""
    rows = query(
        db,
        "SELECT v.fact_id FROM memory_facts m JOIN memory_facts v ON v.partition=m.partition"
        " AND v.name=m.name AND v.user=m.user AND v.agent=m.agent"
        " AND v.from_position<=m.from_position WHERE m.fact_id=?",
        (fact_id,),
    )
    return [fact for (fact,) in rows]


def memory_facts_at(
    db: apsw.Connection,
    position: int,
    *,
    user: str,
    agent: str | None = None,
    fact_id: str | None = None,
) -> list[dict[str, Any]]:
    """What deltas said of the facts that hold at a position, oldest first; rights are the
    facts' own, and the caller's to apply."""
    sql = """
    SELECT m.fact_id, m.user, m.agent, m.name, m.subject, m.partition, d.delta_id, d.rule_id,
        d.run_id, d.promotion_us, d.sources, d.payload, d.provenance, d.lineage, d.scope,
        d.garden_id,
        (SELECT count(*) FROM memory_facts v WHERE v.partition=m.partition AND v.name=m.name
            AND v.user=m.user AND v.agent=m.agent AND v.from_position<=m.from_position) AS version
    FROM memory_facts m
    JOIN facts f ON f.id=m.fact_id AND f.origin=m.origin
    JOIN deltas d ON d.position=m.from_position AND d.fact_id=m.fact_id
    WHERE m.user=?2 AND (?3 IS NULL OR m.agent=?3) AND (?4 IS NULL OR m.fact_id=?4)
      AND f.from_position<=?1 AND f.to_position>?1 AND f.base_confidence>0
    ORDER BY f.from_position
    """
    return rows_of(db, sql, (position, user, agent, fact_id))
