"""``engramlog audit`` over a directory and over a running node."""

import csv
import io
import json
from pathlib import Path

from tests.worlds.processes import engramlog, serving


def test_a_long_value_is_cut_in_a_table_and_whole_elsewhere(tmp_path: Path) -> None:
    sql = "SELECT repeat('x', 5000) AS long, 1 AS n"
    engramlog("import", "-", "--data", tmp_path / "data", "--quiet")
    table = engramlog("audit", "sql", sql, "--data", tmp_path / "data")
    assert [len(line) for line in table.stdout.splitlines()[:2]] == [203, 203]
    whole = engramlog("audit", "sql", sql, "--format", "csv", "--data", tmp_path / "data")
    assert "x" * 5000 in whole.stdout


def test_the_life_of_a_fact_and_of_its_readers(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        client = node.client()
        body = {
            "entity": "stigmem://t.example/user/alice", "relation": "memory:role",
            "value": {"type": "string", "v": "CEO"}, "source": "agent:t", "scope": "company",
        }  # fmt: skip
        fact = client.post("/v1/facts", body)
        client.post("/v1/recall", {"query": "alice role CEO", "scope": "company"})
        client.get("/v1/recall/receipts")
        client.post(f"/v1/facts/{fact['id']}/retract", {"reason": "resigned"})
        lived = engramlog("audit", "fact", fact["id"], "--data", tmp_path / "data")
        assert lived.returncode == 0, lived.stderr
        for word in ("fact_asserted", "recall_answered", "fact_retracted", "resigned"):
            assert word in lived.stdout
        assert "confidence 1 from" in lived.stdout
        whole = engramlog(
            "audit", "entity", str(body["entity"]), "--data", tmp_path / "data", "--format", "json"
        )
        kinds = [each["kind"] for each in json.loads(whole.stdout)["events"]]
        assert kinds[0] == "fact_asserted"
        assert "fact_retracted" in kinds


def test_differences_and_statements_as_files(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        for number in range(3):
            node.client().post(
                "/v1/facts",
                {
                    "entity": "user:a", "relation": f"memory:n{number}",
                    "value": {"type": "number", "v": number}, "source": "agent:t",
                    "scope": "company",
                },
            )  # fmt: skip
    args = ("--data", tmp_path / "data")
    shown = engramlog("audit", "diff", "--from", "position:1", *args)
    assert shown.returncode == 0, shown.stderr
    assert "3 added, 0 retracted, 0 decayed, 0 resolved" in shown.stdout
    as_csv = engramlog("audit", "diff", "--from", "position:1", "--format", "csv", *args)
    assert len(list(csv.DictReader(io.StringIO(as_csv.stdout)))) == 3
    for asked in (("diff", "--from", "position:1"), ("state",), ("sql", "SELECT 'ü' AS value")):
        printed = engramlog("audit", *asked, *args)
        filed = engramlog("audit", *asked, "--output", tmp_path / "table", *args)
        assert (filed.returncode, filed.stdout) == (0, ""), filed.stderr
        assert (tmp_path / "table").read_text("utf-8") == printed.stdout
    target = tmp_path / "rows.parquet"
    done = engramlog(
        "audit", "sql", "SELECT entity FROM facts", "--format", "parquet", "--output", target, *args
    )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes()[:4] == b"PAR1"
    wrong = engramlog("audit", "sql", "DELETE FROM facts", *args)
    assert wrong.returncode == 1
    assert "engramlog: " in wrong.stderr
    state = engramlog("audit", "state", "--as-of", "position:3", "--format", "json", *args)
    assert len(json.loads(state.stdout)["facts"]) == 2
    unknown = engramlog("audit", "fact", "no-such-fact", *args)
    assert (unknown.returncode, "fact not found" in unknown.stderr) == (1, True)


def test_a_fork_from_a_file(tmp_path: Path) -> None:
    said = {
        "entity": "user:a", "relation": "memory:role", "value": {"type": "string", "v": "CEO"},
        "source": "agent:t", "scope": "company",
    }  # fmt: skip
    with serving(tmp_path / "data", "--no-auth") as node:
        node.client().post("/v1/facts", said)
    other = {**said, "op": "assert", "relation": "memory:likes"}
    document = tmp_path / "what-if.json"
    document.write_text(json.dumps({"suppose": [other], "state": {"entity": "user:a"}}))
    shown = engramlog("audit", "fork", document, "--data", tmp_path / "data")
    assert shown.returncode == 0, shown.stderr
    (row,) = [line for line in shown.stdout.splitlines() if "user:a" in line]
    assert "added" in row
    assert "memory:likes" in row
    document.write_text("{")
    assert engramlog("audit", "fork", document, "--data", tmp_path / "data").returncode != 0
