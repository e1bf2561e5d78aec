"""A fact without what the node and the protocol note beside it."""

from __future__ import annotations

from msgspec import Struct

from engramlog.api.answers.fact_record import WireValue
from engramlog.api.schemas.values import Scope


class ShortFact(Struct):
    """What a fact states."""

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
