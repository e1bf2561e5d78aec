"""The events that touched a fact, from the archive: asserted, retracted, settled, recalled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from engramlog.projections.archive.duck import cursor, literal

RECALLS = ("recall_served", "recall_answered")
"""The kinds of events that say which facts recalls returned. All others changed something."""
_PLACES = """
WITH touched AS (SELECT position, unnest(fact_ids) AS fact_id FROM read_parquet([{files}])
    WHERE position BETWEEN {first} AND {last} AND {kinds})
SELECT DISTINCT position FROM touched WHERE fact_id IN (SELECT unnest($ids)) ORDER BY position
"""
_NAMING = """
SELECT position, fact_ids FROM read_parquet([{files}])
WHERE position BETWEEN {first} AND {last} AND {kinds} AND len(fact_ids) > 0 ORDER BY position
"""
_TOUCHES = """
SELECT position, received_at_us, recorded_at_us, kind, actor, event_id, causation_id, origin, peer,
    fact_ids, json_extract_string(detail, '$.reason'), json_extract_string(detail, '$.note'),
    json_extract_string(detail, '$.conflict_id'), json_extract_string(detail, '$.winner_id'),
    CAST(json_extract(detail, '$.loser_ids') AS VARCHAR[])
FROM read_parquet([{files}])
WHERE position BETWEEN {first} AND {last} AND position IN ({places})
ORDER BY position
"""
_ROWS = 500
Only = Literal["changes", "recalls"] | None
_KINDS: dict[Only, str] = {
    None: "true",
    "changes": f"kind NOT IN {RECALLS}",
    "recalls": f"kind IN {RECALLS}",
}


class Touch(Struct, frozen=True):
    """One event that touched a fact; times in microseconds. ``fact_ids`` are all facts it touched,
    readable or not: the caller applies the authorization."""

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
    facts: Sequence[str] | Callable[[str], bool],
    limit: int,
    keep: Callable[[Touch], bool],
    only: Only,
) -> list[Touch]:
    """Events from position ``first`` to ``last`` that touched any of the facts, oldest first; at
    most ``limit`` that pass ``keep``. ``facts``: their ids; or, for less work between near
    positions, whether an id is of one. ``only``: recalls alone, or all but them."""
    if not sources:
        return []
    files = ", ".join(literal(str(path)) for path in sources)
    bounds = {"files": files, "first": first, "last": last, "kinds": _KINDS[only]}
    with cursor() as db:
        if callable(facts):
            naming = db.execute(_NAMING.format(**bounds)).fetchall()
            places = [position for position, named in naming if any(map(facts, named))]
        else:
            asked = db.execute(_PLACES.format(**bounds), {"ids": list(facts)})
            places = [position for (position,) in asked.fetchall()]
        kept: list[Touch] = []
        for at in range(0, len(places), _ROWS):
            some = places[at : at + _ROWS]
            statement = _TOUCHES.format(
                files=files, first=some[0], last=some[-1], places=", ".join(map(str, some))
            )
            found = db.execute(statement).fetchall()
            kept += [touch for row in found if keep(touch := Touch(*row))]
            if len(kept) >= limit:
                break
    return kept[:limit]
