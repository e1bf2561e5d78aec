"""FORMAT.md says what the code does: its tables, its limits and its worked example."""

import json
import re
from hashlib import sha256
from pathlib import Path

import apsw

from engramlog.eventlog import codec, log
from engramlog.eventlog.clock import format_hlc
from engramlog.eventlog.engines.sqlite import schema as sqlite_schema
from engramlog.eventlog.event import Header
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
