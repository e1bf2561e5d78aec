"""Erasing as its users meet it: by command, with recall workers, and with a replica."""

import json
from pathlib import Path
from typing import Any

import pytest

from engramlog import Memory
from engramlog.api.client.client import Client, ClientError
from tests.worlds.data_files import files_with
from tests.worlds.erasure_receipts import receipt_fault
from tests.worlds.processes import NodeProcess, engramlog, fact, serving
from tests.worlds.recall_workers import WORKERS, recall, state, warm
from tests.worlds.replicas import assert_equal, position, replica_key, replica_of
from tests.worlds.waiting import until

SECRET = "zanzibar-quokka-7741"


def owner(node: NodeProcess) -> Client:
    """A client with the rights of the machine's owner."""
    return Client(node.control.url, node.control.token)


def erase(node: NodeProcess, fact_id: str) -> dict[str, Any]:
    with owner(node) as client:
        return client.post("/v1/erasures", {"fact_ids": [fact_id], "wait": True})


def test_no_single_word_of_an_erased_fact_stays_in_a_file(tmp_path: Path) -> None:
    """Indexes keep words, not texts; so do the files of the memory image."""
    data = tmp_path / "memory"
    word = "zanzibarquokka"
    lines = [fact(n, value={"type": "text", "v": f"tea {n}"}) for n in range(2_100)]
    lines.append(fact(2_100, entity="user:bob", value={"type": "text", "v": f"a {word}."}))
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    assert engramlog("import", "-", "--data", data, stdin=stdin).returncode == 0
    assert files_with(data, word.encode())
    done = engramlog("erase", "entity", "user:bob", "--data", data, "--json")
    assert json.loads(done.stdout)["status"] == "clean"
    assert files_with(data, word.encode()) == {}
    with Memory(data) as memory:
        memory.remember("a last note", user="ann")
    assert files_with(data, word.encode()) == {}


def test_commands_erase_hold_and_tell(tmp_path: Path) -> None:
    data = tmp_path / "memory"
    lines = [fact(1), fact(2, entity="user:bob", value={"type": "text", "v": SECRET})]
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    assert engramlog("import", "-", "--data", data, stdin=stdin).returncode == 0
    bob = ("--entity", "user:bob", "--data", data)
    told = engramlog("hold", "add", *bob, "--reason", "a lawsuit").stdout
    assert "user:bob" in told
    assert told.rstrip().endswith("a lawsuit")
    refused = engramlog("erase", "entity", "user:bob", "--data", data)
    assert refused.returncode == 1
    assert "legal hold" in refused.stderr
    removed = [engramlog("hold", "remove", *bob) for _ in range(2)]
    assert [each.returncode for each in removed] == [0, 0]
    never = "engramlog: warning: no hold was on user:bob\n"
    assert [each.stderr for each in removed] == ["", never]
    held = engramlog("hold", "list", "--data", data, "--json")
    assert json.loads(held.stdout) == {"holds": []}
    done = engramlog("erase", "entity", "user:bob", "--reason", "request", "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["status"], body["facts"], body["reason"]) == ("clean", 1, "request")
    receipt = body["receipt"]
    assert receipt_fault(receipt["signed"], receipt["signature"]) is None
    assert files_with(data, SECRET.encode(), b"user:bob") == {}
    status = engramlog("erase", "status", "--data", data)
    assert body["erasure_id"] in status.stdout
    assert "clean" in status.stdout
    nobody = engramlog("erase", "entity", "user:nobody", "--data", data)
    assert (nobody.returncode, nobody.stderr) == (
        1,
        "engramlog: nothing is known about user:nobody\n",
    )
    unknown = engramlog("erase", "fact", "no-such-fact", "--data", data)
    assert (unknown.returncode, "fact not found" in unknown.stderr) == (1, True)
    assert engramlog("replay", "verify", "--data", data).returncode == 0


def test_commands_warn_of_a_mistyped_name(tmp_path: Path) -> None:
    data = tmp_path / "memory"
    done = engramlog("import", "-", "--data", data, stdin=json.dumps(fact(1)).encode())
    assert done.returncode == 0
    entity = str(fact(1)["entity"])
    for command, name, warning in (
        (("tombstone", "set"), "user:anna", "no live fact is about user:anna"),
        (("hold", "add", "--entity"), "user:anna", "nothing is known about user:anna"),
        (("hold", "remove", "--entity"), "user:anna", ""),
        (("hold", "add", "--entity"), entity, ""),
        (("tombstone", "set"), entity, ""),
    ):
        done = engramlog(*command, name, "--data", data)
        assert done.returncode == 0
        assert done.stderr == (warning and f"engramlog: warning: {warning}\n")


def test_the_end_of_a_name_erases_no_mentions_of_it(tmp_path: Path) -> None:
    data = tmp_path / "memory"
    nasa = "stigmem://acme.example/agency/nasa"
    episode = {"op": "episode", "user": "cy", "session": "s", "agent": "a", "content": "hello",
               "timestamp": "2026-03-02T09:00:00Z"}  # fmt: skip
    lines = [
        fact(1, entity="user:ann"),
        fact(2, entity=nasa),
        fact(3, entity="user:bo", value={"type": "text", "v": "lunch with Ann at agency/nasa"}),
        fact(4, entity="tea", value={"type": "text", "v": "a plant"}),
        fact(5, entity="user:bo", value={"type": "text", "v": "likes tea and coffee"}),
        fact(6, entity="drink:tea", value={"type": "text", "v": "hot"}),
        fact(7, entity="user:cy"),
        episode,
    ]
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    done = engramlog("import", "-", "--data", data, stdin=stdin)
    assert done.returncode == 0, done.stderr
    for end, name in (("ann", "user:ann"), ("agency/nasa", nasa)):
        refused = engramlog("erase", "entity", end, "--data", data)
        assert refused.returncode == 1
        assert f"no facts are about {end}; give {name}\n" in refused.stderr
    shown = engramlog("show", "agency/nasa", "--data", data).stderr
    assert "tables leave out the beginning of stigmem://acme.example/agency/nasa" in shown
    for own, events in (("tea", 2), ("cy", 1)):
        done = engramlog("erase", "entity", own, "--data", data, "--json")
        assert json.loads(done.stdout)["events"] == events


def test_recall_workers_forget_and_go_on_with_the_same_answers(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth", env=WORKERS) as node:
        client = node.client()
        for number in range(10):
            state(client, f"note {number} about atlas", f"memory:note{number}")
        secret = state(client, f"{SECRET} grazes", "memory:secret")
        warm(client)
        assert secret["id"] in json.dumps(recall(client, SECRET))
        assert erase(node, secret["id"])["status"] == "clean"
        assert secret["id"] not in json.dumps(recall(client, SECRET))
        later = state(client, "wombats burrow", "memory:later")
        found = recall(client, "wombats", limit=1)
        assert found["facts"][0]["fact"]["id"] == later["id"]
        assert found["facts"][0]["score_breakdown"]["semantic"] > 0, "its vector came as well"
        with pytest.raises(ClientError):
            client.get(f"/v1/facts/{secret['id']}")


def test_a_replica_erases_its_copies(tmp_path: Path) -> None:
    with serving(tmp_path / "primary", "--no-auth") as primary:
        key = replica_key(primary)
        replica = replica_of(primary.url, tmp_path / "replica", key).wait_ready()
        try:
            theirs, ours = primary.client(), replica.client()
            secret = theirs.post("/v1/facts", fact(1, value={"type": "text", "v": SECRET}))
            kept = theirs.post("/v1/facts", fact(2))
            until(lambda: position(ours) >= kept["position"])
            assert files_with(tmp_path / "replica", SECRET.encode())
            assert erase(primary, secret["id"])["status"] == "clean"
            until(lambda: position(ours) == position(theirs))
            until(lambda: not files_with(tmp_path / "replica", SECRET.encode()))
            assert_equal(primary, replica)
        finally:
            replica.stop()
    assert engramlog("replay", "verify", "--data", tmp_path / "replica").returncode == 0
