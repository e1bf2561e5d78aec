"""``erasures``, ``erased_facts``, ``erasure_receipts`` and ``legal_holds``: this node's erasures,
which of them are proven clean, and the facts that may not be erased.

No row holds erased text. Source: DESIGN section 2.
"""

from collections.abc import Collection, Iterable
from typing import Literal

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ErasureCertified, ErasureReason, FactErased, LegalHoldSet
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import (
    json_list,
    query,
    query_column,
    query_one,
    query_value,
)
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import end_rows, insert_row, rows_as

_ERASURES = """
SELECT erasure_id, min(position), min(erased_at), min(reason), min(actor), sum(facts), sum(events)
FROM erasures
"""
_HELD = f"""
SELECT target FROM legal_holds WHERE target_kind=? AND to_position={LIVE}
  AND target IN (SELECT value FROM json_each(?)) LIMIT 1
"""

_HELD_BY_TOMBSTONE = f"""
SELECT entity FROM tombstones WHERE legal_hold AND node_id='' AND to_position={LIVE}
  AND entity IN (SELECT value FROM json_each(?)) LIMIT 1
"""
_HOLDS = f"""
SELECT * FROM (
  SELECT target_kind, target, actor, set_at, reason, NULL, from_position FROM legal_holds
  WHERE to_position={LIVE} AND from_position<?1 ORDER BY from_position DESC LIMIT ?2
) UNION ALL SELECT * FROM (
  SELECT 'entity', entity, signed_by, set_at, ifnull(reason, ''), tombstone_id, from_position
  FROM tombstones
  WHERE legal_hold AND node_id='' AND to_position={LIVE} AND from_position<?1
  ORDER BY from_position DESC LIMIT ?2
) ORDER BY 7 DESC LIMIT ?2
"""


class ErasuresProjector(Projector):
    """Rows of the four tables."""

    name = "erasures"
    version = 2
    schema = f"""
    CREATE TABLE erasures (
        position INTEGER PRIMARY KEY,
        erasure_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        actor TEXT NOT NULL,
        origin TEXT NOT NULL,
        peer TEXT,
        erased_at INTEGER NOT NULL,
        facts INTEGER NOT NULL,
        events INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX erasures_by_id ON erasures (erasure_id);
    CREATE TABLE erased_facts (
        fact_id TEXT PRIMARY KEY,
        erasure_id TEXT NOT NULL,
        position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX erased_facts_by_position ON erased_facts (position);
    CREATE TABLE erasure_receipts (
        erasure_id TEXT PRIMARY KEY,
        document TEXT NOT NULL,
        signature TEXT NOT NULL,
        position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE legal_holds (
        from_position INTEGER PRIMARY KEY,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        target_kind TEXT NOT NULL,
        target TEXT NOT NULL,
        actor TEXT NOT NULL,
        set_at INTEGER NOT NULL,
        reason TEXT NOT NULL
    ) STRICT;
    CREATE INDEX legal_holds_by_target ON legal_holds (target_kind, target, to_position);
    """
    kinds = frozenset({"fact_erased", "erasure_certified", "legal_hold_set"})
    erasing = (f"DELETE FROM legal_holds WHERE from_position IN {POSITIONS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, FactErased):
            _note(event, payload, db)
        elif isinstance(payload, ErasureCertified):
            insert_row(db, "erasure_receipts", event, or_ignore=True)
        else:
            assert isinstance(payload, LegalHoldSet)
            target_kind, target = payload.target_kind, payload.target
            end_rows(db, "legal_holds", event, target_kind=target_kind, target=target)
            if payload.held:
                insert_row(db, "legal_holds", event, set_at=event.received_at)


class ErasedPart(SmallPart):
    """The facts that this node erased: it never accepts them again."""

    kinds = frozenset({"fact_erased"})

    def __init__(self) -> None:
        self.facts: set[str] = set()

    def load(self, db: apsw.Connection) -> None:
        self.facts.update(fact for (fact,) in query(db, "SELECT fact_id FROM erased_facts"))

    def fold_event(self, event: Recorded) -> None:
        assert isinstance(event.payload, FactErased)
        self.facts.update(event.payload.fact_ids)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.facts)

    def restore(self, state: bytes) -> None:
        self.facts = msgspec.msgpack.decode(state, type=set[str])


def _note(event: Recorded, erasure: FactErased, db: apsw.Connection) -> None:
    at, facts, events = event.received_at, len(erasure.fact_ids), len(erasure.events)
    insert_row(db, "erasures", event, erased_at=at, facts=facts, events=events)
    db.executemany(
        "INSERT OR IGNORE INTO erased_facts VALUES (?,?,?)",
        [(fact, erasure.erasure_id, event.position) for fact in erasure.fact_ids],
    )


class ErasureRow(Struct, frozen=True):
    """One erasure; ``erased_at`` in microseconds; ``facts`` and ``events`` count the erased
    ones."""

    erasure_id: str
    position: int
    erased_at: int
    reason: ErasureReason
    actor: str
    facts: int
    events: int


class ErasureReceipt(Struct, frozen=True):
    """The signed statement that the node's files hold nothing of an erasure any more."""

    document: str
    signature: str


class LegalHold(Struct, frozen=True):
    """A fact or entity that may not be erased; ``set_at`` in microseconds. ``tombstone_id``: the
    tombstone that holds the entity, if one does."""

    target_kind: Literal["fact", "entity"]
    target: str
    actor: str
    set_at: int
    reason: str
    tombstone_id: str | None
    position: int


def find_erasure(db: apsw.Connection, erasure_id: str) -> ErasureRow | None:
    """An erasure with all its events."""
    row = query_one(db, f"{_ERASURES} WHERE erasure_id=? GROUP BY erasure_id", (erasure_id,))
    return None if row is None else ErasureRow(*row)


def list_erasures(db: apsw.Connection, before: int, limit: int) -> list[ErasureRow]:
    """Erasures begun before a position, newest first."""
    sql = f"{_ERASURES} GROUP BY erasure_id HAVING min(position)<? ORDER BY 2 DESC LIMIT ?"
    return [ErasureRow(*row) for row in query(db, sql, (before, limit))]


def find_erasure_receipt(db: apsw.Connection, erasure_id: str) -> ErasureReceipt | None:
    """The receipt; None until everything is clean."""
    rows = rows_as(ErasureReceipt, db, "FROM erasure_receipts WHERE erasure_id=?", (erasure_id,))
    return rows[0] if rows else None


def erasure_of(db: apsw.Connection, fact_id: str) -> str | None:
    return query_value(db, "SELECT erasure_id FROM erased_facts WHERE fact_id=?", (fact_id,))


def erased_between(
    db: apsw.Connection, after: int, until: int, limit: int
) -> list[tuple[str, str, int]]:
    """(fact id, erasure id, position) of facts erased after one position, up to another."""
    sql = (
        "SELECT fact_id, erasure_id, position FROM erased_facts"
        " WHERE position>? AND position<=? ORDER BY position, fact_id LIMIT ?"
    )
    return query(db, sql, (after, until, limit))


def unclean(db: apsw.Connection) -> list[str]:
    """Erasures that have no receipt yet, oldest first."""
    return query_column(
        db,
        "SELECT erasure_id FROM erasures WHERE erasure_id NOT IN"
        " (SELECT erasure_id FROM erasure_receipts) GROUP BY erasure_id ORDER BY min(position)",
    )


def erasures_after(db: apsw.Connection, position: int) -> list[str]:
    """Erasures with an event after a position, oldest first."""
    chosen = "erasures WHERE position>? GROUP BY erasure_id ORDER BY min(position)"
    return query_column(db, f"SELECT erasure_id FROM {chosen}", (position,))


def naming_positions(db: apsw.Connection, erasure_id: str) -> list[int]:
    sql = "SELECT position FROM erasures WHERE erasure_id=? ORDER BY position"
    return query_column(db, sql, (erasure_id,))


def legal_holds(db: apsw.Connection, before: int, limit: int) -> list[LegalHold]:
    """Holds in force set before a position, those of tombstones too, newest first."""
    return [LegalHold(*row) for row in query(db, _HOLDS, (before, limit))]


def held(db: apsw.Connection, facts: Iterable[str], entities: Collection[str]) -> bool:
    """Whether a hold, or a tombstone with one, covers any of the facts or entities."""
    for kind, targets in (("fact", facts), ("entity", entities)):
        if query_one(db, _HELD, (kind, json_list(sorted(set(targets))))) is not None:
            return True
    asked = json_list(sorted(set(entities)))
    return query_one(db, _HELD_BY_TOMBSTONE, (asked,)) is not None
