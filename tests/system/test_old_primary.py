"""What a promoted replica never received is taken over from the old primary's directory."""

from pathlib import Path

from tests.worlds.processes import ROOT, engramlog, fact, serving
from tests.worlds.replicas import assert_equal, replica_key

COMMANDS = (
    "engramlog export --data memory --output memory.jsonl\n"
    "engramlog import memory.jsonl --data copy\n"
)


def test_a_promoted_replica_takes_over_what_it_never_received(tmp_path: Path) -> None:
    assert COMMANDS in (ROOT / "docs" / "replication.md").read_text()
    memory, copy, lines = tmp_path / "memory", tmp_path / "copy", tmp_path / "memory.jsonl"
    with serving(memory, "--no-auth") as primary:
        key = replica_key(primary)
        stated = [primary.client().post("/v1/facts", fact(n, scope="local")) for n in range(4)]
        follow = ("--no-auth", "--replica-of", primary.url)
        with serving(copy, *follow, env={"STIGMEM_REPLICA_KEY": key}) as replica:
            assert_equal(primary, replica)
        stated.append(primary.client().post("/v1/facts", fact(4, scope="local")))
        primary.client().post(f"/v1/facts/{stated[0]['id']}/retract", {})
    assert engramlog("promote", "--data", copy).returncode == 0
    exported = engramlog("export", "--data", memory, "--output", lines)
    assert exported.returncode == 0, exported.stderr
    for outcome in ("4 existing, 1 asserted, 1 retracted", "6 existing"):
        imported = engramlog("import", lines, "--data", copy)
        assert outcome in imported.stdout, imported.stderr
    with serving(copy, "--no-auth") as node:
        facts = node.client().get("/v1/facts?scope=local&limit=100")["facts"]
    told, expected = ([each["value"]["v"] for each in some] for some in (facts, stated[1:]))
    assert sorted(told) == sorted(expected)
