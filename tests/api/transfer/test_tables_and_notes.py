"""Tables and notes as lines of an import."""

import json

import pytest

from engramlog.api.transfer.importing import ImportStopped
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.tables_and_notes import lines_of_csv, lines_of_notes

TABLE = b'''\xef\xbb\xbfentity,relation,value,source,confidence,valid_from
user:a,memory:age,42,agent:hr,0.5,2024-05-01
user:a,memory:note,"two
lines, one ""value""",,,
'''
NOTES = b"""# House
Two lines of
one paragraph.

## Keys
- [x] blue: cellar
1. red: attic
# Garden
Roses.
"""


def test_a_row_is_a_line() -> None:
    lines = [json.loads(line) for line in lines_of_csv("My People.csv", TABLE.splitlines(True))]
    assert lines == [
        {
            "entity": "user:a", "relation": "memory:age", "value": {"type": "number", "v": 42},
            "source": "agent:hr", "confidence": 0.5, "valid_from": "2024-05-01",
        },
        {
            "entity": "user:a", "relation": "memory:note", "source": "file:my-people",
            "value": {"type": "string", "v": 'two\nlines, one "value"'},
        },
    ]  # fmt: skip
    for line in lines_of_csv("p.csv", TABLE.splitlines(True)):
        decode_line(line)


@pytest.mark.parametrize(
    "cell",
    ["NaN", "-Infinity", "1e999", "9" * 400, "1234567890123456789", "null", "[1]", "x" * 200_000],
)
def test_a_cell_that_is_no_number_of_a_fact_is_a_text(cell: str) -> None:
    rows = [b"entity,relation,value,confidence\n", f"user:a,memory:x,{cell},high\n".encode()]
    (line,) = lines_of_csv("p.csv", rows)
    made = json.loads(line)
    assert made["value"] == {"type": "string", "v": cell}
    with pytest.raises(LineError, match="confidence"):
        decode_line(line)


@pytest.mark.parametrize(
    ("first", "reason"),
    [(b"entity,value\n", "no column relation"), (b"entity,relation,value,colour\n", "'colour'")],
)
def test_wrong_columns_are_named(first: bytes, reason: str) -> None:
    with pytest.raises(ImportStopped, match=reason):
        list(lines_of_csv("p.csv", [first]))


def test_a_paragraph_and_an_item_are_notes_below_their_headings() -> None:
    lines = [json.loads(line) for line in lines_of_notes("notes/Home.md", NOTES.splitlines(True))]
    assert [line["value"]["v"] for line in lines] == [
        "House: Two lines of one paragraph.",
        "House: Keys: blue: cellar",
        "House: Keys: red: attic",
        "Garden: Roses.",
    ]
    assert {line["entity"] for line in lines} == {"note:home"}
    assert {line["source"] for line in lines} == {"file:home"}
