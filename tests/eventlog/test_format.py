"""FORMAT.md says what the code does: its tables, its limits and its worked example."""

import base64
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engramlog.eventlog import codec, log
from engramlog.eventlog.clock import FixedClock, format_hlc
from engramlog.eventlog.engines.sqlite import schema as sqlite_schema
from engramlog.eventlog.event import Header
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.eventlog.log import Head, StreamHead
from engramlog.eventlog.signing import sign_heads
from engramlog.projections.cid import cid_of, with_cid
from engramlog.projections.writing.content_rules import content_fault
from tests.worlds.samples import open_log

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "eventlog" / "FORMAT.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("## Worked example")[1]
BLOCKS = [
    [line.strip() for line in block.splitlines() if line.strip()]
    for block in re.findall(r"(?:^    .*\n)+", EXAMPLE, re.MULTILINE)
]


def test_the_header_table_lists_the_fields_in_order() -> None:
    listed = re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert [name for _, name in listed] == list(Header.__struct_fields__)
    assert [int(number) for number, _ in listed] == list(range(len(Header.__struct_fields__)))


def test_the_worked_example_matches_its_fixture_and_hash() -> None:
    (payload,), (salt,), (payload_hash,), fields, (event_hash,) = BLOCKS
    header = bytes.fromhex("".join(_hex_part(line) for line in fields))
    golden = json.loads((ROOT / "fixtures/events/source_trust_set.v1.json").read_text())
    assert payload.encode().hex() == golden["payload_hex"]
    assert header.hex() == golden["header_hex"]
    assert salt == golden["salt_hex"]
    assert sha256(bytes.fromhex(salt) + payload.encode()).hexdigest() == payload_hash
    assert sha256(b"\x00" + header).hexdigest() == event_hash == golden["hash"]


def _hex_part(line: str) -> str:
    """The bytes of an example line, without its comment."""
    return re.split(r"\s{2,}", line)[0]


def test_the_example_reading_of_the_clock_is_right() -> None:
    assert f"`{format_hlc(1_700_000_000_000_013)}`" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    for limit in (
        f"{codec.PAYLOAD_BYTES_MAX} bytes a payload",
        f"{codec.PAYLOAD_LEVELS_MAX} levels",
        f"{log.TRANSACTION_EVENTS_MAX} events a transaction",
        f"{log.READ_LIMIT_MAX} events a read",
        f"`application_id` {sqlite_schema.APPLICATION_ID:#x}",
        f"`user_version` {sqlite_schema.SCHEMA_VERSION}",
    ):
        assert limit in PAGE, limit


def test_the_tables_and_columns_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    open_log(path).close()
    db = apsw.Connection(str(path))
    tables = [str(name) for (name,) in db.execute("SELECT name FROM pragma_table_list()")]
    ours = {name for name in tables if not name.startswith("sqlite_")}
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert ours <= set(rows)
    for table in ours:
        columns = [
            name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
        ]
        described = rows[table].split("; ")[0]
        assert re.findall(r"`(\w+)`", described) == columns
    assert db.pragma("journal_mode") == "wal"


def canonical(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def check(public_key: str, signature: str, message: bytes) -> None:
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
    key.verify(base64.b64decode(signature), message)


def test_heads_and_rotations_are_signed_as_the_page_says(tmp_path: Path) -> None:
    identity = Identity.create(tmp_path / "identity", FixedClock(5))
    identity.rotate()
    identity.rotate()
    stream = f"{identity.node_id}/1/scope/public"
    signed = sign_heads(identity, Head(9, 5, 5), {stream: StreamHead(stream, 3, b"h" * 32)}, 7)
    heads = json.loads(msgspec.json.encode(signed))
    check(
        heads["public_key"],
        heads["signature"],
        b"engramlog/signed-heads/1\n" + canonical({**heads, "signature": ""}),
    )
    key = heads["rotations"][0]["previous_public_key"]
    made_of = UUID(bytes=sha256(base64.b64decode(key)).digest()[:16])
    assert heads["node_id"] == f"stigmem:node:{made_of}"
    for rotation in heads["rotations"]:
        assert rotation["previous_public_key"] == key
        message = f"engramlog/node-key-rotation/1\n{heads['node_id']}\n{rotation['public_key']}"
        check(key, rotation["signature"], message.encode())
        key = rotation["public_key"]
    assert key == heads["public_key"]
    row = next(line for line in PAGE.splitlines() if line.startswith("| heads"))
    assert set(heads) <= set(re.findall(r"`(\w+)`", row.split("|")[2]))


@pytest.mark.parametrize("number", ["42.0", "1e+16", "1e-05", "-0.0", "0.0001"])
@pytest.mark.parametrize("confidence", [1.0, 0.3, 1e-07])
def test_a_content_id_is_the_hash_that_the_page_gives(number: str, confidence: float) -> None:
    value = Value("number", number)
    fact = FactAsserted(
        entity="user:é", relation="memory:x", value=value, source="agent:a", scope="public",
        confidence=confidence,
    )  # fmt: skip
    assert content_fault(with_cid(fact)) is None
    said = {"entity": "user:é", "relation": "memory:x", "source": "agent:a", "scope": "public"}
    body = {**said, "confidence": confidence, "value_type": "number", "value_v": number}
    assert cid_of(fact) == "sha256:" + sha256(canonical(body)).hexdigest()
    assert f"`{number}`" in PAGE or number in ("-0.0", "0.0001")


def test_numbers_and_strings_are_written_as_the_page_says() -> None:
    numbers = {1.0: "1.0", 1e-5: "0.00001", 1e-6: "1e-6", 1e16: "1e16"}
    for number, text in numbers.items():
        assert msgspec.json.encode(number).decode() == text
        assert f"`{text}`" in PAGE
    assert msgspec.json.encode('"\\\b\f\n\r\t\x1f\x7f/é\u2028').decode() == (
        '"\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7f/é\u2028"'
    )


@pytest.mark.parametrize(
    "spelling",
    [
        '{"kind": "source_trust_set", "source": "agent:b", "trust": 1.0}',
        '{"source":"agent:b","trust":1,"kind":"source_trust_set"}',
        '{"kind":"source_trust_set","source":"agent:\\u0062","trust":1e0,"reason":""}\n',
        '{"kind":"source_trust_set","source":"agent:a","source":"agent:b","trust":1.0}',
    ],
)
def test_a_reader_takes_other_spellings_of_one_payload(spelling: str) -> None:
    plain = b'{"kind":"source_trust_set","source":"agent:b","trust":1.0}'
    assert codec.read_payload(spelling.encode()) == codec.read_payload(plain)
