"""One event as one row of the archive: typed columns and the exact bytes."""

from base64 import b64encode
from collections.abc import Collection
from typing import Any, cast

import msgspec

from engramlog.eventlog.codec import intact_header
from engramlog.eventlog.event import Stored
from engramlog.eventlog.identifiers import id_text
from engramlog.projections.tables.peers.protocol_facts import foreign_payload_id

COLUMNS: dict[str, str] = {
    "position": "BIGINT",
    "received_at_us": "BIGINT",
    "received_hlc": "BIGINT",
    "peer": "VARCHAR",
    "event_id": "VARCHAR",
    "origin": "VARCHAR",
    "stream": "VARCHAR",
    "stream_seq": "BIGINT",
    "kind": "VARCHAR",
    "schema_version": "INTEGER",
    "hlc": "BIGINT",
    "recorded_at_us": "BIGINT",
    "actor": "VARCHAR",
    "causation_id": "VARCHAR",
    "idempotency_key": "VARCHAR",
    "hash": "VARCHAR",
    "erased": "BOOLEAN",
    "fact_ids": "VARCHAR[]",
    "entity": "VARCHAR",
    "relation": "VARCHAR",
    "value_type": "VARCHAR",
    "value": "VARCHAR",
    "source": "VARCHAR",
    "scope": "VARCHAR",
    "garden_id": "VARCHAR",
    "confidence": "DOUBLE",
    "valid_from": "VARCHAR",
    "valid_until": "VARCHAR",
    "detail": "VARCHAR",
    "header_base64": "VARCHAR",
    "salt_base64": "VARCHAR",
    "payload_base64": "VARCHAR",
}
"""Column → DuckDB type, in the files' order. ``fact_ids``: the facts an event touched. ``detail``:
its payload as JSON text. The last three are the exact bytes."""

_SINGLE = ("fact_id", "marker_id", "winner_id", "resolution_fact_id", "kept_id")
_SEVERAL = ("fact_ids", "loser_ids", "cited", "rejected", "merged_ids")
_STATED = ("entity", "relation", "source", "scope", "garden_id", "valid_from", "valid_until")
_LISTED = ("uses", "returned", "deltas", "outcomes")
_decode_payload = msgspec.json.Decoder(dict[str, Any]).decode


def row_of(stored: Stored) -> dict[str, Any]:
    """The row of an event. Raises CorruptLog."""
    header = intact_header(stored)
    told = _told(stored.payload)
    payload = told or {}
    event_id = id_text(header.event_id)
    row: dict[str, Any] = {
        "position": stored.position,
        "received_at_us": stored.received_at,
        "received_hlc": stored.received_hlc,
        "peer": stored.peer,
        "event_id": event_id,
        "origin": header.origin,
        "stream": header.stream,
        "stream_seq": header.stream_seq,
        "kind": header.kind,
        "schema_version": header.schema_version,
        "hlc": header.hlc,
        "recorded_at_us": header.recorded_at,
        "actor": header.actor,
        "causation_id": None if header.causation_id is None else id_text(header.causation_id),
        "idempotency_key": header.idempotency_key,
        "hash": stored.hash.hex(),
        "erased": stored.payload is None,
        "fact_ids": touched(header.kind, _asserted_id(event_id, stored, payload), payload),
        "detail": None if stored.payload is None or told is None else stored.payload.decode(),
        "header_base64": b64encode(stored.header).decode(),
        "salt_base64": None if stored.salt is None else b64encode(stored.salt).decode(),
        "payload_base64": None if stored.payload is None else b64encode(stored.payload).decode(),
    }
    row.update(_payload_fields(header.kind, payload))
    return row


def _told(data: bytes | None) -> dict[str, Any] | None:
    """The fields of a payload; None if it is erased, or no JSON object: release 0.1.0
    took such bytes of kinds it did not know."""
    try:
        return None if data is None else _decode_payload(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _asserted_id(event_id: str, stored: Stored, payload: dict[str, Any]) -> str:
    if payload.get("foreign") is None or stored.payload is None:
        return event_id
    return id_text(foreign_payload_id(stored.payload))


def touched(kind: str, event_id: str, payload: dict[str, Any]) -> list[str]:
    """Ids of the facts that an event made, ended, settled, returned or named. Uses the names of its
    fields, so it covers future kinds as well."""
    ids: list[str] = []
    if kind == "fact_asserted" and payload:
        ids.append(str(payload.get("id") or event_id))
    ids += [str(payload[name]) for name in _SINGLE if payload.get(name)]
    for name in _SEVERAL:
        ids += map(str, _items(payload, name))
    for name in _LISTED:
        for item in _items(payload, name):
            found = _fact_of(item)
            if found is not None:
                ids.append(found)
    return list(dict.fromkeys(ids))


def _items(payload: dict[str, Any], name: str) -> list[Any]:
    """A field that is a list; empty if another kind holds a count under that name."""
    found = payload.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def without(payload: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """A payload without the facts in ``gone``, both those that ``touched`` finds and those that its
    deltas ended."""
    kept = dict(payload)
    for name in _SINGLE:
        if kept.get(name) in gone:
            kept[name] = None
    for name in _SEVERAL:
        if listed := _items(kept, name):
            kept[name] = [each for each in listed if each not in gone]
    for name in _LISTED:
        if listed := _items(kept, name):
            kept[name] = [
                _without_erased_ends(each, gone)
                for each in listed
                if not _is_about_erased(each, gone)
            ]
    return kept


def _is_about_erased(item: Any, gone: Collection[str]) -> bool:
    """Whether an item of a list is about a fact in ``gone``, or ended only such facts."""
    if _fact_of(item) in gone:
        return True
    if not isinstance(item, dict) or "fact_id" in item:
        return False
    ended = cast("dict[str, Any]", item).get("retracted") or ()
    return bool(ended) and all(each in gone for each in ended)


def _without_erased_ends(item: Any, gone: Collection[str]) -> Any:
    if not isinstance(item, dict):
        return item
    said = cast("dict[str, Any]", item)
    if "retracted" not in said:
        return said
    return {**said, "retracted": [each for each in said["retracted"] if each not in gone]}


def _fact_of(item: Any) -> str | None:
    if isinstance(item, dict):
        found = cast("dict[str, Any]", item).get("fact_id")
        return None if found is None else str(found)
    if isinstance(item, list) and item:
        return str(cast("list[Any]", item)[0])
    return None


def _payload_fields(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """What a fact states; of other events the scope. A later release's may lack a field, or hold
    something else there."""
    stated = kind == "fact_asserted"
    names = _STATED if stated else ("scope",)
    row = {name: payload[name] for name in names if isinstance(payload.get(name), str)}
    value: Any = payload.get("value") if stated else None
    if isinstance(value, dict):
        said = cast("dict[str, Any]", value)
        told = {"value_type": said.get("type"), "value": said.get("v", "null")}
        row |= {name: each for name, each in told.items() if isinstance(each, str)}
    confidence = payload.get("confidence", 1.0) if stated and payload else None
    if type(confidence) in (int, float):
        row["confidence"] = confidence
    return row
