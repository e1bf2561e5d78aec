"""Decoding: future kinds are kept, wrong kinds refused, and damage names its position."""

from typing import Any

import msgspec
import pytest

from engramlog.eventlog import codec
from engramlog.eventlog.errors import CorruptLog, PayloadTooLarge
from engramlog.eventlog.event import Header, Stored, UnknownPayload
from engramlog.eventlog.kinds import FactRetracted, KeyIssued, SourceTrustSet


def stored(kind: str, payload: bytes, schema_version: int = 1) -> Stored:
    header = Header(
        1, bytes(16), "o", "o/1/node", 1, kind, schema_version, 1, 1, "a", None, None,
        bytes(32), codec.payload_hash(bytes(16), payload),
    )  # fmt: skip
    data = codec.encode_header(header)
    return Stored(7, 1, 1, None, data, codec.header_hash(data), bytes(16), payload)


def test_defaults_are_left_out_of_the_bytes() -> None:
    payload = FactRetracted(fact_ids=["x"])
    assert codec.encode_payload(payload) == b'{"kind":"fact_retracted","fact_ids":["x"]}'


@pytest.mark.parametrize(
    ("permissions", "sources"), [(["read", "write"], []), (["read", "write", "admin"], ["*"])]
)
def test_of_the_keys_of_version_1_only_an_admins_writes_as_any_source(
    permissions: list[str], sources: list[str]
) -> None:
    key = KeyIssued("key-1", "agent:alice", permissions, "00" * 32)
    event = codec.decode(stored("key_issued", codec.encode_payload(key)))
    assert event.payload == msgspec.structs.replace(key, sources=sources)


def test_a_payload_over_the_limit_is_refused() -> None:
    with pytest.raises(PayloadTooLarge, match="4194304"):
        codec.encode_payload(FactRetracted(fact_ids=["x" * codec.PAYLOAD_BYTES_MAX]))


def nested(levels: int) -> bytes:
    """An episode's payload of so many levels."""
    lists = levels - 2  # the payload, and its metadata
    return (
        b'{"kind":"episode_recorded","user":"u","session":"s","agent":"a","content":"c","at_us":1,'
        b'"scope":"local","metadata":{"x":' + b"[" * lists + b"]" * lists + b"}}"
    )


def test_a_payload_of_too_many_levels_is_refused() -> None:
    allowed = codec.read_payload(nested(codec.PAYLOAD_LEVELS_MAX))
    assert codec.encode_payload(allowed) == nested(codec.PAYLOAD_LEVELS_MAX)
    deeper = codec.read_payload(nested(codec.PAYLOAD_LEVELS_MAX + 1))
    with pytest.raises(PayloadTooLarge, match="over 128 levels"):
        codec.encode_payload(deeper)


def test_a_stored_payload_that_exhausts_the_stack_names_the_position() -> None:
    with pytest.raises(CorruptLog, match="position 7: undecodable"):
        codec.decode(stored("episode_recorded", nested(200_000)))


@pytest.mark.parametrize(("kind", "version"), [("card_built", 1), ("fact_retracted", 2)])
def test_a_kind_or_version_from_the_future_is_kept_as_unknown(kind: str, version: int) -> None:
    event = codec.decode(stored(kind, b'{"anything": 1}', version))
    assert event.payload == UnknownPayload(kind, version)


def test_a_payload_of_another_kind_than_its_header_is_refused() -> None:
    disguised = codec.encode_payload(
        KeyIssued(key_id="k", entity_uri="agent:eve", permissions=["admin"], key_sha256="0")
    )
    with pytest.raises(CorruptLog, match=r"position 7: .*key_issued payload under a fact_asserted"):
        codec.decode(stored("fact_asserted", disguised))


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b"\xff", b'{"kind":"fact_retracted"}', b'{"kind":"fact_retracted","x":1}'],
)
def test_an_unreadable_payload_names_the_position(payload: bytes) -> None:
    with pytest.raises(CorruptLog, match="position 7: undecodable"):
        codec.decode(stored("fact_retracted", payload))


@pytest.mark.parametrize("part", ["header", "hash", "payload", "salt"])
@pytest.mark.parametrize("value", [None, "text", 7])
def test_a_column_of_another_type_names_the_position(part: str, value: Any) -> None:
    """As in a page of the log that was overwritten."""
    payload = codec.encode_payload(FactRetracted(fact_ids=["x"]))
    event = stored("fact_retracted", payload)
    if (part, value) == ("payload", None):
        return  # erased
    with pytest.raises(CorruptLog, match="position 7: "):
        codec.decode(msgspec.structs.replace(event, **{part: value}))


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("header", "hash does not match the header"),
        ("hash", "hash does not match the header"),
        ("salt", "payload does not match its commitment"),
        ("payload", "payload does not match its commitment"),
    ],
)
def test_one_altered_bit_names_the_position(part: str, reason: str) -> None:
    event = stored("fact_retracted", b'{"kind":"fact_retracted","fact_ids":["a"]}')
    kept = bytearray(getattr(event, part))
    kept[-4] ^= 1
    with pytest.raises(CorruptLog, match=f"position 7: {reason}"):
        codec.decode(msgspec.structs.replace(event, **{part: bytes(kept)}))


def test_an_erased_payload_decodes_to_none() -> None:
    erased = msgspec.structs.replace(stored("fact_retracted", b"{}"), salt=None, payload=None)
    assert codec.decode(erased).payload is None


def test_an_older_version_is_brought_up_one_step_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def from_1(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "trust": fields["trust"] / 100}

    def from_2(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "reason": "carried over"}

    monkeypatch.setitem(codec.SCHEMA_VERSIONS, "source_trust_set", 3)
    monkeypatch.setitem(codec.UPCASTERS, ("source_trust_set", 1), from_1)
    monkeypatch.setitem(codec.UPCASTERS, ("source_trust_set", 2), from_2)
    old = stored("source_trust_set", b'{"kind":"source_trust_set","source":"s","trust":50}')
    expected = SourceTrustSet(source="s", trust=0.5, reason="carried over")
    assert codec.decode(old).payload == expected
