"""Episodes and their facts through files, with real commands and nodes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.import_lines import lines
from tests.worlds.processes import ROOT, NodeProcess, engramlog, serving

CONVERSATION = ROOT / "fixtures" / "conversation"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a node whose rule has read twelve of fourteen episodes."""
    folder = tmp_path_factory.mktemp("exported")
    data, file = folder / "data", folder / "export.jsonl"
    rule = CONVERSATION / "rule.json"
    told = (CONVERSATION / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    ran = engramlog("consolidation", "rules", "--data", data, "--set", rule)
    assert ran.returncode == 0, ran.stderr
    for some in (told[:12], told[12:14]):
        done = engramlog("episodes", "add", "--data", data, "--file", "-", stdin=b"".join(some))
        assert done.returncode == 0, done.stderr
    assert engramlog("export", "--data", data, "--output", file).returncode == 0
    return file


def ops(file: Path) -> list[str]:
    return [json.loads(line)["op"] for line in file.read_bytes().splitlines()]


def facts(data: Path) -> list[dict[str, Any]]:
    done = engramlog("episodes", "facts", "--data", data, "--user", "Mara", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [{name: fact[name] for name in ("id", "payload", "lineage", "delta_id", "version")}
            for fact in found]  # fmt: skip


def status(node: NodeProcess) -> dict[str, Any]:
    answer = node.client(node.control.token).get("/v1/consolidation/status")
    (rule,) = answer["rules"]
    return {name: rule[name] for name in ("read", "pending")} | {"runs": len(rule["runs"])}


def test_a_node_that_serves_takes_memories_and_its_cadence_waits(
    tmp_path: Path, exported: Path
) -> None:
    """Fourteen episodes arrive, twelve of them already consolidated. The rule of every six runs
    only after four more, though the node's scheduler is awake all the time."""
    data = tmp_path / "data"
    assert ops(exported)[0] == "rule"
    with serving(data) as node:
        done = engramlog("import", exported, "--data", data)
        assert done.returncode == 0, done.stderr
        assert "14 recorded, 2 applied" in done.stdout
        assert status(node) == {"read": 12, "pending": 2, "runs": 2}
        told = (CONVERSATION / "episodes.jsonl").read_bytes().splitlines(keepends=True)
        more = b"".join(told[14:])
        said = engramlog("episodes", "add", "--data", data, "--file", "-", stdin=more)
        assert said.returncode == 0, said.stderr
    with serving(data) as node:  # it ran the due rules before it stopped
        assert status(node) == {"read": 18, "pending": 0, "runs": 3}
    assert facts(data)[0]["lineage"][0]["source_episode_ids"] == ["ep-04"]


def test_a_stopped_import_continues_within_the_deltas_of_episodes(
    tmp_path: Path, exported: Path
) -> None:
    whole, half, file = tmp_path / "whole", tmp_path / "half", tmp_path / "broken.jsonl"
    assert engramlog("import", exported, "--data", whole, "--clock-from-file").returncode == 0
    good = exported.read_bytes().splitlines()
    at = ops(exported).index("run")  # behind the deltas of the first six, before their run
    broken = json.loads(good[at])
    file.write_bytes(b"\n".join([*good[:at], json.dumps({**broken, "at": "x"}).encode(),
                                 *good[at + 1 :]]))  # fmt: skip
    stopped = engramlog("import", file, "--data", half, "--clock-from-file")
    assert stopped.returncode == 1
    assert f"line {at + 1}: at: must be an RFC 3339" in stopped.stderr
    assert f"continue with --skip {at}" in stopped.stderr
    again = ("import", exported, "--data", half, "--clock-from-file", "--skip", str(at))
    gone_on = engramlog(*again)
    assert gone_on.returncode == 0, gone_on.stderr
    assert facts(half) == facts(whole)
    with serving(half) as one, serving(whole) as other:
        assert status(one) == status(other) == {"read": 12, "pending": 2, "runs": 2}


def test_a_kept_rule_is_written_by_the_continued_import(tmp_path: Path, exported: Path) -> None:
    """A serving node gets rules last, so a run that stopped earlier leaves none in the log."""
    data, file = tmp_path / "data", tmp_path / "broken.jsonl"
    good = exported.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*good[:5], b'{"op": "episode"}', *good[5:]]))
    with serving(data) as node:
        stopped = engramlog("import", file, "--data", data)
        assert (stopped.returncode, "line 6: " in stopped.stderr) == (1, True)
        client = node.client(node.control.token)
        assert client.get("/v1/consolidation/rules") == {"rules": []}
        gone_on = engramlog("import", exported, "--data", data, "--skip", "5")
        assert gone_on.returncode == 0, gone_on.stderr
        assert status(node) == {"read": 12, "pending": 2, "runs": 2}


def test_a_bad_rule_stops_at_its_line(tmp_path: Path) -> None:
    bad = lines({"op": "rule", "rule_id": "r", "document": {"cadence": {"every": 0}}})
    lost = lines({"op": "rule", "rule_id": "r",
                  "document": {"cadence": {"every": 1}, "garden_id": "nowhere"}})  # fmt: skip
    with serving(tmp_path / "data"):
        done = engramlog("import", "-", "--data", tmp_path / "data", stdin=bad)
        assert done.returncode == 1
        assert done.stderr.startswith("engramlog: line 1: document.cadence")
        done = engramlog("import", "-", "--data", tmp_path / "data", stdin=lost)
        assert done.returncode == 1
        assert "line 1: document.garden_id: no garden 'nowhere'" in done.stderr
        assert "every other line is in the log" in done.stderr


def test_a_key_imports_by_url_within_its_rights(tmp_path: Path, exported: Path) -> None:
    with serving(tmp_path / "data") as node:
        made = node.client(node.control.token)
        keys: dict[str, str] = {}
        for entity, permissions in (("agent:reader", ["read"]), ("agent:writer", ["read", "write"]),
                                    ("agent:root", ["read", "write", "admin"])):  # fmt: skip
            keys[entity] = f"raw-key-of-{entity}-0123456789abcdef"
            body = {"entity_uri": entity, "permissions": permissions, "raw_key": keys[entity]}
            made.post("/v1/auth/keys", body)

        def send(entity: str, *items: object) -> str:
            done = engramlog(
                "import", "-", "--url", node.url, stdin=lines(*items),
                env={"STIGMEM_API_KEY": keys[entity]},
            )  # fmt: skip
            return "" if done.returncode == 0 else done.stderr

        episode = json.loads(exported.read_bytes().splitlines()[1])
        assert episode["op"] == "episode"
        assert "write permission required" in send("agent:reader", episode)
        assert send("agent:writer", episode) == ""
        rule = {"op": "rule", "rule_id": "r", "document": {"cadence": {"every": 100}}}
        assert "admin permission required" in send("agent:writer", rule)
        assert send("agent:root", rule) == ""
        alias = {"op": "alias", "name": "user:annie", "entity": "user:ann"}
        assert "may not end facts of every source" in send("agent:writer", alias)
        assert send("agent:root", alias) == ""
        derived = {"entity": "user:ann", "relation": "role", "value": {"type": "string", "v": "x"},
                   "source": "agent:writer", "key": "f", "derived_from": ["e"]}  # fmt: skip
        told = {**episode, "key": "e", "id": "ep-x"}
        scored = {"op": "feedback", "cited": ["f"]}
        ranked = {"op": "attributes", "target": "f", "attributes": {"relevance": 10}}
        assert send("agent:writer", told, derived, scored, ranked) == ""
        (fact,) = made.get("/v1/facts", {"entity": "user:ann"})["facts"]
        recorded = made.get("/v1/episodes/ep-x")
        assert fact["derived_from"][0]["hash"] == f"sha256:{recorded['hash']}"
        assert fact["attributes"]["relevance"] == 10
        assert recorded["recorded_by"] == "agent:writer"
        for op, why in (("deltas", "deltas cannot go"), ("run", "the progress of rules")):
            told = [json.loads(line) for line in exported.read_bytes().splitlines()]
            line = next(each for each in told if each["op"] == op)
            refused = send("agent:root", *(each for each in told if each["op"] == "episode"), line)
            assert "line 15: op: needs --data" in refused
            assert why in refused


def test_an_export_by_url_has_the_keys_readable_facts(tmp_path: Path, exported: Path) -> None:
    with serving(tmp_path / "data") as node:
        assert engramlog("import", exported, "--data", tmp_path / "data").returncode == 0
        made = node.client(node.control.token)
        keys: dict[str, str] = {}
        for entity, scopes, permissions in (
            ("agent:local", ["local"], ["read"]), ("agent:team", ["team"], ["read"]),
            ("agent:root", ["local"], ["read", "admin"]),
        ):  # fmt: skip
            keys[entity] = f"raw-key-of-{entity}-0123456789abcdef"
            body = {"entity_uri": entity, "permissions": permissions, "scopes": scopes}
            made.post("/v1/auth/keys", {**body, "raw_key": keys[entity]})

        def get(entity: str, *args: str) -> tuple[list[dict[str, Any]], str]:
            done = engramlog(
                "export", "--url", node.url, *args, env={"STIGMEM_API_KEY": keys[entity]}
            )
            return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

        mine, _ = get("agent:local")
        assert [line["op"] for line in mine] == ["episode"] * 12 + ["deltas"] * 2 + ["episode"] * 2
        assert get("agent:team") == ([], "")
        refused = get("agent:local", "--declarations")
        assert (refused[0], "admin permission required" in refused[1]) == ([], True)
        everything, _ = get("agent:root", "--declarations")
        assert {line["op"] for line in everything} == {"episode", "deltas", "rule", "run"}
    file = tmp_path / "root.jsonl"
    file.write_bytes(lines(*everything))
    back = engramlog("import", file, "--data", tmp_path / "back", "--clock-from-file")
    assert back.returncode == 0, back.stderr
    assert facts(tmp_path / "back") == facts(tmp_path / "data")


def test_the_lines_about_episodes_on_the_page_can_be_imported(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "import-format.md").read_text()
    examples = page.split("```jsonl\n")[2].split("```")[0]
    with serving(tmp_path / "data") as node:
        done = engramlog("import", "-", "--data", tmp_path / "data", stdin=examples.encode())
        assert done.returncode == 0, done.stderr
        assert "1 recorded, 1 applied, 2 declared" in done.stdout
        assert status(node) == {"read": 1, "pending": 0, "runs": 1}
