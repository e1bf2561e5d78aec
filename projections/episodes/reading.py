"""Questions about episodes, as of any position and within a caller's rights.

Every statement that answers a caller includes the rights. ``of_partition`` and others without
rights are for the node's own work (passes of rules, decisions).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import garden_partition, scope_partition
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.shown import Shown
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import Bindings, query, query_one, query_value

_READABLE = """{t}scope IN (SELECT value FROM json_each(?)) AND (CASE WHEN {t}garden_id IS NULL
    THEN ? ELSE ? OR {t}garden_id IN (SELECT value FROM json_each(?)) END)"""
_OWN = (
    "key", "id", "user", "session", "agent", "content", "at_us", "scope", "garden_id",
    "source_node", "metadata", "run_id", "step", "position", "hash", "actor",
)  # fmt: skip
_COLUMNS = f"""{", ".join(f"e.{name}" for name in _OWN)},
    (SELECT count(*) FROM episode_accesses a WHERE a.key=e.key AND a.position<=?1),
    (SELECT max(at_us) FROM episode_accesses a WHERE a.key=e.key AND a.position<=?1)"""
_FIELDS = (*_OWN, "access_count", "last_access_us")
"""The fields of an episode, as ``_COLUMNS`` has them."""
_BEHIND = f"""
SELECT {_COLUMNS} FROM episodes e
WHERE e.partition=?2 AND e.position>?3 AND e.position<=?4
  AND (?5 IS NULL OR e.user=?5) AND (?6 IS NULL OR e.agent=?6) AND (?7 OR e.peer IS NULL)
ORDER BY e.position LIMIT ?8
"""
_COUNT_BEHIND = """
SELECT count(*), max(position) FROM episodes e
WHERE e.partition=?1 AND e.position>?2 AND e.position<=?6
  AND (?3 IS NULL OR e.user=?3) AND (?4 IS NULL OR e.agent=?4) AND (?5 OR e.peer IS NULL)
"""
_NTH_BEHIND = """
SELECT position FROM episodes e
WHERE e.partition=?1 AND e.position>?2
  AND (?3 IS NULL OR e.user=?3) AND (?4 IS NULL OR e.agent=?4) AND (?5 OR e.peer IS NULL)
ORDER BY position LIMIT 1 OFFSET ?6
"""
metadata_of = msgspec.json.Decoder(dict[str, Any]).decode

Row = TypeVar("Row")


class Readers(Struct, frozen=True):
    """Whose episodes a rule reads: those of a partition, perhaps of one user or agent, with or
    without those from peers."""

    partition: str
    user: str | None = None
    agent: str | None = None
    peers: bool = False


def rights(authorization: Authorization, table: str) -> tuple[str, list[Any]]:
    """A condition and its bindings for the rows in the caller's scopes and gardens; ``shown.Shown``
    applies the other rights."""
    scopes = authorization.scopes if authorization.ceiling >= OPEN_CLASS else ()
    bindings = [
        json.dumps(sorted(scopes)),
        int(not authorization.only_gardens),
        int(authorization.every_garden),
        json.dumps(sorted(authorization.gardens)),
    ]
    return _READABLE.format(t=f"{table}."), bindings


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
    """A user's episodes, newest first; of one session or agent if given.

    ``before``: (instant, position) of the last one on the previous page. ``shown``: what the caller
    sees; None for the node's own work.
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

    return full_page(page, (lambda _: True) if shown is None else shown.episode, limit)


def full_page(
    page: Callable[[Row | None], list[Row]], keep: Callable[[Row], bool], limit: int
) -> list[Row]:
    """The first ``limit`` rows that pass ``keep``, from as many pages of ``limit`` rows as needed;
    each page continues after the last row of the one before."""
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
    """Readable episodes with these ids or keys, oldest first."""
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
    """Key, hash and position of the oldest episode with this id or, for an episode without id, with
    the same content. For the node's own tools."""
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
    return query_value(db, "SELECT position FROM episodes WHERE key=?", (key,))


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
    """The number of episodes in ``(after, until]``, and the position of the last."""
    row = (who.partition, after, who.user, who.agent, int(who.peers), until)
    count, last = query(db, _COUNT_BEHIND, row)[0]
    return count, last


def nth_behind(db: apsw.Connection, who: Readers, after: int, number: int) -> int | None:
    """Position of the ``number``-th episode after a position."""
    row = (who.partition, after, who.user, who.agent, int(who.peers), number - 1)
    return query_value(db, _NTH_BEHIND, row)


def _episode(row: Sequence[Any]) -> Episode:
    fields: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    fields["metadata"] = {} if fields["metadata"] == "{}" else metadata_of(fields["metadata"])
    return Episode(**fields)


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
