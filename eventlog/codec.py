"""Events to bytes and back: canonical encoding, hashes, upcasters. FORMAT.md describes them."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from engramlog.eventlog.errors import CorruptLog, PayloadTooLarge
from engramlog.eventlog.event import Header, Recorded, Stored, UnknownPayload
from engramlog.eventlog.kinds import KINDS, SCHEMA_VERSIONS, AnyPayload, Payload, kind_of
from engramlog.eventlog.nesting import nests_deeper

FORMAT_VERSION = 1
PAYLOAD_BYTES_MAX = 4 * 1024 * 1024
PAYLOAD_LEVELS_MAX = 128
ZERO_HASH = bytes(32)
HEADER_ALTERED = "hash does not match the header"
PAYLOAD_ALTERED = "payload does not match its commitment"

_header_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(Header)
_payload_encoder = msgspec.json.Encoder()
_raw_decoder = msgspec.json.Decoder(dict[str, Any])

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """For a next version that only adds fields whose defaults keep the meaning."""
    return fields


def _limit_sources(fields: dict[str, Any]) -> dict[str, Any]:
    """Keys of version 1 could write as any source; only admins' keys still may."""
    return {**fields, "sources": ["*"]} if "admin" in fields["permissions"] else fields


UPCASTERS: dict[tuple[str, int], Upcaster] = {
    ("fact_asserted", 1): _unchanged_fields,
    ("fact_asserted", 2): _unchanged_fields,
    ("fact_asserted", 3): _unchanged_fields,
    ("decay_swept", 1): _unchanged_fields,
    ("key_issued", 1): _limit_sources,
    ("key_issued", 2): _unchanged_fields,
    ("legal_hold_set", 1): _unchanged_fields,
    ("recall_served", 1): _unchanged_fields,
    ("peer_page_received", 1): _unchanged_fields,
    ("foreign_page_received", 1): _unchanged_fields,
}
"""(kind, version) → a pure function to the next version's fields."""


def encode_payload(payload: Payload) -> bytes:
    """JSON with fields in declaration order, without defaults. Raises PayloadTooLarge."""
    data = _payload_encoder.encode(payload)
    if len(data) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(f"payload has {len(data)} bytes, over {PAYLOAD_BYTES_MAX}")
    if nests_deeper(data, PAYLOAD_LEVELS_MAX):
        raise PayloadTooLarge(f"payload has over {PAYLOAD_LEVELS_MAX} levels")
    return data


encode_header: Callable[[Header], bytes] = _header_encoder.encode
"""A MessagePack array in field order."""
decode_header: Callable[[bytes], Header] = _header_decoder.decode
read_payload: Callable[[bytes], Payload] = msgspec.json.Decoder(AnyPayload).decode
"""The payload of current bytes, of any kind. Raises msgspec's errors."""


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """Commitment to a payload: ``SHA-256(salt ‖ payload)``; 16 random bytes of salt."""
    return hashlib.sha256(salt + payload).digest()


def header_hash(header: bytes) -> bytes:
    """Hash of an event: ``SHA-256(0x00 ‖ header)`` (an RFC 6962 leaf)."""
    return hashlib.sha256(b"\x00" + header).digest()


def is_later(kind: str, version: int) -> bool:
    """Whether a later release writes events of this kind and version: this one does not know it."""
    return version > SCHEMA_VERSIONS.get(kind, 0)


def decode_payload(header: Header, data: bytes) -> Payload | UnknownPayload:
    """The typed payload; UnknownPayload for future kinds and versions."""
    kind, version = header.kind, header.schema_version
    current = SCHEMA_VERSIONS.get(kind)
    if version == current:
        payload = read_payload(data)
    elif current is None or version > current:
        return UnknownPayload(kind, version)
    else:
        fields = _raw_decoder.decode(data)
        for older in range(version, current):
            fields = UPCASTERS[kind, older](fields)
        payload = msgspec.convert(fields, AnyPayload)
    if type(payload) is not KINDS[kind]:
        # The header decides which streams may hold an event, so its kind must match the payload's.
        raise msgspec.ValidationError(f"a {kind_of(payload)} payload under a {kind} header")
    return payload


def check_unknown(header: Header, data: bytes) -> None:
    """Raises msgspec's errors unless a payload that a later release wrote is an object of its
    header's kind, as the format wants it of every release."""
    kind = _raw_decoder.decode(data).get("kind")
    if kind != header.kind:
        raise msgspec.ValidationError(f"a {kind} payload under a {header.kind} header")


def decode(stored: Stored, header: Header | None = None) -> Recorded:
    """Decode a stored event; ``header``: its decoded header, from a caller that has checked the
    event's hashes.

    Raises CorruptLog for bytes that are unreadable or contradict their hashes: whatever reads a
    damaged event says so, before a table or an export repeats it.
    """
    if header is None:
        header = intact_header(stored)
    try:
        payload = None if stored.payload is None else decode_payload(header, stored.payload)
    except (
        msgspec.MsgspecError, KeyError, TypeError, UnicodeDecodeError, RecursionError,
    ) as fault:  # fmt: skip
        raise CorruptLog(stored.position, f"undecodable event: {fault}") from fault
    return Recorded(
        stored.position,
        stored.received_at,
        stored.received_hlc,
        stored.peer,
        header,
        stored.hash,
        payload,
    )


def intact_header(stored: Stored) -> Header:
    """The header of an event whose header and payload match their hashes. Raises CorruptLog."""
    try:
        if header_hash(stored.header) != stored.hash:
            raise CorruptLog(stored.position, HEADER_ALTERED)
        header = header_of(stored)
        if stored.payload is not None and (
            stored.salt is None or payload_hash(stored.salt, stored.payload) != header.payload_hash
        ):
            raise CorruptLog(stored.position, PAYLOAD_ALTERED)
    except TypeError as fault:  # a damaged page may give a column another type, or none
        raise CorruptLog(stored.position, f"undecodable event: {fault}") from fault
    return header


def header_of(stored: Stored) -> Header:
    """The header of an event, whatever its hashes. Raises CorruptLog for unreadable bytes."""
    try:
        return decode_header(stored.header)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as fault:
        raise CorruptLog(stored.position, f"undecodable event: {fault}") from fault
