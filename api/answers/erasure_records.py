"""What was erased, may not be erased, or is hidden by a tombstone, as answers carry it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import Warnings
from engramlog.eventlog.kinds import ErasureReason
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.erasures import LegalHold
from engramlog.projections.tables.facts.tombstones import TombstoneRevocationRow, TombstoneRow


class SignedReceipt(Struct):
    """The receipt's document, as it was ``signed``, and the signature."""

    document: dict[str, Any]
    signed: str
    signature: str


class ErasureRecord(Struct):
    """The state of an erasure. ``clean``: nothing of it is left in any file; ``receipt`` says
    so under the node's key. ``step`` and ``error``: of the cleaning that is under way."""

    erasure_id: str
    status: Literal["cleaning", "clean"]
    reason: ErasureReason
    actor: str
    position: int
    requested_at: str
    facts: int
    events: int
    step: str | None
    error: str | None
    receipt: SignedReceipt | None


class ErasureBegun(ErasureRecord):
    """``derived_fact_ids``: facts that stay, although they were derived from erased ones.
    ``episode_ids``: episodes that stay, although erased facts were made from them."""

    fact_ids: list[str]
    derived_fact_ids: list[str]
    episode_ids: list[str]


class HoldRecord(Struct):
    """What may not be erased."""

    target_kind: Literal["fact", "entity"]
    target: str
    actor: str
    set_at: str


class TombstoneRecord(Struct):
    """A tombstone as its node signed it."""

    id: str
    entity_uri: str
    scope: str
    reason: str | None
    signed_by: str
    key_id: str
    signature: str
    created_at: str
    legal_hold: bool


class TombstoneMade(TombstoneRecord):
    """``erasure``: the requested one, if anything had to be erased."""

    erasure: ErasureBegun | UnsetType = UNSET
    warnings: Warnings = UNSET


class ListedTombstone(TombstoneRecord):
    """``stands``: whether it is in force; ``node_id``: the peer that it came from."""

    stands: bool
    node_id: str | None
    position: int


class RevocationRecord(Struct):
    """The end of a tombstone as its node signed it."""

    id: str
    tombstone_id: str
    signed_by: str
    key_id: str
    created_at: str
    reason: str
    signature: str
    warnings: Warnings = UNSET


class TombstoneNotice(Struct):
    """For admins: a tombstone that hides something of an answer."""

    entity_uri: str
    tombstone_id: str
    tombstone_created_at: str
    legal_hold: bool


def hold_record(hold: LegalHold) -> HoldRecord:
    """A legal hold as answers carry it."""
    return HoldRecord(hold.target_kind, hold.target, hold.actor, format_instant(hold.set_at))


def tombstone_record(row: TombstoneRow) -> TombstoneRecord:
    """A tombstone as it was signed."""
    return TombstoneRecord(
        id=row.tombstone_id,
        entity_uri=row.entity_uri,
        scope=row.scope,
        reason=row.reason,
        signed_by=row.signed_by,
        key_id=row.key_id,
        signature=row.signature,
        created_at=row.created_at,
        legal_hold=row.legal_hold,
    )


def revocation_record(row: TombstoneRevocationRow) -> RevocationRecord:
    """A revocation as it was signed."""
    return RevocationRecord(
        id=row.revocation_id,
        tombstone_id=row.tombstone_id,
        signed_by=row.signed_by,
        key_id=row.key_id,
        created_at=row.created_at,
        reason=row.reason,
        signature=row.signature,
    )
