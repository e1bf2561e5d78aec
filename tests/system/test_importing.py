"""Importing and exporting with the real command: accepted and refused input, and continuing."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.transfer.mapping import FILTERS, load_mapping
from tests.worlds.import_lines import lines
from tests.worlds.processes import (
    MAPPINGS,
    ROOT,
    SHARED_DATA,
    SPACEFLIGHT,
    engramlog,
    fact,
    serving,
)

USUAL = {"STIGMEM_SET_VALUED_DEFAULTS": "true"}


def facts_of(data: Path, *args: str) -> list[dict[str, Any]]:
    done = engramlog("facts", "--data", data, "--json", "--limit", "10000", *args)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["facts"]
    return found


def numbers(data: Path) -> list[float]:
    return sorted(fact["value"]["v"] for fact in facts_of(data))


def test_every_operation_from_stdin(tmp_path: Path) -> None:
    data = tmp_path / "data"
    rival = fact(2, entity=fact(1)["entity"])
    stdin = lines(
        {"op": "policy", "set_valued": ["tag"]},
        {"op": "trust", "source": "agent:x", "trust": 0.4},
        {**fact(1), "key": "one"},
        {**rival, "key": "two", "derived_from": ["one"]},
        {"op": "resolve", "winner": "two", "loser": "one", "note": "counted again"},
        {**fact(3), "key": "three"},
        {"op": "retract", "target": "three", "reason": "wrong"},
        fact(4),
        {"op": "retract", "match": {name: fact(4)[name] for name in
                                    ("entity", "relation", "value", "scope")}},
    )  # fmt: skip
    done = engramlog("import", "-", "--data", data, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 declared, 4 asserted, 1 resolved, 2 retracted" in done.stdout
    (winner,) = facts_of(data, "--source", str(fact(1)["source"]))
    assert winner["value"]["v"] == 2.0
    assert winner["derived_from"][0]["hash"].startswith("sha256:")


def test_gzip_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl.gz"
    file.write_bytes(gzip.compress(lines(*(fact(n) for n in range(10)))))
    assert engramlog("import", file, "--data", tmp_path / "data").returncode == 0
    assert numbers(tmp_path / "data") == list(range(10))


def _cut(packed: bytes) -> bytes:
    return packed[: len(packed) // 2]


def _altered(packed: bytes) -> bytes:
    half = len(packed) // 2
    return packed[:half] + bytes(200) + packed[half + 200 :]


def _long(packed: bytes) -> bytes:
    head = gzip.decompress(packed).splitlines(keepends=True)[:1_500]
    return b"".join(head) + b"x" * (16 * 1024 * 1024 + 1)


@pytest.mark.parametrize("damage", [_cut, _altered, _long])
def test_what_precedes_the_damage_of_a_file_is_in_the_log(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    data, file = tmp_path / "data", tmp_path / "facts"
    whole = gzip.compress(lines(*(fact(n, source=f"agent:{n * n}") for n in range(2_500))))
    file.write_bytes(damage(whole))
    stopped = engramlog("import", file, "--data", data)
    assert stopped.returncode == 1
    said = re.search(r"lines 1 to (\d+) are in the log .* --skip (\d+)", stopped.stderr)
    assert said is not None, stopped.stderr
    assert said[1] == said[2] == str(len(numbers(data)))
    file.write_bytes(whole)
    assert engramlog("import", file, "--data", data, "--skip", said[2]).returncode == 0
    assert numbers(data) == list(range(2_500))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{not json", "is not JSON"),
        (b"Ann plays the violin.", "(a table is a .csv, notes are a .md)"),
        (lines({"entity": "a"}), "missing required field `relation`"),
        (
            lines(fact(1, scope="world")),
            "scope: must be one of company, local, public, team, not 'world'",
        ),
        (lines(fact(1, confidence=1.5)), "confidence: must be from 0 to 1"),
        (lines(fact(1, value={"type": "number", "v": "x"})), "value.v: must be a number"),
        (lines(fact(1, valid_from="soon")), "valid_from: must be an RFC 3339 instant"),
        (lines(fact(1, colour="red")), "unknown field `colour`; 'engramlog import --help' shows"),
        (lines({"op": "forget"}), "op: must be one of assert, retract"),
        (lines({"op": "retract", "target": "x"}), "target: 'x' is not the key of an earlier line"),
        (lines({"op": "retract"}), "needs exactly one of target, id and match"),
        (lines(fact(1, derived_from=["nobody"])), "derived_from: 'nobody' is not the key"),
        (lines(fact(1, entity=" ")), "entity: entity URI must not be empty"),
    ],
)
def test_an_invalid_line_is_named_with_its_field(tmp_path: Path, line: bytes, message: str) -> None:
    done = engramlog("import", "-", "--data", tmp_path / "data", stdin=lines(fact(0)) + line)
    assert done.returncode == 1
    assert done.stderr.startswith("engramlog: line 2: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "continue with --skip 1" in done.stderr


def test_a_stopped_import_continues_where_it_stopped(tmp_path: Path) -> None:
    data, file, receipts = tmp_path / "data", tmp_path / "facts.jsonl", tmp_path / "receipts"
    good = [{**fact(n), "key": f"k{n}"} for n in range(2_500)]
    broken = [*good[:1_700], {**good[1_700], "scope": "world"}, *good[1_701:]]
    last = {"op": "retract", "target": "k5"}
    file.write_bytes(lines(*broken, last))
    stopped = engramlog("import", file, "--data", data, "--receipts", receipts)
    assert stopped.returncode == 1
    assert "line 1701: scope: " in stopped.stderr
    assert "lines 1 to 1700 are in the log" in stopped.stderr
    file.write_bytes(lines(*good, last))
    gone_on = engramlog("import", file, "--data", data, "--skip", "1700", "--receipts", receipts)
    assert gone_on.returncode == 0, gone_on.stderr
    assert numbers(data) == [n for n in range(2_500) if n != 5]
    rows = [json.loads(row) for row in receipts.read_text().splitlines()]
    done = [row["line"] for row in rows if row["status"] != "refused"]
    assert done == list(range(1, 2_502))


def test_a_line_the_writer_refuses_stops_there_too(tmp_path: Path) -> None:
    missing = {"op": "retract", "match": {**{name: fact(9)[name] for name in
               ("entity", "relation", "value")}, "scope": "company"}}  # fmt: skip
    stdin = lines(fact(1), fact(2), missing, fact(3))
    done = engramlog("import", "-", "--data", tmp_path / "data", stdin=stdin)
    assert done.returncode == 1
    assert "line 3: match: no live fact matches" in done.stderr
    assert numbers(tmp_path / "data") == [1, 2]


def test_skip_leaves_bad_lines_out_and_says_so(tmp_path: Path) -> None:
    stdin = lines(fact(1)) + b"{oops\n" + lines(fact(2, confidence=7), fact(3))
    done = engramlog("import", "-", "--data", tmp_path / "data", "--on-error", "skip", stdin=stdin)
    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == ["line 2", "line 3"]
    assert "2 asserted, 2 refused" in done.stdout
    assert numbers(tmp_path / "data") == [1, 3]


def test_the_running_node_takes_the_lines(tmp_path: Path) -> None:
    data = tmp_path / "data"
    stdin = lines(
        {**fact(1), "key": "a"}, fact(2), {"op": "retract", "target": "a"},
        {"op": "trust", "source": "agent:x", "trust": 0.4},
    )  # fmt: skip
    with serving(data) as node:
        done = engramlog("import", "-", "--data", data, stdin=stdin)
        assert done.returncode == 0, done.stderr
        found = node.client(node.control.token).get("/v1/facts")
        assert [fact["value"]["v"] for fact in found["facts"]] == [2.0]
        dated = lines({**fact(5), "recorded_at": "2020-01-01T00:00:00Z"})
        refused = engramlog("import", "-", "--data", data, "--clock-from-file", stdin=dated)
        assert refused.returncode == 1
        assert "stop the node" in refused.stderr


def test_a_node_by_url_takes_facts_and_retractions(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        match = {name: fact(2)[name] for name in ("entity", "relation", "value", "scope")}
        stdin = lines(
            {**fact(1), "key": "a"}, fact(2), fact(3), {**fact(4), "key": "four"},
            {"op": "retract", "target": "a"}, {"op": "retract", "match": match},
            {**fact(5), "entity": fact(4)["entity"], "key": "five"},
            {"op": "resolve", "winner": "five", "loser": "four"},
        )  # fmt: skip
        done = engramlog("import", "-", "--url", node.url, stdin=stdin)
        assert done.returncode == 0, done.stderr
        found = node.client().get("/v1/facts", {"source": fact(1)["source"]})["facts"]
        assert sorted(fact["value"]["v"] for fact in found) == [3.0, 5.0]
        trust = lines(fact(4), {"op": "trust", "source": "agent:x", "trust": 0.4})
        refused = engramlog("import", "-", "--url", node.url, stdin=trust)
        assert refused.returncode == 1
        assert "line 2: op: needs --data" in refused.stderr


def test_file_times_become_receipt_times_in_a_new_log_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old = {**fact(1), "recorded_at": "1999-12-31T00:00:00Z"}
    stdin = lines(old, {**fact(2), "recorded_at": "2005-01-01T00:00:00Z"})
    assert (
        engramlog("import", "-", "--data", data, "--clock-from-file", stdin=stdin).returncode == 0
    )
    assert [fact["value"]["v"] for fact in facts_of(data, "--as-of", "2001-01-01T00:00:00Z")] == [1]
    assert len(facts_of(data)) == 2
    again = engramlog("import", "-", "--data", data, "--clock-from-file", stdin=stdin)
    assert again.returncode == 1
    assert "file times need an empty log" in again.stderr
    undated = engramlog(
        "import", "-", "--data", tmp_path / "other", "--clock-from-file", stdin=lines(fact(1))
    )
    assert undated.returncode == 1
    assert undated.stderr == "engramlog: line 1: recorded_at: --clock-from-file requires it\n"


def test_an_export_comes_back_as_an_equal_state(tmp_path: Path) -> None:
    first, copy, file = tmp_path / "first", tmp_path / "copy", tmp_path / "export.jsonl"
    history_to_2001 = b"".join(SPACEFLIGHT.read_bytes().splitlines(keepends=True)[:2_600])
    loaded = engramlog("import", "-", "--data", first, "--clock-from-file", stdin=history_to_2001)
    assert loaded.returncode == 0, loaded.stderr
    assert engramlog("export", "--data", first, "--output", file).returncode == 0
    back = engramlog("import", file, "--data", copy, "--clock-from-file")
    assert back.returncode == 0, back.stderr
    history = ("--include-retracted", "--include-expired", "--include-contradicted")
    for moment in ((), ("--as-of", "2000-06-01T00:00:00Z")):
        for args in (moment, (*moment, *history)):
            assert contents(facts_of(copy, *args)) == contents(facts_of(first, *args))
    again = engramlog("export", "--data", copy)
    assert without_keys(again.stdout) == without_keys(file.read_text())


def test_an_export_names_the_events_that_do_not_travel(tmp_path: Path) -> None:
    data = tmp_path / "node"
    made = engramlog(
        "key", "create", "--data", data, "--entity", "agent:ann", "--permission", "read"
    )
    assert made.returncode == 0, made.stderr
    done = engramlog("export", "--data", data)
    assert (done.returncode, done.stdout) == (0, "")
    assert "left out, as they do not travel: 1 API keys" in done.stderr
    assert "engramlog backup" in done.stderr
    assert not engramlog("export", "--data", data, "--quiet").stderr


def contents(facts: list[dict[str, Any]]) -> list[str]:
    """Facts without the node's own fields: ids, clocks, positions, names of resolutions."""
    own = ("id", "hlc", "position", "derived_from", "origin_node_id")
    return sorted(
        json.dumps({name: fact[name] for name in fact if name not in own}, sort_keys=True)
        for fact in facts
        if not fact["entity"].startswith("stigmem:resolution:")
    )


def without_keys(text: str) -> list[str]:
    """Export lines with each key replaced by the number of the line that made it."""
    numbers: dict[str, int] = {}
    out: list[str] = []
    for number, line in enumerate(text.splitlines()):
        item = json.loads(line)
        if "key" in item:
            numbers[item.pop("key")] = number
        for name in ("target", "winner", "loser"):
            if name in item:
                item[name] = numbers[item[name]]
        if "derived_from" in item:
            item["derived_from"] = [
                numbers.get(parent, parent) if isinstance(parent, str) else parent
                for parent in item["derived_from"]
            ]
        item.pop("source" if item.get("op") == "resolve" else "", None)
        out.append(json.dumps(item, sort_keys=True))
    return out


def test_an_export_by_url_holds_the_live_facts(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        client = node.client()
        written = [client.post("/v1/facts", fact(n)) for n in range(3)]
        client.post(f"/v1/facts/{written[0]['id']}/retract", {})
        done = engramlog("export", "--url", node.url)
        assert done.returncode == 0, done.stderr
    back = engramlog("import", "-", "--data", tmp_path / "copy", stdin=done.stdout.encode())
    assert back.returncode == 0, back.stderr
    assert numbers(tmp_path / "copy") == [1, 2]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{}", "rules"),
        ('{"rules": []}', "rules must not be empty"),
        ('{"rules": [{"line": {"entity": "{x|shout}"}}]}', "unknown filter 'shout'"),
    ],
)
def test_an_invalid_mapping_is_explained(tmp_path: Path, document: str, message: str) -> None:
    file = tmp_path / "mapping.json"
    file.write_text(document)
    done = engramlog("import", "-", "--data", tmp_path / "data", "--mapping", file)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "data").exists()


def test_turns_of_a_mapped_chat_do_not_contradict_each_other_in_a_new_directory(
    tmp_path: Path,
) -> None:
    said = {"entity": "user:{who}", "relation": "memory:said", "source": "chat:one",
            "value": {"type": "text", "v": "{text}"}}  # fmt: skip
    (tmp_path / "mapping.json").write_text(json.dumps({"rules": [{"line": said}]}))
    turns = [{"who": "ann", "text": f"turn {number}"} for number in range(3)]
    done = engramlog(
        "import", "-", "--data", tmp_path / "data", "--mapping", tmp_path / "mapping.json",
        stdin=lines(*turns), env={"STIGMEM_SET_VALUED_DEFAULTS": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = facts_of(tmp_path / "data")
    assert [(each["value"]["v"], each["contradicted"]) for each in found] == [
        ("turn 2", False), ("turn 1", False), ("turn 0", False),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["alone", "served", "url"])
def test_a_mapped_chat_that_has_grown_is_imported_again(tmp_path: Path, way: str) -> None:
    """Turns of an earlier import are known; equal turns of one file are all kept."""
    said = {"entity": "user:{who}", "relation": "memory:said", "source": "chat:one",
            "value": {"type": "text", "v": "{text}"}, "valid_from": "{at}"}  # fmt: skip
    mapping, chat = tmp_path / "mapping.json", tmp_path / "chat.jsonl"
    mapping.write_text(json.dumps({"rules": [{"line": said}]}))
    dated = {"who": "bo", "text": "hello", "at": "2026-06-02"}
    texts = ("ok", "ok", "yes", "ok")
    turns: list[Any] = [{"who": "ann", "text": text, "at": None} for text in texts]
    turns.insert(1, dated)
    data, printed = tmp_path / "data", list[str]()

    def read(*target: str | Path) -> None:
        for added in ((), ({"who": "ann", "text": "ok", "at": None}, {**dated, "text": "bye"})):
            turns.extend(added)
            chat.write_bytes(lines(*turns))
            done = engramlog("import", chat, *target, "--mapping", mapping, env=USUAL)
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout.split(": ")[1].split(";")[0].strip())
            again = engramlog("import", chat, *target, "--mapping", mapping, env=USUAL)
            printed.append(again.stdout.split(": ")[1].split(";")[0].strip())

    if way == "alone":
        read("--data", data)
    else:
        with serving(data, "--no-auth", env=USUAL) as node:
            read(*(("--data", data) if way == "served" else ("--url", node.url)))
    kept = Counter(fact["value"]["v"] for fact in facts_of(data))
    assert printed == ["5 asserted", "5 existing", "5 existing, 2 asserted", "7 existing"]
    assert kept == {"ok": 4, "yes": 1, "hello": 1, "bye": 1}


def test_a_part_that_was_skipped_counts_among_equal_turns(tmp_path: Path) -> None:
    said = {"entity": "user:ann", "relation": "memory:said", "source": "chat:one",
            "value": {"type": "text", "v": "{text}"}}  # fmt: skip
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps({"rules": [{"line": said}]}))
    for turns, skipped in (1, 0), (2, 1):
        stdin = lines(*[{"text": "ok"}] * turns)
        done = engramlog("import", "-", "--data", tmp_path / "data", "--mapping", mapping,
                         "--skip", str(skipped), stdin=stdin, env=USUAL)  # fmt: skip
        assert "1 asserted" in done.stdout
    assert len(facts_of(tmp_path / "data")) == 2


@pytest.mark.parametrize(
    ("name", "file"), [("icews14", "icews14/facts.jsonl.gz"), ("locomo", "locomo/corpus.jsonl")]
)
def test_the_other_mappings_fit_their_data(tmp_path: Path, name: str, file: str) -> None:
    source = SHARED_DATA / file
    if not source.exists():
        pytest.skip(f"needs {source}")
    text = source.read_bytes()
    if source.suffix == ".gz":
        text = gzip.decompress(text)
    some = b"\n".join(text.splitlines()[:500])
    done = engramlog(
        "import", "-", "--data", tmp_path / "data", "--mapping", MAPPINGS / f"{name}.json",
        stdin=some,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "500 lines" in done.stdout


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "md"])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, suffix: str) -> None:
    file, mapping = tmp_path / f"facts.{suffix}", tmp_path / "mapping.json"
    text = {"csv": "entity,relation,value\nuser:a,memory:note,one\n", "md": "one\n"}.get(
        suffix, lines(fact(1, value={"type": "text", "v": "one"})).decode()
    )
    written = b"\xef\xbb\xbf" + text.encode()
    file.write_bytes(gzip.compress(written) if suffix.endswith("gz") else written)
    done = engramlog("import", file, "--data", tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["value"]["v"] for each in facts_of(tmp_path / "data")] == ["one"]
    mapping.write_bytes(b"\xef\xbb\xbf" + (MAPPINGS / "locomo.json").read_bytes())
    assert load_mapping(mapping).rules


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    done = engramlog("import", tmp_path / "no.jsonl", "--data", tmp_path / "data")
    assert done.returncode == 1
    assert (
        done.stderr
        == f"engramlog: cannot read {tmp_path / 'no.jsonl'}: No such file or directory\n"
    )


def test_the_lines_of_the_docs_page_can_be_imported(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "import.md").read_text()
    examples = page.split("```jsonl\n")[1].split("```")[0]
    done = engramlog("import", "-", "--data", tmp_path / "data", stdin=examples.encode())
    assert done.returncode == 0, done.stderr
    assert "3 asserted, 1 resolved, 1 retracted" in done.stdout
    mapping = tmp_path / "mapping.json"
    mapping.write_text(page.split("```json\n")[1].split("```")[0])
    record = {"kind": "joined", "who": "ann", "team": "atlas", "day": "2024-01-02", "seen": 17e8}
    mapped = engramlog(
        "import", "-", "--data", tmp_path / "data", "--mapping", mapping, stdin=lines(record)
    )
    assert mapped.returncode == 0, mapped.stderr


@pytest.mark.parametrize("name", ["date", "unix", "days_since", "time", "before", "plus", "text"])
def test_every_filter_is_on_the_docs_page(name: str) -> None:
    assert set(FILTERS) == {"date", "unix", "days_since", "time", "before", "plus", "text"}
    assert f"| `{name}" in (ROOT / "docs" / "import.md").read_text()


def test_nothing_to_import_says_nothing_of_positions(tmp_path: Path) -> None:
    done = engramlog("import", "-", "--data", tmp_path / "data")
    assert done.returncode == 0
    assert done.stdout.endswith("nothing to do\n")
