"""Facts in the form of answers."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from engramlog.api.answers.fact_record import (
    FactRecord,
    WireAttributes,
    WireParent,
    WireValue,
    wire_hash,
)
from engramlog.api.schemas.values import wire_v
from engramlog.eventlog.clock import format_hlc
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, FactAttributes
from engramlog.projections.arrays import I32, Slots
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.facts.fact_rows import FactRow

_encode = msgspec.json.Encoder().encode
_TEXTS = frozenset({"text", "string", "ref", "datetime"})
"""Types of values that are text on the wire too."""


class Volatile(Struct, frozen=True, gc=False):
    """The fields of a fact that depend on moment and caller."""

    confidence: float
    contradicted: bool
    source_trust: float | None = None
    quarantine: str | None = None
    """The fact's state in a quarantine garden: ``pending``, ``promoted``, ``rejected`` or
    ``withdrawn``; None for facts outside quarantine."""
    attributes: FactAttributes | None = None
    """None if the fact has no attributes."""


def volatile_of(
    view: View, slots: I32, moment: Moment, authorization: Authorization
) -> list[Volatile]:
    """The moment's numbers for each slot, in order."""
    numbers = _numbers_of(view, slots, moment, authorization)
    waiting = quarantine_of(view, slots, moment)
    attributes = view.stated_attributes(slots, moment)
    return [
        Volatile(c, k, t, q, a) for c, k, t, q, a in zip(*numbers, waiting, attributes, strict=True)
    ]


def volatile_of_one(
    view: View, slot: int, moment: Moment, authorization: Authorization
) -> Volatile:
    """``volatile_of`` of one slot."""
    confidence, contradicted, trust = _numbers_of(view, np.int32(slot), moment, authorization)
    (waiting,) = quarantine_of(view, [slot], moment)
    attributes = view.attributes_of(slot, moment)
    return Volatile(confidence, contradicted, trust, waiting, attributes)


def _numbers_of(
    view: View, slots: Slots, moment: Moment, authorization: Authorization
) -> tuple[Any, Any, Any]:
    """Confidence, contradiction and trust: a list of each, or the values of one slot."""
    confidence = view.confidence(slots, moment)
    # of the facts that stand: confidence may also decay to 0
    standing = (view.to_position[slots] > moment.position) & (view.base[slots] > 0.0)
    contradicted = are_contradicted(view, slots, moment, authorization) & standing
    trust = view.trust(slots, moment)
    return confidence.tolist(), contradicted.tolist(), trust.tolist()


def quarantine_of(view: View, slots: Sequence[int] | I32, moment: Moment) -> list[str | None]:
    """``Volatile.quarantine`` of each slot."""
    found: list[str | None] = [None] * len(slots)
    if not view.has_quarantine:
        return found
    chosen: I32 = np.asarray(slots, dtype=np.int32)
    for index in np.flatnonzero(view.in_quarantine(chosen)).tolist():
        slot = int(chosen[index])
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
) -> list[FactRecord]:
    """Full records of slots, in order, as a GET answers them."""
    chosen: I32 = np.asarray(slots, dtype=np.int32)
    rows = reader.every_row(view.from_position[chosen].tolist())
    numbers = volatile_of(view, chosen, moment, authorization)
    return [record_of(row, now, node_id) for row, now in zip(rows, numbers, strict=True)]


def record_of(
    row: FactRow, now: Volatile, node_id: str, warnings: list[str] | None = None
) -> FactRecord:
    """A stored fact in wire form. Runs for every fact of every answer, so it passes the fields by
    position, in the order of ``FactRecord``: 14 times faster than by name."""
    value_type, v = row.value_type, row.value_v
    if value_type not in _TEXTS:
        v = wire_v(value_type, v)
    key_id = attested = None
    if row.attestation_json is not None:
        attestation = row.attestation
        assert attestation is not None
        key_id = attestation.key_id
        attested = row.received_from is None  # nothing here proves what a peer says of a key
    confidence, trust, quarantine = now.confidence, now.source_trust, now.quarantine
    attributes = now.attributes
    return FactRecord(
        row.id, row.entity, row.relation,
        WireValue(value_type, v, row.interpret_as),  # pyright: ignore[reportArgumentType]
        row.source, format_instant(row.recorded_at), format_hlc(row.hlc), row.received_from,
        row.valid_until, confidence,
        row.scope,  # pyright: ignore[reportArgumentType]
        key_id, None if (row.origin, row.received_from) == (node_id, None) else row.origin,
        None,  # origin_allowed_scopes
        row.garden_id, attested, now.contradicted,
        [] if warnings is None else warnings,
        trust, quarantine, None if quarantine is None else row.garden_id,
        None if trust is None else round(confidence * trust, 6),
        [], False,  # the sanitizer's
        row.cid or None,
        [] if row.parents_json == "[]" else [
            WireParent(fact_id=parent.fact_id or UNSET, hash=wire_hash(parent.hash))
            for parent in row.derived_from
        ],
        row.valid_from, row.from_position,
        UNSET if attributes is None else WireAttributes(**msgspec.structs.asdict(attributes)),
    )  # fmt: skip


def record_of_event(event: Recorded, now: Volatile, warnings: list[str]) -> FactRecord:
    """A fact just written, from its event; reads no table."""
    fact, header = event.payload, event.header
    assert isinstance(fact, FactAsserted)
    value, parents, attestation = fact.value, fact.derived_from, fact.attestation
    if fact.attributes is not None:
        now = msgspec.structs.replace(now, attributes=fact.attributes)
    row = FactRow(
        event.position, fact.id or id_text(event.event_id), fact.entity, fact.relation,
        value.type, value.v, value.interpret_as, fact.source, fact.scope, fact.garden_id,
        fact.confidence, fact.valid_from, fact.valid_until, header.hlc, header.recorded_at,
        fact.cid, _encode(parents).decode() if parents else "[]", fact.write_mode, header.actor,
        header.origin, None, None if attestation is None else _encode(attestation).decode(),
    )  # fmt: skip
    return record_of(row, now, header.origin, warnings)
