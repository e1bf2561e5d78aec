"""``manifests``: every manifest, an entity's newest last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import OrgManifestSet
from engramlog.projections.tables.database import query, query_one

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ManifestRow(Struct, frozen=True):
    """One manifest. Times in microseconds; ``document`` as signed."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    document: dict[str, Any]

    @property
    def entities(self) -> frozenset[str]:
        """The entities that it covers, as it writes them."""
        return frozenset(map(str, self.document.get("entities", ())))


class ManifestsProjector:
    """Rows of ``manifests``."""

    name = "manifests"
    version = 1
    tables = ("manifests",)
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
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            payload = event.payload
            assert isinstance(payload, OrgManifestSet)
            db.execute(
                "INSERT INTO manifests VALUES (?,?,?,?,?,?,?,?)",
                (
                    event.position,
                    payload.entity_uri,
                    payload.key_id,
                    payload.public_key,
                    payload.issued_at_us,
                    payload.expires_at_us,
                    event.header.recorded_at,
                    _encode(payload.document).decode(),
                ),
            )


def load_manifest(db: apsw.Connection, entity_uri: str) -> ManifestRow | None:
    """The newest manifest of an entity (stored form), expired or not."""
    row = query_one(
        db,
        "SELECT entity_uri, key_id, public_key, issued_at_us, expires_at_us, document"
        " FROM manifests WHERE entity_uri=? ORDER BY position DESC LIMIT 1",
        (entity_uri,),
    )
    if row is None:
        return None
    entity, key_id, public_key, issued, expires, document = row
    return ManifestRow(entity, key_id, public_key, issued, expires, _decode(document))


def puts_since(db: apsw.Connection, entity_uri: str, since_us: int) -> int:
    """How many manifests of the entity arrived after an instant."""
    sql = "SELECT count(*) FROM manifests WHERE entity_uri=? AND put_at>?"
    return int(query(db, sql, (entity_uri, since_us))[0][0])
