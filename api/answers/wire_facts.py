"""The wire form of facts: the protocol's keys in the protocol's order, ours at the end."""

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
from engramlog.eventlog.kinds import FactAsserted, FactAttributes, Parent
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.facts.fact_rows import FactRow

_encode = msgspec.json.Encoder().encode
_TEXTS = frozenset({"text", "string", "ref", "datetime"})
"""Types of values that are text on the wire too."""


class Volatile(Struct, frozen=True):
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
    confidence = view.confidence(slots, moment)
    contradicted = view.contradicted(slots, moment, authorization) & (confidence > 0.0)
    trust = view.trust(slots, moment)
    waiting = quarantine_of(view, slots, moment)
    attributes = view.stated_attributes(slots, moment)
    return [
        Volatile(c, k, t, q, a)
        for c, k, t, q, a in zip(
            confidence.tolist(),
            contradicted.tolist(),
            trust.tolist(),
            waiting,
            attributes,
            strict=True,
        )
    ]


def quarantine_of(view: View, slots: I32, moment: Moment) -> list[str | None]:
    """``Volatile.quarantine`` of each slot."""
    found: list[str | None] = [None] * len(slots)
    if not view.has_quarantine:
        return found
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
    rows: Sequence[FactRow] | None = None,
) -> list[Record]:
    """Full records of slots, in order, as a GET answers them; ``rows``: the slots' rows, if the
    caller has them."""
    chosen: I32 = np.asarray(slots, dtype=np.int32)
    if rows is None:
        rows = reader.rows(view.from_position[chosen].tolist())
    numbers = volatile_of(view, chosen, moment, authorization)
    return [record_of(row, now, node_id) for row, now in zip(rows, numbers, strict=True)]


def record_of(
    row: FactRow, now: Volatile, node_id: str, warnings: list[str] | None = None
) -> Record:
    """A stored fact in wire form.

    Runs for every fact of every answer, so it copies a template of the common values, which is
    faster than naming every key.
    """
    value_type, value_v = row.value_type, row.value_v
    v = value_v if value_type in _TEXTS else wire_v(value_type, value_v)
    record: Record = _PLAIN.copy()
    record["id"] = row.id
    record["entity"] = row.entity
    record["relation"] = row.relation
    record["value"] = {"type": value_type, "v": v, "interpret_as": row.interpret_as}
    record["source"] = row.source
    record["timestamp"] = format_instant(row.recorded_at)
    record["hlc"] = format_hlc(row.hlc)
    record["received_from"] = row.received_from
    record["valid_until"] = row.valid_until
    record["confidence"] = confidence = now.confidence
    record["scope"] = row.scope
    record["origin_node_id"] = None if row.origin == node_id else row.origin
    record["garden_id"] = row.garden_id
    record["contradicted"] = now.contradicted
    record["warnings"] = [] if warnings is None else warnings
    record["sanitizer_warnings"] = []
    record["cid"] = row.cid or None
    record["derived_from"] = (
        [] if row.parents_json == "[]" else [wire_parent(parent) for parent in row.derived_from]
    )
    record["valid_from"] = row.valid_from
    record["position"] = row.from_position
    if row.attestation_json is not None:
        attestation = row.attestation
        assert attestation is not None
        record["attested_key_id"] = attestation.key_id
        record["attested"] = True
    trust = now.source_trust
    if trust is not None:
        record["source_trust"] = trust
        record["effective_confidence"] = round(confidence * trust, 6)
    if now.quarantine is not None:
        record["quarantine_status"] = now.quarantine
        record["quarantine_garden_id"] = row.garden_id
    if now.attributes is not None:
        record["attributes"] = wire_attributes(now.attributes)
    return record


def record_of_event(event: Recorded, now: Volatile, warnings: list[str]) -> Record:
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


_PLAIN: Record = dict.fromkeys(
    (
        "id", "entity", "relation", "value", "source", "timestamp", "hlc", "received_from",
        "valid_until", "confidence", "scope", "attested_key_id", "origin_node_id",
        "origin_allowed_scopes", "garden_id", "attested", "contradicted", "warnings",
        "source_trust", "quarantine_status", "quarantine_garden_id", "effective_confidence",
        "sanitizer_warnings", "sanitizer_redacted", "cid", "derived_from", "valid_from",
        "position",
    )
) | {"sanitizer_redacted": False}  # fmt: skip
"""A record's keys in the protocol's order, ours at the end."""


def wire_attributes(attributes: FactAttributes) -> dict[str, Any]:
    """All attributes by name; defaults for missing ones."""
    return msgspec.structs.asdict(attributes)


def wire_parent(parent: Parent) -> dict[str, str]:
    """A ``derived_from`` entry, as given."""
    named = {} if parent.fact_id is None else {"fact_id": parent.fact_id}
    return {**named, "hash": wire_hash(parent.hash)}
