"""Questions about episodes, as of any position and within a caller's rights.

Every statement that answers a caller includes the rights. ``of_partition`` and others without
rights are for the node's own work (passes of rules, decisions).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.eventlog.event import garden_partition, scope_partition
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.shown import Shown
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import Bindings, json_list, query, query_one, query_value

_READABLE = """{t}.scope IN (SELECT value FROM json_each(:scopes)) AND (
    CASE WHEN {t}.garden_id IS NULL THEN :whole_scopes
    ELSE :every_garden OR {t}.garden_id IN (SELECT value FROM json_each(:gardens)) END)"""
_OWN = (
    "key", "id", "user", "session", "agent", "content", "at_us", "scope", "garden_id",
    "source_node", "metadata", "run_id", "step", "position", "hash", "actor",
    "peer",
)  # fmt: skip
_COLUMNS = f"""{", ".join(f"e.{name}" for name in _OWN)},
    e.actor<>(SELECT o.actor FROM episodes o WHERE o.partition=e.partition AND o.id=e.id
        AND o.peer IS e.peer ORDER BY o.position LIMIT 1),
    (SELECT count(*) FROM episode_accesses a WHERE a.key=e.key AND a.position<=:position),
    (SELECT max(at_us) FROM episode_accesses a WHERE a.key=e.key AND a.position<=:position)"""
_FIELDS = (*_OWN, "namesake", "access_count", "last_access_us")
"""The fields of an episode, as ``_COLUMNS`` has them."""
_BEHIND = """
FROM episodes e
WHERE e.partition=:partition AND e.position>:after AND e.position<=:position
  AND (:user IS NULL OR e.user=:user) AND (:agent IS NULL OR e.agent=:agent)
  AND (:peers OR e.peer IS NULL)
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


def rights(authorization: Authorization, table: str) -> tuple[str, dict[str, Any]]:
    """A condition and its bindings for the rows in the caller's scopes and gardens; ``shown.Shown``
    applies the other rights."""
    scopes = authorization.scopes if authorization.ceiling >= OPEN_CLASS else ()
    bindings = {
        "scopes": json_list(sorted(scopes)),
        "whole_scopes": not authorization.only_gardens,
        "every_garden": authorization.every_garden,
        "gardens": json_list(sorted(authorization.gardens)),
    }
    return _READABLE.format(t=table), bindings


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
    """A user's episodes, newest first; of one session or agent if given. ``before``: (instant,
    position) of the last one on the previous page. ``shown``: what the caller sees; None for the
    node's own work."""
    allowed, bindings = rights(authorization, "e")
    sql = f"""
    SELECT {_COLUMNS} FROM episodes e
    WHERE e.position<=:position AND e.user=:user
      AND (:session IS NULL OR e.session=:session) AND (:agent IS NULL OR e.agent=:agent)
      AND (:scope IS NULL OR e.scope=:scope)
      AND (:garden_id IS NULL OR e.garden_id=:garden_id)
      AND (:at_us IS NULL OR (e.at_us, e.position) < (:at_us, :place)) AND {allowed}
    ORDER BY e.at_us DESC, e.position DESC LIMIT :limit
    """
    bindings |= {"position": position, "user": user, "session": session, "agent": agent}
    bindings |= {"scope": scope, "garden_id": garden_id, "limit": limit}

    def page(last: Episode | None) -> list[Episode]:
        at_us, place = (last.at_us, last.position) if last else before or (None, None)
        given = {**bindings, "at_us": at_us, "place": place}
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
        SELECT position FROM episodes WHERE key IN (SELECT value FROM json_each(:names))
        UNION SELECT i.position FROM json_each(:partitions) p CROSS JOIN json_each(:names) n
        CROSS JOIN episodes i ON i.partition=p.value AND i.id=n.value)
      AND e.position<=:position AND {allowed} ORDER BY e.position
    """
    partitions = [scope_partition(scope) for scope in sorted(authorization.scopes)]
    gardens: list[str] = sorted(authorization.gardens)
    if authorization.every_garden:
        gardens = [row[0] for row in query(db, "SELECT DISTINCT id FROM gardens ORDER BY id")]
    partitions += [garden_partition(garden) for garden in gardens]
    bindings |= {"position": position, "names": json_list(names)}
    bindings["partitions"] = json_list(partitions)
    found = [_episode(row) for row in query(db, sql, bindings)]
    return found if shown is None else [each for each in found if shown.episode(each)]


def called(found: Sequence[Episode], name: str, actor: str) -> list[Episode]:
    """The episodes among these that a caller means by a name: the one with this key, else the
    caller's own with this id, else all with this id. So an episode under the id of another's, or
    under its key, hides it from no one who recorded or names it."""
    by_key = [each for each in found if each.key == name]
    by_id = [each for each in found if each.id == name]
    own = [each for each in by_id if each.actor == actor and each.peer is None]
    return by_key or own or by_id


def same_episode(
    db: apsw.Connection, partition: str, episode: EpisodeRecorded, actor: str
) -> tuple[str, str, int] | None:
    """Key, hash and position of the oldest episode with this id or, for an episode without id, with
    the same content; one that ``actor`` recorded comes first. For the node's own tools."""
    if episode.id is not None:
        sql = """SELECT key, hash, position FROM episodes WHERE partition=? AND id=?
            ORDER BY peer IS NULL AND actor=? DESC, position LIMIT 1"""
        found = query_one(db, sql, (partition, episode.id, actor))
    else:
        sql = """SELECT key, hash, position FROM episodes WHERE partition=? AND user=?
            AND at_us=? AND session=? AND agent=? AND content=? AND source_node=? AND metadata=?
            ORDER BY peer IS NULL AND actor=? DESC, position LIMIT 1"""
        metadata = msgspec.json.encode(episode.metadata).decode() if episode.metadata else "{}"
        said = (episode.user, episode.at_us, episode.session, episode.agent, episode.content)
        found = query_one(db, sql, (partition, *said, episode.source_node, metadata, actor))
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
    sql = f"SELECT {_COLUMNS} {_BEHIND} ORDER BY e.position LIMIT :limit"
    bindings = {**asdict(who), "after": after, "position": until, "limit": limit}
    return [_episode(each) for each in query(db, sql, bindings)]


def pending(
    db: apsw.Connection, who: Readers, after: int, until: int = LIVE
) -> tuple[int, int | None]:
    """The number of episodes in ``(after, until]``, and the position of the last."""
    bindings = {**asdict(who), "after": after, "position": until}
    count, last = query(db, f"SELECT count(*), max(e.position) {_BEHIND}", bindings)[0]
    return count, last


def nth_behind(db: apsw.Connection, who: Readers, after: int, number: int) -> int | None:
    """Position of the ``number``-th episode after a position."""
    sql = f"SELECT e.position {_BEHIND} ORDER BY e.position LIMIT 1 OFFSET :before"
    bindings = {**asdict(who), "after": after, "position": LIVE, "before": number - 1}
    return query_value(db, sql, bindings)


def _episode(row: Sequence[Any]) -> Episode:
    fields: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    fields["namesake"] = bool(fields["namesake"])
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
