"""Tombstones and revocations as the wire carries them."""

from __future__ import annotations

from msgspec import Struct

from engramlog.api.answers.fact_record import Record
from engramlog.projections.tables.facts.tombstones import TombstoneRevocationRow, TombstoneRow


class TombstoneNotice(Struct):
    """For admins: a tombstone that hides something of an answer."""

    entity_uri: str
    tombstone_id: str
    tombstone_created_at: str
    legal_hold: bool


def tombstone_record(row: TombstoneRow) -> Record:
    """A tombstone as it was signed."""
    return {
        "id": row.tombstone_id,
        "entity_uri": row.entity_uri,
        "scope": row.scope,
        "reason": row.reason,
        "signed_by": row.signed_by,
        "key_id": row.key_id,
        "signature": row.signature,
        "created_at": row.created_at,
        "legal_hold": row.legal_hold,
    }


def revocation_record(row: TombstoneRevocationRow) -> Record:
    """A revocation as it was signed."""
    return {
        "id": row.revocation_id,
        "tombstone_id": row.tombstone_id,
        "reason": row.reason,
        "signed_by": row.signed_by,
        "key_id": row.key_id,
        "signature": row.signature,
        "created_at": row.created_at,
    }
