"""Tables and notes as lines of an import."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from engramlog.api.transfer.importing import ImportStopped
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.tables_and_notes import Reader, lines_of_csv, lines_of_notes
from tests.worlds.processes import engramlog, serving

USUAL = {"STIGMEM_SET_VALUED_DEFAULTS": "true"}

TABLE = b'''entity,relation,value,source,confidence,valid_from
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


def facts(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if line.strip()]


def test_a_row_is_a_fact() -> None:
    lines = [
        json.loads(line) for line in facts(lines_of_csv("My People.csv", TABLE.splitlines(True)))
    ]
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
    for line in facts(lines_of_csv("p.csv", TABLE.splitlines(True))):
        decode_line(line)


@pytest.mark.parametrize(
    "cell",
    ["NaN", "-Infinity", "1e999", "9" * 400, "1234567890123456789", "null", "[1]", "x" * 200_000],
)
def test_a_cell_that_is_no_number_of_a_fact_is_a_text(cell: str) -> None:
    rows = [b"entity,relation,value,confidence\n", f"user:a,memory:x,{cell},high\n".encode()]
    (line,) = facts(lines_of_csv("p.csv", rows))
    made = json.loads(line)
    assert made["value"] == {"type": "string", "v": cell}
    with pytest.raises(LineError, match="confidence"):
        decode_line(line)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"entity,value\n", "no column relation"),
        (b"entity,relation,value,colour\n", "'colour'"),
        (b"entity;relation;value\n", "no column entity.*separate them with commas, not ';'"),
        (b"entity\trelation\tvalue\n", r"with commas, not '\\t'"),
    ],
)
def test_wrong_columns_are_named(first: bytes, reason: str) -> None:
    with pytest.raises(ImportStopped, match=reason):
        list(lines_of_csv("p.csv", [first]))


def test_a_paragraph_and_an_item_are_notes_below_their_headings() -> None:
    made = lines_of_notes("notes/Home.md", NOTES.splitlines(True))
    lines = [json.loads(line) for line in facts(made)]
    assert [line["value"]["v"] for line in lines] == [
        "House: Two lines of one paragraph.",
        "House: Keys: blue: cellar",
        "House: Keys: red: attic",
        "Garden: Roses.",
    ]
    assert {line["entity"] for line in lines} == {"note:home"}
    assert {line["source"] for line in lines} == {"file:home"}


CODE = b"""# Deploy
Run:
```sh
# install the tools
make setup

- not an item
```
- ~~~
  # run the tests
  ~~~
Then call Ann.
## Rollback
``` is no fence with `code` behind it
- ```sh
# Left open
Ends.
"""


def test_what_stands_in_fenced_code_is_no_heading_and_no_item() -> None:
    made = list(lines_of_notes("n.md", CODE.splitlines(True)))
    assert [json.loads(line)["value"]["v"] for line in facts(made)] == [
        "Deploy: Run: ```sh # install the tools make setup - not an item ```",
        "Deploy: ~~~ # run the tests ~~~ Then call Ann.",
        "Deploy: Rollback: ``` is no fence with `code` behind it",
        "Deploy: Rollback: ```sh",
        "Left open: Ends.",
    ]
    assert [number for number, line in enumerate(made, 1) if line.strip()] == [2, 9, 14, 15, 17]


UNDERLINED = b"""---
title: Ann
tags:

  - a
---
Before.

House
=====
The boiler.

Keys
---
- the blue one
---
Two lines,
no heading
---
* * *
A text below a rule.
"""


def test_properties_underlined_headings_and_rules_are_no_text() -> None:
    made = list(lines_of_notes("n.md", UNDERLINED.splitlines(True)))
    texts = {n: json.loads(line)["value"]["v"] for n, line in enumerate(made, 1) if line.strip()}
    assert texts == {
        1: "title: Ann tags: - a",
        7: "Before.",
        11: "House: The boiler.",
        15: "House: Keys: the blue one",
        17: "House: Keys: Two lines, no heading",
        21: "House: Keys: A text below a rule.",
    }
    for text in (b"---\nno property\n---\n", b"---\na: b\n"):
        made = lines_of_notes("n.md", text.splitlines(True))
        words = [json.loads(line)["value"]["v"] for line in made if line.strip()]
        assert words in ([], ["a: b"])


def test_fences_left_open_are_read_in_linear_time() -> None:
    """In quadratic time this takes an hour and reaches the limit."""
    made = list(lines_of_notes("n.md", 100_000 * [b"```sh\n"]))
    assert len(facts(made)) == 1


@pytest.mark.parametrize(
    ("made", "numbers"),
    [
        (lines_of_csv("p.csv", TABLE.splitlines(True)), [2, 3]),
        (
            lines_of_csv("p.csv", [*TABLE.splitlines(True), b"\n", b"user:b,memory:x,y\n"]),
            [2, 3, 6],
        ),
        (lines_of_notes("n.md", NOTES.splitlines(True)), [2, 6, 7, 9]),
    ],
)
def test_a_fact_has_the_number_of_the_line_where_it_begins(
    made: Iterable[bytes], numbers: list[int]
) -> None:
    assert [number for number, line in enumerate(made, 1) if line.strip()] == numbers


def test_a_refused_row_and_the_skipped_lines_count_as_an_editor_does(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    rows = 'entity,relation,value,valid_from\nuser:a,memory:note,"two\nlines",\n'
    table.write_text(f"{rows}user:b,memory:x,y,soon\nuser:c,memory:x,z,\n")
    stopped = engramlog("import", table, "--data", tmp_path / "data")
    assert "line 4: valid_from" in stopped.stderr
    assert "--skip 3" in stopped.stderr
    done = engramlog("import", table, "--data", tmp_path / "data", "--skip", "4")
    assert "1 asserted" in done.stdout, done.stderr
    table.write_text("entity,relation,value,valid_from\nuser:b,memory:x,y,soon\n")
    stopped = engramlog("import", table, "--data", tmp_path / "data")
    assert "line 2: valid_from" in stopped.stderr
    assert stopped.stderr.rstrip().endswith("; nothing was imported")


@pytest.mark.parametrize("reader", [lines_of_csv, lines_of_notes])
def test_a_file_that_is_not_utf_8_is_refused_whole(reader: Reader) -> None:
    rows = [b"entity,relation,value\n", b"user:a,memory:x,\xe9\n"]
    with pytest.raises(ImportStopped, match=r"not UTF-8 \(line 2\)"):
        list(reader("p", rows))


def test_a_row_that_ends_before_its_value_is_refused_before_any_is_read() -> None:
    rows = [b"entity,relation,value,scope\n", b"a:b,r,1\n", b"a:c,r\n"]
    with pytest.raises(ImportStopped, match="has no value at line 3; nothing was imported"):
        next(lines_of_csv("t.csv", rows))


def test_a_row_with_more_cells_than_columns_is_refused_before_any_is_read() -> None:
    rows = [b"entity,relation,value\n", b"a,b,c,,\n", b"user:a,memory:town,Linz, Austria\n"]
    with pytest.raises(ImportStopped, match="more cells than columns at line 3"):
        next(lines_of_csv("p.csv", rows))
    assert len(facts(lines_of_csv("p.csv", rows[:2]))) == 1


@pytest.mark.parametrize("cell", [b'"Linz', b'"Linz" Austria'])
def test_a_quote_that_would_swallow_rows_is_refused_before_any_is_read(cell: bytes) -> None:
    rows = [b"entity,relation,value\n", b"user:a,memory:town," + cell + b"\n", b"user:b,x,y\n"]
    with pytest.raises(ImportStopped, match="quotes a cell wrongly at line 2; nothing was"):
        next(lines_of_csv("p.csv", rows))


def test_the_name_of_a_file_keeps_letters_of_every_script() -> None:
    decomposed = "U\u0308ber_mich!.md"
    names = [decomposed, "\N{CJK UNIFIED IDEOGRAPH-65E5}.md", "--.md"]
    made = [json.loads(next(lines_of_notes(name, [b"text"])))["entity"] for name in names]
    assert made == ["note:\xfcber-mich", "note:\N{CJK UNIFIED IDEOGRAPH-65E5}", "note:notes"]


def test_notes_in_a_new_directory_stand_side_by_side(tmp_path: Path) -> None:
    """The usual relations, such as ``memory:note``, have several values there too."""
    notes = tmp_path / "House.md.gz"
    notes.write_bytes(gzip.compress(NOTES))
    again = [engramlog("import", notes, "--data", tmp_path / "data", env=USUAL) for _ in "ab"]
    assert [("4 asserted" in done.stdout, "4 existing" in done.stdout) for done in again] == [
        (True, False),
        (False, True),
    ]
    listed = engramlog("facts", "--data", tmp_path / "data", "--json", env=USUAL).stdout
    facts = json.loads(listed)["facts"]
    assert [each["contradicted"] for each in facts] == [False] * 4
    assert {each["entity"] for each in facts} == {"note:house"}


def test_a_second_import_over_a_node_writes_only_what_is_new(tmp_path: Path) -> None:
    """A row of another validity is new."""
    table = tmp_path / "p.csv"
    rows = "entity,relation,value,valid_from\n"
    printed: list[str] = []
    with serving(tmp_path / "data", "--no-auth", env=USUAL) as node:
        for target in ("--data", tmp_path / "data"), ("--url", node.url):
            for added in f"{target[0]},\nuser:a,memory:likes,cake,\n", "tea,2024-05-01\n", "tea,\n":
                rows += f"user:a,memory:likes,{added}"
                table.write_text(rows)
                done = engramlog("import", table, *target, env=USUAL)
                printed.append(done.stdout.split(": ")[1].split(";")[0].strip())
    assert printed == [
        "2 asserted", "2 existing, 1 asserted", "3 existing, 1 asserted",
        "5 existing, 1 asserted", "7 existing", "8 existing",
    ]  # fmt: skip
