"""``manifests``: every manifest, an entity's newest last."""

from typing import Any

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.projections.tables.database import query
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row, rows_as


class ManifestRow(Struct, frozen=True):
    """One manifest. Times in microseconds; ``document`` as signed."""

    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    document: dict[str, Any]

    @property
    def entities(self) -> frozenset[str]:
        """The entities that it covers, as it writes them."""
        return frozenset(map(str, self.document.get("entities", ())))


class ManifestsProjector(Projector):
    """Rows of ``manifests``."""

    name = "manifests"
    version = 1
    schema = """
    CREATE TABLE manifests (
        position INTEGER PRIMARY KEY,
        entity_uri TEXT NOT NULL,
        key_id TEXT NOT NULL,
        public_key TEXT NOT NULL,
        issued_at_us INTEGER NOT NULL,
        expires_at_us INTEGER NOT NULL,
        put_at INTEGER NOT NULL,
        document TEXT NOT NULL
    ) STRICT;
    """
    late_indexes = "CREATE INDEX manifests_of ON manifests (entity_uri, put_at);"
    kinds = frozenset({"org_manifest_set"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        insert_row(db, "manifests", event, put_at=event.header.recorded_at)


def load_manifest(db: apsw.Connection, entity_uri: str) -> ManifestRow | None:
    """The newest manifest of an entity (stored form), expired or not."""
    rows = rows_as(
        ManifestRow,
        db,
        "FROM manifests WHERE entity_uri=? ORDER BY position DESC LIMIT 1",
        (entity_uri,),
    )
    return rows[0] if rows else None


def puts_since(db: apsw.Connection, entity_uri: str, since_us: int) -> int:
    """How many manifests of the entity arrived after an instant."""
    sql = "SELECT count(*) FROM manifests WHERE entity_uri=? AND put_at>?"
    return int(query(db, sql, (entity_uri, since_us))[0][0])
