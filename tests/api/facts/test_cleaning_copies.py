"""A receipt covers the files of its signer. Any other node still has to clean its own, also if it
takes the signer's place before it has."""

from pathlib import Path
from typing import Any

from engramlog.api.node.node import Node
from engramlog.api.node.replicating import prepare
from tests.worlds.data_files import files_with
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

SECRET = "zanzibar quokka 9911"


def told(live: LiveNode) -> str:
    for n in range(30):
        live.state(entity=f"user:u{n}", v=f"nothing of note {n}", key=CONTROL_TOKEN)
    return str(live.state(v=SECRET, key=CONTROL_TOKEN)["id"])


def erase(live: LiveNode, fact_id: str) -> None:
    body = {"fact_ids": [fact_id], "reason": "request", "wait": True, "timeout_s": 30}
    answer = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert answer.json()["status"] == "clean", answer.text


def copied(primary: LiveNode, to: Path) -> None:
    key = primary.key_of("copy", "replicate")
    prepare(to, primary.url, key, lambda *_: None)


def test_a_replica_promoted_before_it_cleaned_its_files_cleans_them(tmp_path: Path) -> None:
    primary = LiveNode(tmp_path / "primary")
    fact_id = told(primary)
    copied(primary, tmp_path / "copy")
    replica = LiveNode(tmp_path / "copy")
    replica.call("POST", "/v1/admin/snapshots", key=CONTROL_TOKEN)
    until(lambda: files_with(tmp_path / "copy" / "snapshots", SECRET.encode()))
    replica.close()
    erase(primary, fact_id)
    copied(primary, tmp_path / "copy")  # and then both machines fail
    primary.close()
    assert not files_with(tmp_path / "primary", SECRET.encode())
    node = Node.open(tmp_path / "copy")
    node.promote()
    node.close()
    promoted = LiveNode(tmp_path / "copy")
    try:
        until(lambda: not files_with(tmp_path / "copy", SECRET.encode()))
    finally:
        promoted.close()


def test_a_node_that_leads_before_it_cleaned_its_files_cleans_them(
    tmp_path: Path, postgres_url: str
) -> None:
    options: dict[str, Any] = {"log": postgres_url, "log_durability": "server"}
    first = LiveNode(tmp_path / "first", **options)
    first.node.identity.backup(tmp_path / "second" / "identity")
    fact_id = told(first)
    LiveNode(tmp_path / "second", **options).close()
    assert files_with(tmp_path / "second", SECRET.encode())
    until(lambda: first.node.leads)
    erase(first, fact_id)
    first.close()
    second = LiveNode(tmp_path / "second", **options)
    try:
        until(lambda: not files_with(tmp_path / "second", SECRET.encode()))
    finally:
        second.close()
