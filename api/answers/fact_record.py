"""Facts and moments in answers. ``wire_facts.py`` builds the facts."""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from engramlog.api.schemas.values import ValueType
from engramlog.eventlog.kinds import FactAttributes, Scope
from engramlog.projections.moment import Moment, format_instant

Warnings: TypeAlias = list[str] | UnsetType
"""The ignored parts of the request, and matches that are omitted; absent if empty."""


class Warned(Struct, kw_only=True):
    """An answer that ends with the request's warnings."""

    warnings: Warnings = UNSET


class WireValue(Struct, gc=False):
    """``v``: text, a number, true, false or null, depending on ``type``."""

    type: ValueType
    v: str | float | bool | None
    interpret_as: Literal["content", "instruction"]


class WireParent(Struct, kw_only=True, gc=False):
    """A parent of this fact."""

    fact_id: str | UnsetType = UNSET
    hash: str


class WireAttributes(FactAttributes, frozen=True, omit_defaults=False, gc=False):
    """All attributes of a fact; defaults for missing ones."""


def wire_hash(digits: str) -> str:
    """A content id in the form of answers."""
    return f"sha256:{digits}"


class FactRecord(Struct, gc=False):
    """A fact as of the moment: the protocol's keys in the protocol's order, then ours."""

    id: str
    entity: str
    relation: str
    value: WireValue
    source: str
    timestamp: str
    hlc: str
    received_from: str | None
    valid_until: str | None
    confidence: float
    scope: Scope
    attested_key_id: str | None
    origin_node_id: str | None
    origin_allowed_scopes: list[str] | None
    garden_id: str | None
    attested: bool | None
    contradicted: bool
    warnings: list[str]
    source_trust: float | None
    quarantine_status: str | None
    quarantine_garden_id: str | None
    effective_confidence: float | None
    sanitizer_warnings: list[str]
    sanitizer_redacted: bool
    cid: str | None
    derived_from: list[WireParent]
    valid_from: str | None
    position: int
    attributes: WireAttributes | UnsetType = UNSET
    recorded_cid: str | UnsetType | None = UNSET
    sanitized: bool | UnsetType = UNSET
    sanitizer_stripped: list[str] | UnsetType = UNSET
    embedded: bool | UnsetType = UNSET
    confidence_before: float | UnsetType = UNSET
    confidence_after: float | UnsetType = UNSET
    retracted_at_position: int | UnsetType = UNSET


class MomentRecord(Struct):
    """The moment of an answer."""

    position: int
    instant: str


def wire_moment(moment: Moment) -> MomentRecord:
    """A moment in the form of answers."""
    return MomentRecord(moment.position, format_instant(moment.instant_us))


class ShortFact(Struct):
    """The statement of a fact; ``received_from``: the peer that it came through, which may name any
    source. It is absent for facts stated here, as ``sanitizer_warnings`` are without a finding."""

    id: str
    entity: str
    relation: str
    value: WireValue
    source: str
    timestamp: str
    valid_from: str | None
    valid_until: str | None
    confidence: float
    scope: Scope
    contradicted: bool
    received_from: str | UnsetType | None = UNSET
    sanitizer_warnings: list[str] | UnsetType = UNSET
