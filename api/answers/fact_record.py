"""The models of facts and moments in answers. ``wire_facts.py`` builds the facts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from engramlog.api.schemas.values import Scope, ValueType
from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.normalization import SCOPES

Record: TypeAlias = Annotated[
    dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/FactRecord"})
]
"""A fact in the form of ``FactRecord``, with the keys that a route adds."""
WireScope: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": list(SCOPES)})]
"""The name of a scope."""
Warnings: TypeAlias = list[str] | UnsetType
"""The ignored parts of the request; omitted if empty."""


class WireValue(Struct):
    """``v``: text, a number, true, false or null, depending on ``type``."""

    type: ValueType
    v: str | float | bool | None
    interpret_as: Literal["content", "instruction"]


class WireParent(Struct):
    """A parent of this fact."""

    hash: str
    fact_id: str | UnsetType = UNSET


def wire_hash(digits: str) -> str:
    """A content id in the form of answers."""
    return f"sha256:{digits}"


class FactRecord(Struct):
    """A fact as of the moment."""

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
    sanitized: bool | UnsetType = UNSET
    recorded_cid: str | UnsetType = UNSET
    attributes: FactAttributes | UnsetType = UNSET
    embedded: bool | UnsetType = UNSET


class MomentRecord(Struct):
    """The moment of an answer."""

    position: int
    instant: str


def wire_moment(moment: Moment) -> MomentRecord:
    """A moment in the form of answers."""
    return MomentRecord(moment.position, format_instant(moment.instant_us))


class ShortFact(Struct):
    """The statement of a fact."""

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
