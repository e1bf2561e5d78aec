"""``tombstones`` and ``tombstone_revocations``: the entities that are hidden from every answer.

A tombstone hides and erases nothing. Until its revocation it also hides the past. Ids are per
signer: two nodes may use the same id, and neither tombstone replaces the other. Source: wire 5.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted, TombstoneRevoked, TombstoneSet
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.columns.tombstone_mask import Hiding, Tombstone
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.conflicts.resolutions import ResolutionsPart
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import insert_row, rows_as

EVERY_SCOPE = ("all", "*")
"""The ``scope`` of a tombstone in every scope."""
TOMBSTONE_SCOPES = (*EVERY_SCOPE, *SCOPES)

HERE = ""
"""The signer in the tables when this node signed."""


class TombstoneRow(Struct, frozen=True):
    """A tombstone that hides facts of ``scopes`` (none if its peer may not hide any). It is in
    force while ``to_position`` is ``LIVE``. ``node_id``: its signer, None for this node."""

    tombstone_id: str
    entity: str
    entity_uri: str
    scope: str
    scopes: frozenset[str]
    reason: str | None
    legal_hold: bool
    signed_by: str
    key_id: str
    signature: str
    created_at: str
    node_id: str | None
    from_position: int
    to_position: int

    @property
    def in_force(self) -> bool:
        return self.to_position == LIVE


class TombstoneRevocationRow(Struct, frozen=True):
    """The end of a tombstone."""

    revocation_id: str
    tombstone_id: str
    reason: str
    signed_by: str
    key_id: str
    signature: str
    created_at: str
    position: int


class TombstonesProjector(Projector):
    """Rows of the two tables."""

    name = "tombstones"
    version = 2
    schema = f"""
    CREATE TABLE tombstones (
        tombstone_id TEXT NOT NULL,
        entity TEXT NOT NULL,
        entity_uri TEXT NOT NULL,
        scope TEXT NOT NULL,
        scopes TEXT NOT NULL,
        reason TEXT,
        legal_hold INTEGER NOT NULL,
        signed_by TEXT NOT NULL,
        key_id TEXT NOT NULL,
        signature TEXT NOT NULL,
        created_at TEXT NOT NULL,
        node_id TEXT NOT NULL,
        set_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (tombstone_id, node_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tombstones_by_entity ON tombstones (entity);
    CREATE TABLE tombstone_revocations (
        revocation_id TEXT NOT NULL,
        tombstone_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        signed_by TEXT NOT NULL,
        key_id TEXT NOT NULL,
        signature TEXT NOT NULL,
        created_at TEXT NOT NULL,
        node_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (revocation_id, node_id)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"tombstone_set", "tombstone_revoked"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, TombstoneSet):
            _set(event, payload, db)
        else:
            assert isinstance(payload, TombstoneRevoked)
            _revoke(event, payload, db)


def _set(event: Recorded, tombstone: TombstoneSet, db: apsw.Connection) -> None:
    scopes, signer = sorted(tombstone.scopes), tombstone.node_id or HERE
    at = event.received_at
    insert_row(db, "tombstones", event, scopes=scopes, node_id=signer, set_at=at, or_ignore=True)
    # A peer's tombstone hides other scopes when it arrives again under other grants.
    db.execute(
        "UPDATE tombstones SET scopes=? WHERE tombstone_id=? AND node_id=? AND to_position=?",
        (msgspec.json.encode(scopes).decode(), tombstone.tombstone_id, signer, LIVE),
    )


def _revoke(event: Recorded, revocation: TombstoneRevoked, db: apsw.Connection) -> None:
    signer = revocation.node_id or HERE
    db.execute(
        "UPDATE tombstones SET to_position=? WHERE tombstone_id=? AND to_position=?"
        " AND ? IN (node_id, ?)",  # a peer may revoke only its own
        (event.position, revocation.tombstone_id, LIVE, signer, HERE),
    )
    insert_row(db, "tombstone_revocations", event, node_id=signer, or_ignore=True)


def hidden_scopes(scope: str) -> frozenset[str]:
    return frozenset(SCOPES) if scope in EVERY_SCOPE else frozenset({scope})


def _tombstones(
    db: apsw.Connection, rest: str, bindings: Sequence[apsw.SQLiteValue]
) -> list[TombstoneRow]:
    rows = rows_as(TombstoneRow, db, f"FROM tombstones {rest}", bindings)
    return [msgspec.structs.replace(row, node_id=row.node_id or None) for row in rows]


def tombstones_named(db: apsw.Connection, tombstone_id: str) -> list[TombstoneRow]:
    """All tombstones with an id, one per signing node, in force or revoked."""
    return _tombstones(db, "WHERE tombstone_id=? ORDER BY from_position", (tombstone_id,))


def find_tombstone(
    db: apsw.Connection, tombstone_id: str, node_id: str | None
) -> TombstoneRow | None:
    """A node's tombstone with this id (None: this node), in force or revoked."""
    named = tombstones_named(db, tombstone_id)
    return next((row for row in named if row.node_id == node_id), None)


def tombstones_of(db: apsw.Connection, entity: str) -> list[TombstoneRow]:
    """Every tombstone an entity ever had, oldest first."""
    return _tombstones(db, "WHERE entity=? ORDER BY from_position", (entity,))


def tombstones_in_force(db: apsw.Connection) -> list[TombstoneRow]:
    """Every tombstone in force, oldest first."""
    return _tombstones(db, "WHERE to_position=? ORDER BY from_position", (LIVE,))


def tombstones_digest(stones: Iterable[TombstoneRow], scopes: Collection[str]) -> str:
    """A digest of the tombstones in force in some scopes: equal on two nodes that hide the same."""
    hidden = (
        (each.tombstone_id, each.entity, sorted(each.scopes & set(scopes))) for each in stones
    )
    return sha256(msgspec.json.encode(sorted(row for row in hidden if row[2]))).hexdigest()


def list_tombstones(db: apsw.Connection, before: int, limit: int) -> list[TombstoneRow]:
    """Tombstones set before a position, newest first, revoked ones too."""
    rest = "WHERE from_position<? ORDER BY from_position DESC LIMIT ?"
    return _tombstones(db, rest, (before, limit))


def revocations_of(db: apsw.Connection, entity: str) -> list[TombstoneRevocationRow]:
    """Every revocation of an entity's tombstones, oldest first."""
    source = """
    FROM tombstone_revocations AS ended WHERE EXISTS
        (SELECT 1 FROM tombstones AS stone WHERE stone.entity=?
            AND stone.tombstone_id=ended.tombstone_id AND ended.node_id IN (stone.node_id, ?))
        ORDER BY position
    """
    return rows_as(TombstoneRevocationRow, db, source, (entity, HERE))


def changes_after(
    db: apsw.Connection, after: int, limit: int
) -> list[tuple[int, TombstoneRow | TombstoneRevocationRow]]:
    """Tombstones that this node signed, and their revocations, after a position and in log order;
    each with its position."""
    rest = "WHERE node_id=? AND from_position>? ORDER BY from_position LIMIT ?"
    source = "FROM tombstone_revocations WHERE node_id=? AND position>? ORDER BY position LIMIT ?"
    bindings = (HERE, after, limit)
    found: list[tuple[int, TombstoneRow | TombstoneRevocationRow]] = []
    for row in _tombstones(db, rest, bindings):
        found.append((row.from_position, row))
    for row in rows_as(TombstoneRevocationRow, db, source, bindings):
        found.append((row.position, row))
    found.sort(key=lambda each: each[0])
    return found[:limit]


def _as_read(stone: TombstoneRow | TombstoneSet) -> Tombstone:
    """The part of a tombstone that readers need, from its row or its event."""
    return Tombstone(
        stone.tombstone_id, stone.entity, stone.entity_uri, frozenset(stone.scopes),
        stone.created_at, stone.legal_hold, stone.node_id,
    )  # fmt: skip


def _revokes(revocation: TombstoneRevoked, tombstone_id: str, node_id: str | None) -> bool:
    """Whether a revocation ends this tombstone: a peer may revoke only its own."""
    return tombstone_id == revocation.tombstone_id and revocation.node_id in (None, node_id)


class TombstonesPart(SmallPart):
    """What the tombstones in force hide; replaced as a whole on every change, and once every part
    has forgotten erased facts."""

    kinds = frozenset({"fact_asserted", "conflict_resolved", *TombstonesProjector.kinds})

    def __init__(self, facts: FactColumns, resolutions: ResolutionsPart) -> None:
        self._facts = facts
        self._resolutions = resolutions
        self._entities = 0
        self._awaited: frozenset[str] = frozenset()
        self.hiding = Hiding((), facts.entities, {})

    def load(self, db: apsw.Connection) -> None:
        self.hide([_as_read(each) for each in tombstones_in_force(db)])

    def fold(self, events: Sequence[Recorded]) -> None:
        kinds = {type(event.payload) for event in events}
        # Facts change what is hidden only by the names that they bring.
        if kinds.isdisjoint((TombstoneSet, TombstoneRevoked)) and (
            not self.hiding or (kinds == {FactAsserted} and not self._awaited_name_arrived())
        ):
            return
        in_force = {(each.tombstone_id, each.node_id): each for each in self.hiding.tombstones}
        for event in events:
            payload = event.payload
            if isinstance(payload, TombstoneSet):
                in_force[payload.tombstone_id, payload.node_id] = _as_read(payload)
            elif isinstance(payload, TombstoneRevoked):
                for key in [key for key in in_force if _revokes(payload, *key)]:
                    del in_force[key]
        self.hide(in_force.values())

    def _awaited_name_arrived(self) -> bool:
        """Whether a fact names an entity that a tombstone hides, or is one that a resolution's note
        waits for."""
        fresh = self._facts.entities.since(self._entities)
        self._entities += len(fresh)
        return not self.hiding.names.keys().isdisjoint(fresh) or any(
            name in self._facts.slot_of for name in self._awaited
        )

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.hiding.tombstones)

    def restore(self, state: bytes) -> None:
        self.hide(msgspec.msgpack.decode(state, type=list[Tombstone]))

    def hide(self, tombstones: Iterable[Tombstone]) -> None:
        """Hide what these tombstones cover. The image may be of the past, but hiding follows the
        present, so the caller passes the tombstones."""
        self._entities = len(self._facts.entities)
        self._awaited = self._resolutions.awaited()
        self.hiding = Hiding(tombstones, self._facts.entities, self._resolutions.notes())
