"""Answers about erasures, legal holds and tombstones."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import Warned, Warnings
from engramlog.api.answers.same_fields import shaped
from engramlog.eventlog.kinds import ErasureReason
from engramlog.projections.tables.facts.tombstones import TombstoneRevocationRow, TombstoneRow


class SignedReceipt(Struct):
    """The receipt's document as ``signed``, and the signature."""

    document: dict[str, Any]
    signed: str
    signature: str


class ErasureRecord(Struct):
    """The state of an erasure. ``clean``: no file contains any of it; ``receipt`` confirms this
    under the node's key. ``step`` and ``error``: of the cleaning in progress."""

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
    """``derived_fact_ids``: facts derived from erased ones, which stay. ``episode_ids``: episodes
    behind erased facts, which stay."""

    fact_ids: list[str]
    derived_fact_ids: list[str]
    episode_ids: list[str]


class HoldRecord(Struct):
    """A fact or entity under legal hold. ``tombstone_id``: the tombstone that holds it, until it is
    revoked; null: released by itself."""

    target_kind: Literal["fact", "entity"]
    target: str
    actor: str
    set_at: str
    reason: str
    tombstone_id: str | None


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
    """``erasure``: the requested one, if it erased anything."""

    erasure: ErasureBegun | UnsetType = UNSET
    warnings: Warnings = UNSET


class ListedTombstone(TombstoneRecord):
    """``stands``: whether it is in force; ``node_id``: the peer that sent it."""

    stands: bool
    node_id: str | None
    position: int


class RevocationRecord(Warned):
    """The end of a tombstone as its node signed it."""

    id: str
    tombstone_id: str
    signed_by: str
    key_id: str
    created_at: str
    reason: str
    signature: str


class TombstoneNotice(Struct):
    """For admins: a tombstone that hides a part of an answer."""

    entity_uri: str
    tombstone_id: str
    tombstone_created_at: str
    legal_hold: bool


def tombstone_record(row: TombstoneRow) -> TombstoneRecord:
    return shaped(row, TombstoneRecord, id=row.tombstone_id)


def revocation_record(row: TombstoneRevocationRow) -> RevocationRecord:
    return shaped(row, RevocationRecord, id=row.revocation_id)
