"""Peers: which nodes may replay this node, which it replays, their streams' progress, evidence."""

from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    PeerDeclared,
    PeerEquivocated,
    PeerGrants,
    PeerPageReceived,
    PeerStateSet,
)
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row, rows_as

_encode = msgspec.json.Encoder().encode
_decode_grants = msgspec.json.Decoder(PeerGrants).decode
_OVER_OTHERS = ("retract_foreign", "resolve_foreign", "erase_foreign")


class PeersProjector(Projector):
    """``peers``, ``peer_streams``, ``peer_evidence`` and ``refused_events``."""

    name = "peers"
    version = 2
    schema = """
    CREATE TABLE peers (
        peer_id TEXT NOT NULL PRIMARY KEY,
        node_id TEXT NOT NULL,
        node_url TEXT NOT NULL,
        public_key TEXT NOT NULL,
        allowed_scopes TEXT NOT NULL,
        signed_at TEXT NOT NULL,
        signature TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        grants TEXT,
        declared_at INTEGER NOT NULL,
        established_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE peer_streams (
        stream TEXT NOT NULL PRIMARY KEY,
        node_id TEXT NOT NULL,
        last_seq INTEGER NOT NULL,
        statement TEXT,
        received_at INTEGER NOT NULL,
        held INTEGER NOT NULL DEFAULT 0,
        reason TEXT NOT NULL DEFAULT ''
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE peer_evidence (
        position INTEGER PRIMARY KEY,
        node_id TEXT NOT NULL,
        stream TEXT NOT NULL,
        sort TEXT NOT NULL,
        detail TEXT NOT NULL,
        earlier TEXT NOT NULL,
        later TEXT NOT NULL
    ) STRICT;
    CREATE TABLE refused_events (
        stream TEXT NOT NULL,
        stream_seq INTEGER NOT NULL,
        node_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (stream, stream_seq)
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = "CREATE INDEX peers_by_node ON peers (node_id);"
    kinds = frozenset({"peer_declared", "peer_state_set", "peer_page_received", "peer_equivocated"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, PeerDeclared):
            _declare(event, payload, db)
        elif isinstance(payload, PeerStateSet):
            _set(event, payload, db)
        elif isinstance(payload, PeerPageReceived):
            db.execute(
                "INSERT INTO peer_streams (stream, node_id, last_seq, statement, received_at)"
                " VALUES (?,?,?,?,?) ON CONFLICT (stream) DO UPDATE SET"
                " last_seq = excluded.last_seq, statement = excluded.statement,"
                " received_at = excluded.received_at",
                (payload.stream, payload.node_id, payload.last_seq,
                 _encode(payload.statement).decode(), event.received_at),
            )  # fmt: skip
            for each in payload.refused:
                insert_row(db, "refused_events", event, part=each, or_ignore=True)
        elif isinstance(payload, PeerEquivocated):
            insert_row(db, "peer_evidence", event)


def _declare(event: Recorded, declared: PeerDeclared, db: apsw.Connection) -> None:
    # A rejected or revoked declaration makes room for a new one of the same node.
    db.execute(
        "DELETE FROM peers WHERE node_id=? AND state IN ('rejected', 'revoked')",
        (declared.node_id,),
    )
    at, reason = event.received_at, declared.fault
    state = "rejected" if reason else "pending"
    insert_row(db, "peers", event, state=state, reason=reason, declared_at=at, or_ignore=True)


def _set(event: Recorded, change: PeerStateSet, db: apsw.Connection) -> None:
    peer = query_one(db, "SELECT node_id FROM peers WHERE peer_id=?", (change.peer_id,))
    if peer is None:
        return
    if change.stream is not None:
        db.execute(
            "INSERT INTO peer_streams (stream, node_id, last_seq, received_at, held, reason)"
            " VALUES (?,?,0,?,?,?) ON CONFLICT (stream) DO UPDATE SET"
            " held = excluded.held, reason = excluded.reason",
            (change.stream, peer[0], event.received_at, int(bool(change.held)), change.reason),
        )
        return
    grants = None if change.grants is None else _encode(change.grants).decode()
    db.execute(
        "UPDATE peers SET state = coalesce(?, state), grants = coalesce(?, grants),"
        " public_key = coalesce(?, public_key), node_url = coalesce(?, node_url), reason = ?,"
        " established_at = CASE WHEN ? = 'active' THEN coalesce(established_at, ?)"
        " ELSE established_at END WHERE peer_id = ?",
        (change.state, grants, change.public_key, change.node_url, change.reason, change.state,
         event.received_at, change.peer_id),
    )  # fmt: skip


def peer_grants(db: apsw.Connection, node_id: str) -> frozenset[str]:
    """The approved peer's grants over facts of other nodes, by name."""
    row = query_one(db, "SELECT grants FROM peers WHERE node_id=? AND state='active'", (node_id,))
    if row is None or row[0] is None:
        return frozenset()
    grants = _decode_grants(row[0])
    return frozenset(name for name in _OVER_OTHERS if getattr(grants, name))


class PeerRow(Struct, frozen=True):
    """One peer; times in microseconds."""

    peer_id: str
    node_id: str
    node_url: str
    public_key: str
    allowed_scopes: list[str]
    signed_at: str
    signature: str
    state: str
    reason: str
    grants: PeerGrants | None
    declared_at: int
    established_at: int | None

    @property
    def active(self) -> bool:
        return self.state == "active"

    @property
    def approval(self) -> tuple[str, str, PeerGrants | None]:
        """What the operators here decided about it."""
        return self.peer_id, self.state, self.grants

    @property
    def scopes(self) -> frozenset[str]:
        """Those that the peer offers and that are granted to it."""
        granted = self.allowed_scopes if self.grants is None else self.grants.scopes
        return frozenset(granted) & frozenset(self.allowed_scopes)

    @property
    def served(self) -> bool:
        """Whether it may fetch facts of this node."""
        return self.grants is not None and self.grants.serve

    @property
    def pulled(self) -> str | None:
        """How this node fetches its facts: ``events`` or ``facts``; None if it does not."""
        return None if self.grants is None or not self.grants.pull else self.grants.wire


class PeerStream(Struct, frozen=True):
    """How far this node replayed one stream of a peer; ``statement`` is its last signed head."""

    stream: str
    node_id: str
    last_seq: int
    statement: dict[str, Any] | None
    received_at: int
    held: bool
    reason: str


class EquivocationEvidence(Struct, frozen=True):
    """Two statements of a peer that contradict each other."""

    position: int
    node_id: str
    stream: str
    sort: str
    detail: str
    earlier: dict[str, Any]
    later: dict[str, Any]


def load_peers(db: apsw.Connection) -> list[PeerRow]:
    """All peers, oldest first."""
    return rows_as(PeerRow, db, "FROM peers ORDER BY declared_at, peer_id")


def load_peer_streams(db: apsw.Connection) -> list[PeerStream]:
    """Every stream of peers that this node replayed or holds."""
    return rows_as(PeerStream, db, "FROM peer_streams ORDER BY stream")


def load_evidence(db: apsw.Connection) -> list[EquivocationEvidence]:
    """Contradictions of peers, oldest first."""
    return rows_as(EquivocationEvidence, db, "FROM peer_evidence ORDER BY position")
