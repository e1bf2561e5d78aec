"""Rules for the content of events that travel between nodes: one validator for both ways in.

A local write that breaks a rule is refused. A peer's event that breaks one is kept and chained but
projected as nothing. So nodes with the same version of the rules agree. The limits are part of the
format (``eventlog/FORMAT.md``), not settings. A changed rule makes a new ``CONTENT_RULES``:
received pages keep the judgement of their version.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DeltaApplied,
    EpisodeRecorded,
    FactAsserted,
    FactAttributesSet,
    FactDenied,
    FactErased,
    FactRetracted,
    ForeignFact,
    Payload,
    SummaryRecorded,
    Value,
)
from engramlog.projections.cid import parse_fact_hash
from engramlog.projections.memories.attribute_rules import attributes_fault
from engramlog.projections.memories.place import MemoryScopeError, name_part
from engramlog.projections.memories.summary_naming import period_of_name
from engramlog.projections.moment import parse_instant
from engramlog.projections.normalization import (
    URI_LENGTH_MAX,
    has_control_character,
    holds_nul,
    normalize_ref,
    normalize_uri,
)

CONTENT_RULES = 3
"""The version of these rules. 2: a fact may not choose its id. 3: rules for wrapped facts."""
VALUE_BYTES_MAX = 1_048_576
"""The largest value of a fact, and the largest content of an episode, in UTF-8."""
ID_LENGTH_MAX = 512
TEXT_LENGTH_MAX = 4_096
"""Reasons and notes."""
PARENTS_MAX = 1_000
NAMED_MAX = 10_000
"""Facts or events that one event may name."""

_encode = msgspec.json.Encoder().encode


class _Broken(ValueError):
    """A rule that content breaks."""


def content_fault(payload: Payload) -> str | None:
    """The first rule that a payload breaks; None if it breaks none, or no rule applies."""
    check = _CHECKS.get(type(payload))
    if check is None:
        return None
    try:
        check(payload)
    except ValueError as fault:
        return str(fault)
    return None


def _fact(fact: FactAsserted) -> None:
    if not 0.0 <= fact.confidence <= 1.0:  # nor is it NaN
        raise _Broken("confidence must be in [0, 1]")
    for name, text in (("entity", fact.entity), ("source", fact.source)):
        if len(text) > URI_LENGTH_MAX or normalize_uri(text) != text:
            raise _Broken(f"{name} must be in stored form")
    if not 0 < len(fact.relation) <= URI_LENGTH_MAX or has_control_character(fact.relation):
        raise _Broken(f"relation must have 1 to {URI_LENGTH_MAX} characters, none of them control")
    _value(fact.value)
    if fact.valid_from is not None:
        _instant("valid_from", fact.valid_from)
    if fact.valid_until is not None:
        _instant("valid_until", fact.valid_until)
    if len(fact.derived_from) > PARENTS_MAX:
        raise _Broken(f"derived_from holds over {PARENTS_MAX} entries")
    for parent in fact.derived_from:
        parse_fact_hash(parent.hash)
        _identifier("derived_from.fact_id", parent.fact_id)
    if fact.id is not None:
        raise _Broken("id is that of the event: another's could be taken")
    if fact.foreign is not None:
        _foreign(fact.foreign)
    if fact.attestation is not None:
        _identifier("attestation.key_id", fact.attestation.key_id)
        _identifier("attestation.signature", fact.attestation.signature)
    if fact.attributes is not None:
        _attributes(fact)


def _value(value: Value) -> None:
    text = value.v
    if len(text) * 4 > VALUE_BYTES_MAX and len(text.encode()) > VALUE_BYTES_MAX:
        raise _Broken(f"value has over {VALUE_BYTES_MAX} bytes")
    if "\x00" in text:
        raise _Broken("value must not hold the NUL character")
    if value.type == "boolean" and text not in ("true", "false"):
        raise _Broken("a boolean must be true or false")
    if value.type == "null" and text != "null":
        raise _Broken("null has no other text")
    if value.type == "number":
        number = float(text)
        if not math.isfinite(number) or repr(number) != text:
            raise _Broken("a number must be finite and in canonical form")
    if value.type == "datetime":
        _instant("value", text)
    if value.type == "ref":
        normalize_ref(text)


def _foreign(foreign: ForeignFact) -> None:
    for name, text in (("node_id", foreign.node_id), ("fact_id", foreign.fact_id)):
        if not (len(text) <= URI_LENGTH_MAX and text.isprintable()):
            raise _Broken(f"foreign.{name} must have at most {URI_LENGTH_MAX} printable characters")


def _instant(name: str, text: str) -> None:
    try:
        parse_instant(text)
    except (ValueError, OverflowError) as fault:
        raise _Broken(f"{name} {fault}") from fault


def _identifier(name: str, text: str | None) -> None:
    if text is not None and not (len(text) <= ID_LENGTH_MAX and text.isprintable()):
        raise _Broken(f"{name} must have at most {ID_LENGTH_MAX} characters, all printable")


def _identifiers(name: str, texts: Iterable[str]) -> None:
    found = list(texts)
    if len(found) > NAMED_MAX:
        raise _Broken(f"{name} are over {NAMED_MAX}")
    for text in found:
        _identifier(name, text)


def _attributes(payload: FactAsserted | FactAttributesSet) -> None:
    fault = None if payload.attributes is None else attributes_fault(payload.attributes)
    if fault is not None:
        raise _Broken(fault)
    _no_nul(payload.attributes)


def _attributes_set(payload: FactAttributesSet) -> None:
    _identifier("fact_id", payload.fact_id)
    _attributes(payload)


def _text(name: str, text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX:
        raise _Broken(f"{name} has over {TEXT_LENGTH_MAX} characters")
    if "\x00" in text:
        raise _Broken(f"{name} must not hold the NUL character")


def _no_nul(fields: object) -> None:
    """JSON writes NUL in one way only; it doubles a preceding backslash."""
    data = _encode(fields)
    if b"\\u0000" in data and holds_nul(msgspec.json.decode(data)):
        raise _Broken("texts must not hold the NUL character")


def _retraction(payload: FactRetracted) -> None:
    _identifiers("fact_ids", payload.fact_ids)
    _identifier("marker_id", payload.marker_id)
    _text("reason", payload.reason)


def _denial(payload: FactDenied) -> None:
    _identifiers("fact_ids", [*payload.fact_ids, payload.marker_id])


def _resolution(payload: ConflictResolved) -> None:
    _identifiers(
        "ids",
        [
            payload.conflict_id,
            payload.winner_id,
            payload.resolution_fact_id,
            *payload.loser_ids,
        ],
    )
    _text("note", payload.note)


def _erasure(payload: FactErased) -> None:
    _identifier("erasure_id", payload.erasure_id)
    _identifiers("fact_ids", payload.fact_ids)
    if len(payload.events) > NAMED_MAX:
        raise _Broken(f"events are over {NAMED_MAX}")
    for event in payload.events:
        id_bytes(event)


def _episode(payload: EpisodeRecorded) -> None:
    try:
        for name in ("user", "session", "agent"):
            name_part(name, getattr(payload, name))
    except MemoryScopeError as fault:
        raise _Broken(str(fault)) from fault
    if not payload.content:
        raise _Broken("content must not be empty")
    if len(payload.content.encode()) > VALUE_BYTES_MAX:
        raise _Broken(f"content has over {VALUE_BYTES_MAX} bytes")
    for name in ("id", "run_id", "source_node"):
        _identifier(name, getattr(payload, name))
    _no_nul(payload)


def _deltas(payload: DeltaApplied) -> None:
    if len(payload.deltas) > NAMED_MAX:
        raise _Broken(f"deltas are over {NAMED_MAX}")
    for delta in payload.deltas:
        if not (math.isfinite(delta.confidence) and 0.0 <= delta.confidence <= 1.0):
            raise _Broken("confidence must be in [0, 1]")
    _no_nul(payload)


def _summary(payload: SummaryRecorded) -> None:
    period = period_of_name(payload.name)
    said = (payload.tier, payload.period_start)
    if period is None or (period.tier, period.start.isoformat()) != said:
        raise _Broken("the name is not that of its period")
    owner = payload.owner
    if len(owner) > URI_LENGTH_MAX or normalize_uri(owner) != owner:
        raise _Broken("owner must be in stored form")
    _identifiers("fact_ids", payload.fact_ids)
    _identifiers("retracted", payload.retracted)


_CHECKS: dict[type, Callable[[Any], None]] = {
    FactAsserted: _fact,
    FactRetracted: _retraction,
    FactDenied: _denial,
    ConflictResolved: _resolution,
    FactAttributesSet: _attributes_set,
    FactErased: _erasure,
    EpisodeRecorded: _episode,
    DeltaApplied: _deltas,
    SummaryRecorded: _summary,
}
