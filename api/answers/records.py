"""The wire form of a fact: the protocol's keys in the protocol's order, ours at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.api.answers.fact_record import Record, wire_hash
from engramlog.api.schemas.values import wire_v
from engramlog.eventlog.clock import format_hlc
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import Attestation, FactAsserted, FactAttributes, Parent, Value
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.facts.fact_rows import FactRow


class Volatile(Struct, frozen=True):
    """What a moment and a caller make of a fact."""

    confidence: float
    contradicted: bool
    source_trust: float | None = None
    quarantine: str | None = None
    """Where the fact stands in a quarantine garden: ``pending``, ``promoted``, ``rejected`` or
    ``withdrawn``; None for facts that are in none."""
    attributes: FactAttributes | None = None
    """None where the fact has none of its own."""

    @property
    def effective(self) -> float | None:
        """Confidence times source trust."""
        return None if self.source_trust is None else round(self.confidence * self.source_trust, 6)


def volatile_of(
    view: View, slots: I32, moment: Moment, authorization: Authorization
) -> list[Volatile]:
    """The moment's numbers for each slot, in order."""
    confidence = view.confidence(slots, moment)
    contradicted = view.contradicted(slots, moment, authorization) & (confidence > 0.0)
    trust = view.trust(slots, moment)
    waiting = quarantine_of(view, slots, moment)
    attributes = view.stated_attributes(slots, moment)
    return [
        Volatile(float(c), bool(k), float(t), q, a)
        for c, k, t, q, a in zip(confidence, contradicted, trust, waiting, attributes, strict=True)
    ]


def quarantine_of(view: View, slots: I32, moment: Moment) -> list[str | None]:
    """``Volatile.quarantine`` of each slot."""
    found: list[str | None] = [None] * len(slots)
    for index in np.flatnonzero(view.in_quarantine(slots)).tolist():
        slot = int(slots[index])
        review = view.review(slot, moment)
        if review is not None:
            found[index] = "promoted" if review == "admitted" else review
        elif view.to_position[slot] > moment.position and view.base[slot] > 0.0:
            found[index] = "pending"
        else:
            found[index] = "withdrawn"
    return found


def records_of(
    reader: Reader,
    view: View,
    slots: Sequence[int] | I32,
    moment: Moment,
    authorization: Authorization,
    node_id: str,
) -> list[Record]:
    """Full records of slots, in order, as a GET answers them."""
    chosen: I32 = np.asarray(slots, dtype=np.int32)
    rows = reader.rows([int(position) for position in view.from_position[chosen]])
    numbers = volatile_of(view, chosen, moment, authorization)
    return [record_of(row, now, node_id) for row, now in zip(rows, numbers, strict=True)]


def record_of(row: FactRow, now: Volatile, node_id: str) -> Record:
    """A stored fact as the wire carries it."""
    value = Value(row.value_type, row.value_v, row.interpret_as)  # pyright: ignore[reportArgumentType]
    return _record(
        fact_id=row.id,
        entity=row.entity,
        relation=row.relation,
        value=value,
        source=row.source,
        recorded_at=row.recorded_at,
        hlc=row.hlc,
        received_from=row.received_from,
        origin=None if row.origin == node_id else row.origin,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        scope=row.scope,
        garden_id=row.garden_id,
        attestation=row.attestation,
        cid=row.cid or None,
        parents=row.derived_from,
        position=row.from_position,
        now=now,
    )


def record_of_event(event: Recorded, now: Volatile, warnings: list[str]) -> Record:
    """A fact just written, from the event that recorded it: no table is read."""
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    return _record(
        fact_id=fact.id or id_text(event.event_id),
        entity=fact.entity,
        relation=fact.relation,
        value=fact.value,
        source=fact.source,
        recorded_at=event.header.recorded_at,
        hlc=event.header.hlc,
        received_from=None,
        origin=None,
        valid_from=fact.valid_from,
        valid_until=fact.valid_until,
        scope=fact.scope,
        garden_id=fact.garden_id,
        attestation=fact.attestation,
        cid=fact.cid or None,
        parents=fact.derived_from,
        position=event.position,
        now=msgspec.structs.replace(now, attributes=fact.attributes),
        warnings=warnings,
    )


def _record(
    *,
    fact_id: str,
    entity: str,
    relation: str,
    value: Value,
    source: str,
    recorded_at: int,
    hlc: int,
    received_from: str | None,
    origin: str | None,
    valid_from: str | None,
    valid_until: str | None,
    scope: str,
    garden_id: str | None,
    attestation: Attestation | None,
    cid: str | None,
    parents: Sequence[Parent],
    position: int,
    now: Volatile,
    warnings: list[str] | None = None,
) -> Record:
    record: Record = {
        "id": fact_id,
        "entity": entity,
        "relation": relation,
        "value": {
            "type": value.type,
            "v": wire_v(value.type, value.v),
            "interpret_as": value.interpret_as,
        },
        "source": source,
        "timestamp": format_instant(recorded_at),
        "hlc": format_hlc(hlc),
        "received_from": received_from,
        "valid_until": valid_until,
        "confidence": now.confidence,
        "scope": scope,
        "attested_key_id": None if attestation is None else attestation.key_id,
        "origin_node_id": origin,
        "origin_allowed_scopes": None,
        "garden_id": garden_id,
        "attested": None if attestation is None else True,
        "contradicted": now.contradicted,
        "warnings": warnings or [],
        "source_trust": now.source_trust,
        "quarantine_status": now.quarantine,
        "quarantine_garden_id": None if now.quarantine is None else garden_id,
        "effective_confidence": now.effective,
        "sanitizer_warnings": [],
        "sanitizer_redacted": False,
        "cid": cid,
        "derived_from": [wire_parent(parent) for parent in parents],
        "valid_from": valid_from,
        "position": position,
    }
    if now.attributes is not None:
        record["attributes"] = wire_attributes(now.attributes)
    return record


def wire_attributes(attributes: FactAttributes) -> dict[str, Any]:
    """All attributes by name; those not given have their defaults."""
    return msgspec.structs.asdict(attributes)


def wire_parent(parent: Parent) -> dict[str, str]:
    """A ``derived_from`` entry, as given."""
    named = {} if parent.fact_id is None else {"fact_id": parent.fact_id}
    return {**named, "hash": wire_hash(parent.hash)}
