"""This node's facts in the order of their assertion, for the protocol's federation."""

from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

import apsw
import msgspec
from msgspec import Struct

from engramlog.projections.normalization import is_reserved
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.fact_rows import FactRow, fetch

_RETRACTIONS = """
SELECT r.position, f.from_position, r.retracted_at FROM fact_retractions r
JOIN fact_rows f ON f.id = r.fact_id
WHERE r.position > ? AND r.position <= ? AND r.cause = 'retraction' AND r.marker_id IS NULL
  AND f.base_confidence > 0
ORDER BY r.position LIMIT ?
"""
_CHUNK = 1000


class Outgoing(Struct, frozen=True):
    """One record to send, and the log position that orders it."""

    position: int
    row: FactRow


def outgoing_facts(
    db: apsw.Connection, positions: Sequence[int], node_id: str, limit: int
) -> list[Outgoing]:
    """The first ``limit`` facts asserted at ``positions`` (ascending) that may leave: stated on
    this node, and not among the protocol's records."""
    found: list[Outgoing] = []
    for start in range(0, len(positions), _CHUNK):
        for row in fetch(db, positions[start : start + _CHUNK]):
            if is_ours(row, node_id):
                found.append(Outgoing(row.from_position, row))
                if len(found) == limit:
                    return found
    return found


def outgoing_retractions(
    db: apsw.Connection,
    after: int,
    until: int,
    node_id: str,
    scopes: frozenset[str],
    limit: int,
    hidden: frozenset[int],
) -> list[Outgoing]:
    """Retractions by id that left no record of confidence 0, as such records. A page ends only
    between positions, so it may exceed ``limit``. ``hidden``: positions of facts that are
    classified too high to be mentioned."""
    found: list[Outgoing] = []
    rows = query(db, _RETRACTIONS, (after, until, -1))
    facts = {row.from_position: row for row in fetch(db, [int(row[1]) for row in rows])}
    for position, asserted, retracted_at in rows:
        row = None if int(asserted) in hidden else facts.get(int(asserted))
        if row is None or row.scope not in scopes or not is_ours(row, node_id):
            continue
        if len(found) >= limit and found[-1].position != position:
            break
        found.append(Outgoing(int(position), _marker(row, int(retracted_at) * 1000)))
    return found


def is_ours(row: FactRow, node_id: str) -> bool:
    """Whether a fact may leave: not relayed, not private, not one of the protocol's records."""
    return (
        row.origin == node_id
        and row.received_from is None
        and row.garden_id is None
        and not row.relation.startswith("stigmem:")
        and not is_reserved(row.entity)
    )


def _marker(row: FactRow, at_us: int) -> FactRow:
    marker = msgspec.structs.replace(
        row,
        id=str(uuid5(NAMESPACE_URL, f"engramlog:retraction:{row.id}")),
        base_confidence=0.0,
        recorded_at=at_us,
        parents_json="[]",
        attestation_json=None,
    )
    return msgspec.structs.replace(marker, cid=marker.computed_cid())
