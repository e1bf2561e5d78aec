"""The events that touched a fact, from the archive: asserted, retracted, settled, recalled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from engramlog.projections.archive.duck import cursor, literal

_TOUCHED = """
SELECT position, received_at_us, recorded_at_us, kind, actor, event_id, causation_id, origin, peer,
    fact_ids, json_extract_string(detail, '$.reason'), json_extract_string(detail, '$.note'),
    json_extract_string(detail, '$.conflict_id'), json_extract_string(detail, '$.winner_id'),
    CAST(json_extract(detail, '$.loser_ids') AS VARCHAR[])
FROM read_parquet([{files}])
WHERE position BETWEEN {first} AND {last} AND list_has_any(fact_ids, $ids)
ORDER BY position
"""
_ROWS = 500


class Touch(Struct, frozen=True):
    """One event that touched a fact; times in microseconds. ``fact_ids`` are all facts it
    touched, readable or not: apply the authorization yourself."""

    position: int
    received_at_us: int
    recorded_at_us: int
    kind: str
    actor: str
    event_id: str
    causation_id: str | None
    origin: str
    peer: str | None
    fact_ids: list[str]
    reason: str | None
    note: str | None
    conflict_id: str | None
    winner_id: str | None
    loser_ids: list[str] | None


def touches(
    sources: Sequence[Path],
    first: int,
    last: int,
    fact_ids: Sequence[str],
    limit: int,
    keep: Callable[[Touch], bool] = lambda _: True,
) -> list[Touch]:
    """Events from position ``first`` to ``last`` that touched any of the facts, oldest first,
    at most ``limit`` of those to ``keep``."""
    if not sources or not fact_ids:
        return []
    files = ", ".join(literal(str(path)) for path in sources)
    statement = _TOUCHED.format(files=files, first=first, last=last)
    with cursor() as db:
        found = db.execute(statement, {"ids": list(fact_ids)})
        kept: list[Touch] = []
        while len(kept) < limit and (rows := found.fetchmany(_ROWS)):
            kept += [touch for row in rows if keep(touch := Touch(*row))]
    return kept[:limit]
