"""``agent_keys``: the public keys with which agents sign their facts (wire 1.6)."""

from typing import Literal

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import AgentKeySet
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row, rows_as


class AgentKeyRow(Struct, frozen=True):
    """One registered key; ``public_key`` is base64url without padding, times in microseconds."""

    key_id: str
    entity_uri: str
    public_key: str
    description: str | None
    registered_at: int
    status: Literal["active", "revoked"]


class AgentKeysProjector(Projector):
    """Rows of ``agent_keys``: the latest state of each key."""

    name = "agent_keys"
    version = 1
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
    kinds = frozenset({"agent_key_set"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        key = event.payload
        assert isinstance(key, AgentKeySet)
        at = event.header.recorded_at
        insert_row(db, "agent_keys", event, registered_at=at, or_ignore=True)
        db.execute("UPDATE agent_keys SET status=? WHERE key_id=?", (key.status, key.key_id))


def load_agent_keys(db: apsw.Connection) -> dict[str, AgentKeyRow]:
    """Every key ever registered, by id, newest first."""
    rows = rows_as(AgentKeyRow, db, "FROM agent_keys ORDER BY from_position DESC")
    return {row.key_id: row for row in rows}
