"""A fact in the protocol's federation, and the part of it that this node takes (wire 3.5).

Nothing here trusts the peer: every field is checked. An invalid fact is refused with a code and
does not affect the rest of its page.
"""

import json
import math
from hashlib import sha256
from typing import Any, cast

from msgspec import Struct

from engramlog.eventlog.clock import FUTURE_SKEW_MS_MAX, format_hlc, pack_hlc, parse_hlc
from engramlog.eventlog.kinds import FactAsserted, ForeignFact, Parent, RefusedFact, Value
from engramlog.projections.cid import parse_fact_hash, with_cid
from engramlog.projections.columns.numbered_texts import VALUE_TYPES
from engramlog.projections.moment import parse_instant
from engramlog.projections.normalization import (
    SCOPES,
    URI_LENGTH_MAX,
    is_reserved,
    normalize_ref,
    normalize_uri,
)
from engramlog.projections.writing.content_rules import PARENTS_MAX, content_fault

OUTSIDE = "scope_not_permitted"
"""The agreement does not cover the fact's scope."""


class RecordBounds(Struct, frozen=True):
    """What this node takes from a peer: its node id, the agreed scopes, the longest value in bytes,
    and the required source of a push (None on pulls)."""

    node_id: str
    scopes: frozenset[str]
    value_bytes_max: int
    source: str | None = None


class _Refusal(Exception):
    """``args[0]`` is the code."""


def name_of(record: object) -> str:
    """The peer's id of a record, or a name made from the invalid id."""
    fields = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
    given = fields.get("id")
    if isinstance(given, str) and 0 < len(given) <= URI_LENGTH_MAX and given.isprintable():
        return given
    text = json.dumps(record, sort_keys=True, default=str)
    return f"unnamed:{sha256(text.encode()).hexdigest()[:16]}"


def hlc_of(record: object) -> int | None:
    """The clock reading of a record, padded or not; None without one."""
    fields = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
    try:
        return parse_hlc(str(fields.get("hlc")))
    except ValueError:
        return None


def scope_of(record: object) -> str | None:
    """The scope of a record; None for anything but a text."""
    scope: object = (
        cast("dict[str, Any]", record).get("scope") if isinstance(record, dict) else None
    )
    return scope if isinstance(scope, str) else None


def dated(record: object) -> object:
    """A pushed record whose clock reading is null, with the reading of its timestamp; others
    unchanged. Pulled records are not changed: their readings are the cursors of the next page."""
    if not isinstance(record, dict):
        return record
    fields = cast("dict[str, Any]", record)
    try:
        if fields.get("hlc") is None:
            ms = parse_instant(str(fields.get("timestamp"))) // 1000
            return {**fields, "hlc": format_hlc(pack_hlc(ms, 0))}
    except ValueError:
        pass
    return fields


def is_ahead(hlc: int, now_us: int) -> bool:
    """Whether a reading is too far in the future at a time, in microseconds or a reading too."""
    return hlc // 1000 - now_us // 1000 > FUTURE_SKEW_MS_MAX


def taken(record: object, bounds: RecordBounds) -> FactAsserted | RefusedFact:
    """The fact to wrap, or the reason of its refusal."""
    name = name_of(record)
    try:
        if not isinstance(record, dict):
            raise _Refusal("malformed")
        return _fact(cast("dict[str, Any]", record), name, bounds)
    except _Refusal as fault:
        return RefusedFact(name, str(fault))


def _fact(record: dict[str, Any], name: str, bounds: RecordBounds) -> FactAsserted:
    """The fact of a peer's record, which has this name there. Raises _Refusal."""
    hlc = hlc_of(record)
    if hlc is None or name.startswith("unnamed:"):
        raise _Refusal("malformed")
    scope = scope_of(record)
    if scope not in SCOPES or scope not in bounds.scopes or scope == "local":
        raise _Refusal(OUTSIDE)
    if record.get("received_from") is not None:
        raise _Refusal("relayed")
    if record.get("garden_id") is not None:
        raise _Refusal("garden_fact")
    entity, relation, source = _names(record)
    if bounds.source is not None and source != bounds.source:
        raise _Refusal("source_not_owned")
    value = _value(record, bounds.value_bytes_max)
    confidence = _confidence(record)
    valid_from, valid_until = (_instant(record, name) for name in ("valid_from", "valid_until"))
    if valid_from and valid_until and parse_instant(valid_from) >= parse_instant(valid_until):
        raise _Refusal("invalid_validity")
    _check_cid(record, entity, relation, value, source, confidence, scope)
    fact = FactAsserted(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,
        confidence=confidence,
        valid_from=valid_from,
        valid_until=valid_until,
        derived_from=_parents(record),
        foreign=ForeignFact(bounds.node_id, name, hlc, _recorded_at(record, hlc)),
    )
    if content_fault(fact) is not None:
        raise _Refusal("content")
    return with_cid(fact)


def _names(record: dict[str, Any]) -> tuple[str, str, str]:
    relation = record.get("relation")
    if not isinstance(relation, str) or not 0 < len(relation) <= URI_LENGTH_MAX:
        raise _Refusal("malformed")
    try:
        entity, source = (normalize_uri(_text(record, name)) for name in ("entity", "source"))
    except ValueError as fault:
        raise _Refusal("invalid_entity_uri") from fault
    if is_reserved(entity) or relation.startswith("stigmem:") or not relation.isprintable():
        raise _Refusal("reserved")
    return entity, relation, source


def _text(record: dict[str, Any], name: str) -> str:
    text = record.get(name)
    if not isinstance(text, str) or not _encodable(text):
        raise _Refusal("malformed")
    return text


def _value(record: dict[str, Any], bytes_max: int) -> Value:
    given = record.get("value")
    if not isinstance(given, dict):
        raise _Refusal("malformed")
    fields = cast("dict[str, Any]", given)
    kind, v = fields.get("type"), fields.get("v")
    if record.get("sanitizer_redacted"):
        raise _Refusal("redacted")
    if fields.get("interpret_as", "content") != "content":
        raise _Refusal("instruction_write_required")
    if kind not in VALUE_TYPES:
        raise _Refusal("invalid_value")
    text = _value_text(kind, v)
    if len(text.encode(errors="replace")) > bytes_max:
        raise _Refusal("value_too_large")
    return Value(kind, text)  # pyright: ignore[reportArgumentType]


def _value_text(kind: str, v: object) -> str:
    """The stored text of a value of this type. Raises _Refusal."""
    if kind == "null":
        return "null"
    if kind == "boolean":
        if not isinstance(v, bool):
            raise _Refusal("invalid_value")
        return "true" if v else "false"
    if kind == "number":
        if isinstance(v, bool) or not isinstance(v, int | float):
            raise _Refusal("invalid_value")
        try:
            number = float(v)
        except OverflowError as fault:
            raise _Refusal("invalid_value") from fault
        if not math.isfinite(number):
            raise _Refusal("invalid_value")
        return repr(number)
    if not isinstance(v, str) or not _encodable(v):
        raise _Refusal("invalid_value")
    if kind == "ref":
        try:
            normalize_ref(v)
        except ValueError as fault:
            raise _Refusal("invalid_value") from fault
    return v


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _confidence(record: dict[str, Any]) -> float:
    given = record.get("confidence", 1.0)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0.0 <= given <= 1.0:
        raise _Refusal("invalid_confidence")
    return float(given)


def _instant(record: dict[str, Any], name: str) -> str | None:
    given = record.get(name)
    if given is None:
        return None
    try:
        parse_instant(str(given))
    except ValueError as fault:
        raise _Refusal("invalid_validity") from fault
    return str(given)


def _recorded_at(record: dict[str, Any], hlc: int) -> int:
    """The record's own time; that of its clock reading if it names none, or one far after it."""
    try:
        told_us = parse_instant(str(record.get("timestamp")))
    except ValueError:
        return hlc
    return hlc if is_ahead(told_us, hlc) else told_us


def _parents(record: dict[str, Any]) -> list[Parent]:
    given: object = record.get("derived_from")
    if given is None:
        return []
    if not isinstance(given, list):
        raise _Refusal("invalid_provenance")
    entries = cast("list[object]", given)
    if len(entries) > PARENTS_MAX:
        raise _Refusal("invalid_provenance")
    return [_parent(entry) for entry in entries]


def _parent(entry: object) -> Parent:
    fields: dict[str, Any] = (
        cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"hash": entry}
    )
    named: object = fields.get("fact_id")
    try:
        return Parent(
            parse_fact_hash(str(fields.get("hash"))), None if named is None else str(named)
        )
    except ValueError as fault:
        raise _Refusal("invalid_provenance") from fault


def _check_cid(
    record: dict[str, Any],
    entity: str,
    relation: str,
    value: Value,
    source: str,
    confidence: float,
    scope: str,
) -> None:
    """Check that the peer's content id fits the content: with the number as written (``42`` and
    ``42.0`` are one number), with ``interpret_as`` or without."""
    cid = record.get("cid")
    if cid is None:
        return
    texts = [value.v]
    if value.type == "number" and float(value.v).is_integer():
        texts.append(str(int(float(value.v))))
    for text in texts:
        body = {
            "confidence": confidence,
            "entity": entity,
            "relation": relation,
            "scope": scope,
            "source": source,
            "value_type": value.type,
            "value_v": text,
        }
        if cid in (_digest(body), _digest({**body, "interpret_as": value.interpret_as})):
            return
    raise _Refusal("cid_mismatch")


def _digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + sha256(text.encode()).hexdigest()
