"""Recalls in processes of their own: the same answers, never late, whatever befalls a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from api.client import Client, ClientError
from tests.system.processes import NodeProcess, serving

WORKERS = {"STIGMEM_RECALL_WORKERS": "2", "STIGMEM_EMBED_ENABLED": "true",
           "STIGMEM_EMBED_PROVIDER": "minilm"}  # fmt: skip
READY_SECONDS_MAX = 60.0
SUBJECTS = ("atlas", "borealis", "cassini", "dione")


@pytest.fixture
def node(tmp_path: Path) -> Generator[NodeProcess, None, None]:
    with serving(tmp_path / "data", "--no-auth", env=WORKERS) as running:
        client = running.client()
        for number in range(40):
            state(client, f"note {number} about {SUBJECTS[number % 4]}", f"memory:note{number % 3}")
        yield running


def state(client: Client, text: str, relation: str = "memory:note") -> dict[str, Any]:
    return client.post(
        "/v1/facts?wait=embedded",
        {
            "entity": "stigmem://t.example/project/atlas",
            "relation": relation,
            "value": {"type": "text", "v": text},
            "source": "agent:t",
            "scope": "company",
        },
    )


def recall(client: Client, query: str, **more: Any) -> dict[str, Any]:
    return client.post("/v1/recall", {"query": query, "scope": "company", **more})


def plain(answer: dict[str, Any]) -> str:
    """An answer without what differs between any two; facts age by a second meanwhile, which
    shows from the seventh digit of a score on."""
    answer = {**answer, "moment": None}
    text = json.dumps(answer, indent=1)
    text = re.sub(r'"(recall_id|receipt_id|generated_at)": "[^"]*"', r'"\1": ""', text)
    text = re.sub(r'"milliseconds": [0-9.e+-]+', '"milliseconds": 0', text)
    return re.sub(r"\d+\.\d{6,}", lambda found: f"{float(found[0]):.5f}", text)


def ready(client: Client) -> int:
    found = re.search(r"^engramlog_recall_workers_ready (\S+)$", metrics(client), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def metrics(client: Client) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{client.url}/metrics", timeout=10) as answer:
        return answer.read().decode()


def warm(client: Client, wanted: int = 2) -> None:
    """Recall until the workers answer."""
    for number in range(55):
        recall(client, f"warming {number}")
    deadline = time.monotonic() + READY_SECONDS_MAX
    while ready(client) < wanted:
        assert time.monotonic() < deadline, "the workers did not come up"
        time.sleep(0.1)


def children(node: NodeProcess) -> list[int]:
    """Process ids of the node's workers."""
    folder = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children")
    found = [int(each) for each in folder.read_text().split()]
    return [
        each for each in found if b"recall_workers" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def test_a_worker_answers_what_the_serving_process_answers(node: NodeProcess) -> None:
    client = node.client()
    asked: list[dict[str, Any]] = [
        {"query": f"what about {name}", "explain": True, "track": False} for name in SUBJECTS
    ]
    asked += [{"query": "borealis", "limit": 3}, {"query": "dione", "relation": "memory:note1"}]
    before = [plain(recall(client, **each)) for each in asked]
    warm(client)
    for each, earlier in zip(asked, before, strict=True):
        assert plain(recall(client, **each)) == earlier
    assert len(children(node)) == 2


def test_a_worker_knows_every_write_that_was_acknowledged(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    for number in range(30):
        fact = state(client, f"zebra{number} grazes")
        found = recall(client, f"zebra{number}", limit=1)
        assert found["facts"][0]["fact"]["id"] == fact["id"]
        assert found["facts"][0]["score_breakdown"]["semantic"] > 0, "its vector came as well"
        client.post(f"/v1/facts/{fact['id']}/retract", {})
        again = recall(client, f"zebra{number}")
        assert fact["id"] not in [each["fact"]["id"] for each in again["facts"]]


def test_errors_of_a_worker_are_those_of_the_node(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    for body, code in (({"garden_id": "none"}, 404), ({"profile": "none"}, 400)):
        with pytest.raises(ClientError) as refused:
            recall(client, "atlas", **body)
        assert refused.value.status == code


def test_recalls_are_counted_and_leave_receipts(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    answer = recall(client, "cassini", limit=2)
    receipt = client.get(f"/v1/recall/receipts/{answer['receipt_id']}")
    assert [each["fact_id"] for each in receipt["returned"]] == [
        each["fact"]["id"] for each in answer["facts"]
    ]
    assert receipt["counted"] is True


def test_killed_workers_cost_no_answer_and_come_back(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    answers: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        mine = node.client()
        while not stop.is_set():
            answers.append(len(recall(mine, "atlas")["facts"]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    killed = children(node)
    for pid in killed:
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
    time.sleep(1.0)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert len(answers) > 20
    assert set(answers) == {40}
    deadline = time.monotonic() + READY_SECONDS_MAX
    while ready(client) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert not set(children(node)) & set(killed)


def test_the_workers_end_with_the_node(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    pids = children(node)
    assert len(pids) == 2
    node.process.kill()
    node.process.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its node"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_node_without_workers_starts_none(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth", env={"STIGMEM_RECALL_WORKERS": "0"}) as running:
        client = running.client()
        for number in range(60):
            recall(client, f"atlas {number}")
        assert children(running) == []


def test_a_worker_hides_what_a_tombstone_hides(node: NodeProcess) -> None:
    client = node.client()
    warm(client)
    assert recall(client, "borealis")["facts"]
    admin = node.client(node.control.token)
    entity = {"entity_uri": "stigmem://t.example/project/atlas"}
    stone = admin.post("/v1/tombstones", entity)
    found = recall(client, "borealis")
    assert found["facts"] == []
    assert found["memory_card"] is None
    assert found["tombstone_notices"] == []
    told = recall(admin, "borealis")
    assert [each["tombstone_id"] for each in told["tombstone_notices"]] == [stone["id"]]
    admin.post(f"/v1/tombstones/{stone['id']}/revoke", {"reason": "seen"})
    assert recall(client, "borealis")["facts"]
    assert ready(client) == 2
