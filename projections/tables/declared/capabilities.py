"""``capabilities``: tokens that this node signed. ``capability_revocations``: revocations of any
node's tokens."""

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import CapabilityRevoked
from engramlog.projections.tables.database import query
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row, rows_as


class CapabilityRow(Struct, frozen=True):
    """One issued token. Times in microseconds."""

    token_id: str
    issuer: str
    subject: str
    verb: str
    object: str
    issued_at_us: int
    expires_at_us: int
    token_sha256: str
    description: str | None
    from_position: int


class CapabilitiesProjector(Projector):
    """Both tables. A revocation may precede its token, and may repeat."""

    name = "capabilities"
    version = 2
    schema = """
    CREATE TABLE capabilities (
        token_id TEXT PRIMARY KEY,
        issuer TEXT NOT NULL,
        subject TEXT NOT NULL,
        verb TEXT NOT NULL,
        object TEXT NOT NULL,
        issued_at_us INTEGER NOT NULL,
        expires_at_us INTEGER NOT NULL,
        token_sha256 TEXT NOT NULL,
        key_id TEXT,
        description TEXT,
        from_position INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX capabilities_by_position ON capabilities (from_position);
    CREATE INDEX capabilities_by_issuer ON capabilities (issuer, from_position);
    CREATE TABLE capability_revocations (
        node_id TEXT NOT NULL,
        revocation_id TEXT NOT NULL,
        revoked_at_us INTEGER NOT NULL,
        reason TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        PRIMARY KEY (node_id, revocation_id)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"capability_issued", "capability_revoked"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        node, at = event.header.origin, event.header.recorded_at
        if isinstance(event.payload, CapabilityRevoked):
            table = "capability_revocations"
            insert_row(db, table, event, node_id=node, revoked_at_us=at, or_ignore=True)
        elif event.peer is None:  # each node lists only the tokens that it signed
            insert_row(db, "capabilities", event, issued_at_us=at)


def capability_of(db: apsw.Connection, token_id: str) -> CapabilityRow | None:
    """The token of this id that this node signed, revoked or not."""
    found = rows_as(CapabilityRow, db, "FROM capabilities WHERE token_id=?", (token_id,))
    return found[0] if found else None


def capabilities_before(
    db: apsw.Connection, before: int, limit: int, issuer: str | None
) -> list[CapabilityRow]:
    """Tokens that this node signed before a position, newest first, of one issuer if given."""
    issued = "" if issuer is None else "AND issuer=?3"
    sql = f"FROM capabilities WHERE from_position<?1 {issued} ORDER BY from_position DESC LIMIT ?2"
    asked = (before, limit) if issuer is None else (before, limit, issuer)
    return rows_as(CapabilityRow, db, sql, asked)


def load_revocations(db: apsw.Connection) -> dict[str, set[str]]:
    """Ids of the revocations that this node knows of, by issuing node."""
    found: dict[str, set[str]] = {}
    for node, revocation in query(db, "SELECT node_id, revocation_id FROM capability_revocations"):
        found.setdefault(node, set()).add(revocation)
    return found
