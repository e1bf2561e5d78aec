"""Retractions and resolutions of other nodes, which wait until they take effect here.

A retraction or resolution replayed from a peer changes nothing by itself. Its claims wait in
``foreign_ends``. A local event applies the claims that may take effect (``taking_effect``): the
fact is here, and either the claimant stated it, or it brought it from a node without a log and
names a record of its source that retracts it, or the peer has the grant over others' facts. So
arrival order does not matter, and a later grant covers earlier claims.
"""

from collections.abc import Collection

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_bytes, id_text
from engramlog.eventlog.kinds import ConflictResolved, FactErased, FactRetracted
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.tables.erasing import FACTS, may_erase
from engramlog.projections.tables.peers.peers import peer_grants
from engramlog.projections.tables.projector import Projector

ENDING_KINDS = frozenset({"fact_retracted", "conflict_resolved", "fact_erased"})
"""Kinds that projectors see only as local events, except projectors in ``REMOTE_ENDS``."""

REMOTE_ENDS = frozenset({"foreign_ends", "resolutions"})
"""Projectors that also read how peers' events end facts."""

_CLAIM = "INSERT OR IGNORE INTO foreign_ends VALUES (?,?,?,?,?,?,?,?)"
_TAKEN = "DELETE FROM foreign_ends WHERE fact_id=? AND ending=?"
_WITHOUT_EFFECT = f"""CASE claims.ending
    WHEN 'retracted' THEN NOT EXISTS (
        SELECT 1 FROM fact_retractions AS ended
        WHERE ended.fact_id = claims.fact_id AND ended.cause = 'retraction')
    WHEN 'set aside' THEN facts.set_aside = {LIVE}
    ELSE 1 END"""
"""Whether the claim's fact has not ended here in the claim's way. An erased fact has no row."""

_EFFECTIVE = f"""
SELECT claims.fact_id, claims.ending, claims.event_id, claims.origin, claims.conflict_id,
    claims.winner_id, claims.resolution_fact_id
FROM foreign_ends AS claims
JOIN fact_rows AS facts ON facts.id = claims.fact_id
LEFT JOIN peers ON peers.node_id = claims.origin AND peers.state = 'active'
WHERE claims.ending <> 'erased' AND {_WITHOUT_EFFECT}
  AND (facts.origin = claims.origin
    OR (facts.stream = facts.origin || '/foreign' AND facts.received_from = claims.origin
      AND EXISTS (
        SELECT 1 FROM fact_rows AS marker
        WHERE marker.id = claims.marker_id AND marker.stream = facts.stream
          AND marker.source = facts.source AND marker.entity = facts.entity
          AND marker.relation = facts.relation AND marker.scope = facts.scope
          AND marker.base_confidence = 0 AND marker.hlc > facts.hlc))
    OR CASE claims.ending WHEN 'retracted' THEN json_extract(peers.grants, '$.retract_foreign')
        ELSE json_extract(peers.grants, '$.resolve_foreign') END)
ORDER BY claims.fact_id, claims.ending, claims.event_id
"""


def is_remote_end(event: Recorded) -> bool:
    """Whether a peer's event says something about the end of facts."""
    return event.peer is not None and event.header.kind in ENDING_KINDS


class ForeignEndsProjector(Projector):
    """Two tables. ``foreign_ends``: claims without effect yet. ``erasure_names``: the events that
    each node's erasures name, which explains missing payloads."""

    name = "foreign_ends"
    version = 4
    schema = """
    CREATE TABLE foreign_ends (
        fact_id TEXT NOT NULL,
        ending TEXT NOT NULL CHECK (ending IN ('retracted', 'set aside', 'erased')),
        origin TEXT NOT NULL,
        event_id BLOB NOT NULL,
        conflict_id TEXT,
        winner_id TEXT,
        resolution_fact_id TEXT,
        marker_id TEXT,
        PRIMARY KEY (fact_id, ending, event_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE erasure_names (
        event_id TEXT NOT NULL,
        eraser TEXT NOT NULL,
        PRIMARY KEY (event_id, eraser)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = ENDING_KINDS
    erasing = (
        # The events that applied these claims may be erased as well.
        f"DELETE FROM foreign_ends WHERE fact_id IN {FACTS}",
        "DELETE FROM foreign_ends WHERE lower(hex(event_id)) IN"
        " (SELECT replace(value, '-', '') FROM json_each(:events))",
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, FactRetracted):
            rest = (event.header.origin, event.event_id, None, None, None, payload.marker_id)
            facts, ending = payload.fact_ids, "retracted"
        elif isinstance(payload, FactErased):
            rest = (event.header.origin, event.event_id, None, None, None, None)
            facts, ending = payload.fact_ids, "erased"
            names = [(name, event.header.origin) for name in payload.events]
            db.executemany("INSERT OR IGNORE INTO erasure_names VALUES (?,?)", names)
        else:
            assert isinstance(payload, ConflictResolved)
            rest = (event.header.origin, event.event_id, payload.conflict_id,
                    payload.winner_id, payload.resolution_fact_id, None)  # fmt: skip
            facts, ending = payload.loser_ids, "set aside"
        if event.peer is None:
            db.executemany(_TAKEN, [(fact, ending) for fact in facts])
        else:
            db.executemany(_CLAIM, [(fact, ending, *rest) for fact in facts])


class Claim(Struct, frozen=True):
    """The end of one fact on another node; ``ending`` is ``retracted`` or ``set aside``."""

    fact_id: str
    ending: str
    event_id: bytes
    origin: str
    conflict_id: str | None
    winner_id: str | None
    resolution_fact_id: str | None


def taking_effect(db: apsw.Connection) -> list[Claim]:
    """Claims that may take effect now, in order."""
    return [Claim(*row) for row in query(db, _EFFECTIVE)]


_ERASED = """
SELECT claims.fact_id, claims.event_id, claims.origin, facts.origin
FROM foreign_ends AS claims JOIN fact_rows AS facts ON facts.id = claims.fact_id
WHERE claims.ending = 'erased' ORDER BY claims.event_id, claims.fact_id
"""


def erasures_taking_effect(db: apsw.Connection) -> dict[bytes, list[str]]:
    """Facts that other nodes' erasures may erase here, by the event that asks for it."""
    found: dict[bytes, list[str]] = {}
    for fact, event_id, eraser, origin in query(db, _ERASED):
        if may_erase(eraser, origin, local=False, grants=peer_grants(db, eraser)):
            found.setdefault(event_id, []).append(fact)
    return found


_NAMING = (
    "SELECT event_id, eraser FROM erasure_names WHERE event_id IN (SELECT value FROM json_each(?))"
)


def erased_elsewhere(
    db: apsw.Connection, events: Collection[bytes], origin: str, own: str
) -> set[bytes]:
    """The events of node ``origin`` that an authorized erasure in this log names: the origin's,
    this node's (``own``), or that of a peer with the grant."""
    asked = json_list(sorted(map(id_text, events)))
    return {
        id_bytes(event)
        for event, eraser in query(db, _NAMING, (asked,))
        if may_erase(eraser, origin, local=eraser == own, grants=peer_grants(db, eraser))
    }


_WAITING = f"""
SELECT claims.origin, claims.ending, count(DISTINCT claims.fact_id)
FROM foreign_ends AS claims JOIN fact_rows AS facts ON facts.id = claims.fact_id
WHERE {_WITHOUT_EFFECT} GROUP BY claims.origin, claims.ending
"""


def waiting_ends(db: apsw.Connection) -> dict[str, dict[str, int]]:
    """Of each node that stated ends without effect here: how many facts that this node holds, by
    ``ending``. Claims about facts that never came, or that are erased here, do not count."""
    found: dict[str, dict[str, int]] = {}
    for origin, ending, count in query(db, _WAITING):
        found.setdefault(origin, {})[ending] = count
    return found
