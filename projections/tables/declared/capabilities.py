"""``capabilities``: tokens that this node signed. ``capability_revocations``: revocations of any
node's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import CapabilityIssued, CapabilityRevoked
from engramlog.projections.tables.database import query


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
    key_id: str | None
    description: str | None


class CapabilityRevocationRow(Struct, frozen=True):
    """One revocation: the issuing node, and the token it revoked."""

    node_id: str
    revocation_id: str
    revoked_at_us: int
    reason: str


class CapabilitiesProjector:
    """Both tables. A revocation may precede its token, and may repeat."""

    name = "capabilities"
    version = 1
    tables = ("capabilities", "capability_revocations")
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
    CREATE TABLE capability_revocations (
        node_id TEXT NOT NULL,
        revocation_id TEXT NOT NULL,
        revoked_at_us INTEGER NOT NULL,
        reason TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        PRIMARY KEY (node_id, revocation_id)
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = ""
    kinds = frozenset({"capability_issued", "capability_revoked"})
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            payload = event.payload
            if isinstance(payload, CapabilityIssued):
                if event.peer is not None:
                    continue  # each node lists only the tokens that it signed
                db.execute(
                    "INSERT INTO capabilities VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                    (
                        payload.token_id,
                        payload.issuer,
                        payload.subject,
                        payload.verb,
                        payload.object,
                        event.header.recorded_at,
                        payload.expires_at_us,
                        payload.token_sha256,
                        payload.key_id,
                        payload.description,
                        event.position,
                    ),
                )
            elif isinstance(payload, CapabilityRevoked):
                db.execute(
                    "INSERT OR IGNORE INTO capability_revocations VALUES (?,?,?,?,?)",
                    (
                        event.header.origin,
                        payload.revocation_id,
                        event.header.recorded_at,
                        payload.reason,
                        event.position,
                    ),
                )


_COLUMNS = """token_id, issuer, subject, verb, object, issued_at_us, expires_at_us,
    token_sha256, key_id, description"""


def load_capabilities(db: apsw.Connection) -> list[CapabilityRow]:
    """Every token this node ever signed, oldest first."""
    rows = query(db, f"SELECT {_COLUMNS} FROM capabilities ORDER BY from_position")
    return [CapabilityRow(*row) for row in rows]


def load_revocations(db: apsw.Connection) -> list[CapabilityRevocationRow]:
    """Every revocation this node knows of, oldest first."""
    rows = query(
        db,
        "SELECT node_id, revocation_id, revoked_at_us, reason FROM capability_revocations"
        " ORDER BY from_position",
    )
    return [CapabilityRevocationRow(*row) for row in rows]
