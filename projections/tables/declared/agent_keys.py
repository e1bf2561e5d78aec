"""``agent_keys``: the public keys with which agents sign their facts (wire 1.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import AgentKeySet
from engramlog.projections.tables.database import query


class AgentKeyRow(Struct, frozen=True):
    """One registered key; ``public_key`` is base64url without padding, times in microseconds."""

    key_id: str
    entity_uri: str
    public_key: str
    description: str | None
    registered_at: int
    status: Literal["active", "revoked"]


class AgentKeysProjector:
    """Rows of ``agent_keys``: the latest state of each key."""

    name = "agent_keys"
    version = 1
    tables = ("agent_keys",)
    schema = """
    CREATE TABLE agent_keys (
        key_id TEXT PRIMARY KEY,
        entity_uri TEXT NOT NULL,
        public_key TEXT NOT NULL,
        description TEXT,
        registered_at INTEGER NOT NULL,
        status TEXT NOT NULL,
        from_position INTEGER NOT NULL
    ) STRICT;
    """
    late_indexes = ""
    kinds = frozenset({"agent_key_set"})
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            key = event.payload
            assert isinstance(key, AgentKeySet)
            db.execute(
                "INSERT INTO agent_keys VALUES (?,?,?,?,?,?,?)"
                " ON CONFLICT DO UPDATE SET status=excluded.status",
                (
                    key.key_id,
                    key.entity_uri,
                    key.public_key,
                    key.description,
                    event.header.recorded_at,
                    key.status,
                    event.position,
                ),
            )


def load_agent_keys(db: apsw.Connection) -> dict[str, AgentKeyRow]:
    """Every key ever registered, by id, newest first."""
    rows = query(
        db,
        "SELECT key_id, entity_uri, public_key, description, registered_at, status"
        " FROM agent_keys ORDER BY from_position DESC",
    )
    return {row[0]: AgentKeyRow(*row) for row in rows}
