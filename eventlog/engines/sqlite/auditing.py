"""The other tables of ``log.db``, checked against the events."""

from collections.abc import Collection

import apsw

from engramlog.eventlog.engines.appending import KeyUse
from engramlog.eventlog.engines.sqlite import schema

_KEYS_WITH_EVENTS = "SELECT count(*) FROM idempotency WHERE first_position <= last_position"
_NAMES = """
SELECT unhex(replace(j.value, '-', '')) AS event_id, min(e.position) AS position
FROM events e JOIN payloads p ON p.position = e.position,
  json_each(CAST(p.payload AS TEXT), '$.events') j
WHERE e.kind = 'fact_erased' AND length(unhex(replace(j.value, '-', ''))) = 16 GROUP BY 1"""
_CHECKS = (
    (
        "SELECT position FROM payloads WHERE position < 1"
        " OR position > (SELECT ifnull(max(position), 0) FROM events) LIMIT 1",
        "position {} has a payload and no event",
    ),
    (
        "SELECT stream FROM streams s WHERE NOT EXISTS"
        " (SELECT 1 FROM events e WHERE e.stream_no = s.stream_no) LIMIT 1",
        "stream {} has no events",
    ),
    (
        "SELECT key FROM idempotency WHERE digest = x'' AND NOT EXISTS"
        " (SELECT 1 FROM events e LEFT JOIN payloads p ON p.position = e.position"
        "  WHERE e.position BETWEEN first_position AND last_position AND p.position IS NULL)"
        " LIMIT 1",
        "the digest of idempotency key {!r} is gone, and nothing that it wrote was erased",
    ),
)
_OF_ERASED = (
    (
        f"SELECT lower(hex(event_id)) FROM erased LEFT JOIN ({_NAMES}) n USING (event_id)"
        " WHERE n.position IS NULL LIMIT 1",
        "table erased names event {}, and no fact_erased event does",
    ),
    (
        f"SELECT lower(hex(n.event_id)) FROM ({_NAMES}) n LEFT JOIN erased USING (event_id)"
        " WHERE erased.position IS NULL LIMIT 1",
        "a fact_erased event names event {}, and table erased does not",
    ),
)


def uses_of(
    db: apsw.Connection, names: Collection[tuple[str, str]]
) -> dict[tuple[str, str], KeyUse]:
    """The records of these actors' idempotency keys."""
    found: dict[tuple[str, str], KeyUse] = {}
    for name in names:
        row = db.execute(schema.SELECT_KEY, name).fetchone()
        if row is not None:
            found[name] = KeyUse(*row)  # pyright: ignore[reportArgumentType]
    return found


def used_keys(db: apsw.Connection) -> int:
    """How many idempotency keys claim to have written events."""
    return int(db.execute(_KEYS_WITH_EVENTS).get)


def tables_fault(db: apsw.Connection) -> str | None:
    """The first row of a table besides ``events`` that contradicts the events, whose positions have
    no gap."""
    erasing = int(db.pragma("user_version")) >= 2
    for statement, words in (*_CHECKS, *(_OF_ERASED if erasing else ())):
        row = db.execute(statement).fetchone()
        if row is not None:
            return words.format(row[0])
    return None
