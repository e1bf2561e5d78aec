"""Golden bytes: every later release reads and writes what an earlier one wrote.

The hashes are computed here with hashlib alone, by FORMAT.md.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from engramlog.eventlog import codec
from engramlog.eventlog.event import Header, Stored
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, AnyPayload

FOLDER = Path(__file__).parents[2] / "fixtures" / "events"
NAMES = sorted(path.name.removesuffix(".json") for path in FOLDER.glob("*.json"))


def fixture(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def header_fields(header: Header) -> dict[str, Any]:
    return {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in msgspec.structs.asdict(header).items()
    }


def test_every_version_of_every_kind_has_a_fixture_and_every_fixture_a_kind() -> None:
    released = {
        f"{kind}.v{version}"
        for kind, current in SCHEMA_VERSIONS.items()
        for version in range(1, current + 1)
    }
    assert set(NAMES) == released


def test_every_payload_has_a_schema_version_and_every_version_a_payload() -> None:
    tags = {str(shape.__struct_config__.tag) for shape in get_args(AnyPayload)}
    assert tags == set(SCHEMA_VERSIONS)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_decodes_to_its_fields_and_encodes_to_its_bytes(name: str) -> None:
    golden = fixture(name)
    header = codec.decode_header(bytes.fromhex(golden["header_hex"]))
    assert header_fields(header) == golden["header"]
    assert f"{header.kind}.v{header.schema_version}" == name
    assert codec.encode_header(header).hex() == golden["header_hex"]


@pytest.mark.parametrize("name", NAMES)
def test_the_payload_decodes_to_its_fields_and_encodes_to_its_bytes(name: str) -> None:
    golden = fixture(name)
    header = codec.decode_header(bytes.fromhex(golden["header_hex"]))
    data = bytes.fromhex(golden["payload_hex"])
    payload = codec.decode_payload(header, data)
    assert not isinstance(payload, codec.UnknownPayload)
    assert json.loads(data) == golden["payload"]
    assert golden["payload"]["kind"] == header.kind
    if header.schema_version == SCHEMA_VERSIONS[header.kind]:
        assert codec.encode_payload(payload).hex() == golden["payload_hex"]


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_sets_every_field_so_that_none_can_change_unseen(name: str) -> None:
    golden = fixture(name)
    shapes = {str(shape.__struct_config__.tag): shape for shape in get_args(AnyPayload)}
    fields = set(shapes[golden["header"]["kind"]].__struct_encode_fields__)
    if golden["header"]["schema_version"] == SCHEMA_VERSIONS[golden["header"]["kind"]]:
        assert set(golden["payload"]) == fields | {"kind"}


@pytest.mark.parametrize("name", NAMES)
def test_the_hashes_are_those_of_the_format(name: str) -> None:
    golden = fixture(name)
    header, payload, salt = (
        bytes.fromhex(golden[field]) for field in ("header_hex", "payload_hex", "salt_hex")
    )
    assert sha256(salt + payload).hexdigest() == golden["payload_hash"]
    assert golden["header"]["payload_hash"] == golden["payload_hash"]
    assert sha256(b"\x00" + header).hexdigest() == golden["hash"]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_fixture_decodes_whole(name: str) -> None:
    golden = fixture(name)
    stored = Stored(
        1,
        1,
        1,
        None,
        bytes.fromhex(golden["header_hex"]),
        bytes.fromhex(golden["hash"]),
        bytes.fromhex(golden["salt_hex"]),
        bytes.fromhex(golden["payload_hex"]),
    )
    assert codec.decode(stored).kind == golden["header"]["kind"]
