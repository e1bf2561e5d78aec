"""API keys: the ``api_keys`` table and the ring that looks them up in constant time.

The table stores only the SHA-256 of a high-entropy key. ``lookup_prefix`` (its first 16 hex digits)
finds the row; the full digest is compared in constant time.
"""

import hmac
from collections.abc import Collection, Sequence

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import KeyIssued, KeyRevoked
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import where_in
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import end_rows, insert_row, rows_as

LOOKUP_PREFIX_LENGTH = 16
_ABSENT = "0" * 64


class KeyRow(Struct, frozen=True):
    """One issued key. Times in microseconds."""

    key_id: str
    entity_uri: str
    permissions: tuple[str, ...]
    scopes: tuple[str, ...]
    sources: tuple[str, ...]
    key_sha256: str
    description: str | None
    created_at_us: int
    expires_at_us: int | None
    tenant_id: str
    max_classification: int
    revoked_position: int | None


class KeysProjector(Projector):
    """Rows of ``api_keys``."""

    name = "keys"
    version = 3
    schema = f"""
    CREATE TABLE api_keys (
        key_id TEXT PRIMARY KEY,
        lookup_prefix TEXT NOT NULL,
        key_sha256 TEXT NOT NULL UNIQUE,
        entity_uri TEXT NOT NULL,
        permissions TEXT NOT NULL,
        scopes TEXT NOT NULL,
        sources TEXT NOT NULL,
        description TEXT,
        created_at_us INTEGER NOT NULL,
        expires_at_us INTEGER,
        tenant_id TEXT NOT NULL,
        max_classification INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE}
    ) STRICT;
    """
    late_indexes = "CREATE INDEX api_keys_by_prefix ON api_keys (lookup_prefix);"
    kinds = frozenset({"key_issued", "key_revoked"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, KeyIssued):
            prefix, at = payload.key_sha256[:LOOKUP_PREFIX_LENGTH], event.header.recorded_at
            insert_row(db, "api_keys", event, lookup_prefix=prefix, created_at_us=at)
        elif isinstance(payload, KeyRevoked):
            end_rows(db, "api_keys", event, key_id=payload.key_id)


def load_keys(db: apsw.Connection, ids: Collection[str] | None = None) -> list[KeyRow]:
    """Keys ever issued, oldest first: all, or those of some ids."""
    where, bindings = where_in("key_id", ids)
    rows = f"(SELECT *, nullif(to_position, {LIVE}) AS revoked_position FROM api_keys)"
    return rows_as(KeyRow, db, f"FROM {rows} WHERE {where} ORDER BY from_position", bindings)


class KeyRing:
    """The unrevoked keys. Immutable: a change makes a new ring, so readers need no lock."""

    def __init__(self, rows: Sequence[KeyRow] = ()) -> None:
        self._by_id = {row.key_id: row for row in rows if row.revoked_position is None}
        self._by_prefix = {
            row.key_sha256[:LOOKUP_PREFIX_LENGTH]: row for row in self._by_id.values()
        }

    def updated(self, rows: Sequence[KeyRow]) -> "KeyRing":
        """This ring with the present state of some keys."""
        ring = KeyRing()
        ring._by_id, ring._by_prefix = dict(self._by_id), dict(self._by_prefix)
        for row in rows:
            prefix = row.key_sha256[:LOOKUP_PREFIX_LENGTH]
            if row.revoked_position is None:
                ring._by_id[row.key_id] = ring._by_prefix[prefix] = row
            elif ring._by_id.pop(row.key_id, None) is not None:
                ring._by_prefix.pop(prefix, None)
        return ring

    def lookup(self, key_sha256: str, now_us: int) -> KeyRow | None:
        """The unrevoked, unexpired key with this digest; found or not, the work is the same."""
        row = self._by_prefix.get(key_sha256[:LOOKUP_PREFIX_LENGTH])
        digest = _ABSENT if row is None else row.key_sha256
        if not hmac.compare_digest(digest, key_sha256) or row is None:
            return None
        return None if row.expires_at_us is not None and row.expires_at_us <= now_us else row

    def list(self, entity_uri: str | None = None) -> list[KeyRow]:
        """Unrevoked keys, oldest first, of one entity if given."""
        return [row for row in self._by_id.values() if entity_uri in (None, row.entity_uri)]

    def get(self, key_id: str) -> KeyRow | None:
        """The unrevoked key of this id."""
        return self._by_id.get(key_id)
