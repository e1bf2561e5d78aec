"""Questions about rules and their runs: rules in force, progress, outcomes."""

from typing import Any

import apsw

from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes.reading import metadata_of, rights, rows_of
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_value

_WATERMARK = """
SELECT max(to_position) FROM consolidation_runs
WHERE rule_id=? AND replay=0 AND position<=?
"""
_SHOWN = """NOT EXISTS (
    SELECT 1 FROM (
        SELECT coalesce(document->>'$.scope', 'local') AS scope,
            document->>'$.garden_id' AS garden_id
        FROM consolidation_rules
        WHERE rule_id=:rule_id AND from_position<run.position AND to_position>run.position
    ) place WHERE NOT ({allowed}))"""
"""Whether the caller may read the place of the rule when it ran: it may have moved since."""


def watermark(db: apsw.Connection, rule_id: str, position: int = LIVE) -> int:
    """How far a rule has read, as of a position."""
    return query_value(db, _WATERMARK, (rule_id, position)) or 0


def rules_at(db: apsw.Connection, position: int) -> list[tuple[str, dict[str, Any], str, int]]:
    """(id, document, who set it, when) of the rules in force, by id."""
    sql = """
    SELECT rule_id, document, set_by, set_at FROM consolidation_rules
    WHERE from_position<=? AND to_position>? ORDER BY rule_id
    """
    return [
        (rule_id, metadata_of(document), set_by, set_at)
        for rule_id, document, set_by, set_at in query(db, sql, (position, position))
    ]


def rule_places(db: apsw.Connection, position: int) -> dict[str, set[tuple[str, str | None]]]:
    """Everywhere that each rule has ever read, by id: a scope, and its garden if any."""
    sql = "SELECT rule_id, document FROM consolidation_rules WHERE from_position<=?"
    places: dict[str, set[tuple[str, str | None]]] = {}
    for rule_id, text in query(db, sql, (position,)):
        document = metadata_of(text)
        place = (document.get("scope", "local"), document.get("garden_id"))
        places.setdefault(rule_id, set()).add(place)
    return places


def runs_of(
    db: apsw.Connection, authorization: Authorization, rule_id: str, position: int, limit: int
) -> list[dict[str, Any]]:
    """The newest runs of a rule where the caller may read; the parts of a long run are summed."""
    allowed, bindings = rights(authorization, "place")
    sql = f"""
    SELECT run_id, cause, max(replay) AS replay, min(from_position) AS from_position,
        max(to_position) AS to_position, max(at_us) AS at_us, max(scheduled_us) AS scheduled_us,
        sum(episodes) AS episodes, sum(applied) AS applied, sum(known) AS known,
        sum(rejected) AS rejected, sum(gated) AS gated, sum(quarantined) AS quarantined,
        max(position) AS position, max(asked_by) AS asked_by
    FROM consolidation_runs run
    WHERE rule_id=:rule_id AND position<=:position AND {_SHOWN.format(allowed=allowed)}
    GROUP BY run_id, cause ORDER BY max(position) DESC LIMIT :limit
    """
    return rows_of(db, sql, {**bindings, "rule_id": rule_id, "position": position, "limit": limit})


def episodes_read(
    db: apsw.Connection, authorization: Authorization, rule_id: str, position: int
) -> int:
    """How many episodes a rule has read where the caller may read, each once."""
    allowed, bindings = rights(authorization, "place")
    sql = f"""
    SELECT coalesce(sum(episodes), 0) FROM consolidation_runs run
    WHERE rule_id=:rule_id AND replay=0 AND position<=:position
      AND {_SHOWN.format(allowed=allowed)}
    """
    return query_value(db, sql, {**bindings, "rule_id": rule_id, "position": position})


def last_fire(db: apsw.Connection, rule_id: str, now_us: int) -> int | None:
    """The newest executed fire of a rule's timetable. One after ``now_us`` is of a clock that was
    set back since."""
    sql = "SELECT max(scheduled_us) FROM consolidation_runs WHERE rule_id=? AND scheduled_us<=?"
    return query_value(db, sql, (rule_id, now_us))
