"""Recalls in their own processes: the same answers, always current, and independent of a worker's
failures."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engramlog.api.client.client import ClientError
from tests.worlds.processes import NodeProcess, serving
from tests.worlds.recall_workers import WORKERS, Asking, children, ready, recall, state, warm
from tests.worlds.waiting import until

SUBJECTS = ("atlas", "borealis", "cassini", "dione")
MODEL = b"model_server"
_NUMBER = re.compile(r"\d+\.\d+(?:e-\d+)?")
QUESTIONS: list[dict[str, Any]] = [
    *({"query": f"what about {name}", "explain": True, "track": False} for name in SUBJECTS),
    {"query": "borealis", "limit": 3},
    {"query": "dione", "relation": "memory:note1"},
]


@dataclass(frozen=True, repr=False)
class Served:
    """A node with running workers, its answers from before they ran, and the number of facts that
    other answers had while they started."""

    node: NodeProcess
    before: list[tuple[str, list[float]]]
    while_starting: list[int]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    """One for all tests of this file: to bring workers up takes longer than to ask them. A test
    leaves the facts as it found them; only the last one ends the node."""
    data = tmp_path_factory.mktemp("workers") / "data"
    with serving(data, "--no-auth", env=WORKERS) as running:
        client = running.client()
        for number in range(40):
            state(client, f"note {number} about {SUBJECTS[number % 4]}", f"memory:note{number % 3}")
        before = [plain(recall(client, **each)) for each in QUESTIONS]
        ask_sql(running)  # makes the files of the archive's tail
        files = files_of(data)
        with Asking(running) as asking:
            warm(client)
        assert files_of(data) >= files, "a starting worker changed files of the node"
        yield Served(running, before, asking.counts)


@pytest.fixture
def node(served: Served) -> NodeProcess:
    if served.node.process.poll() is not None:
        pytest.fail("the node has ended")
    return served.node


def plain(answer: dict[str, Any]) -> tuple[str, list[float]]:
    """An answer without its varying parts, and its numbers separately: facts age meanwhile, which
    changes them slightly."""
    text = json.dumps({**answer, "moment": None}, indent=1)
    text = re.sub(r'"(recall_id|receipt_id|generated_at)": "[^"]*"', r'"\1": ""', text)
    text = re.sub(r'"milliseconds": [0-9.e+-]+', '"milliseconds": 0', text)
    numbers = [float(each) for each in _NUMBER.findall(text)]
    return _NUMBER.sub("#", text), numbers


def answers_as_before(served: Served) -> bool:
    client = served.node.client()
    for each, (text, numbers) in zip(QUESTIONS, served.before, strict=True):
        assert plain(recall(client, **each)) == (text, pytest.approx(numbers, abs=1e-3))
    return True


def test_a_worker_gives_the_serving_processs_answers(served: Served) -> None:
    assert answers_as_before(served)
    assert len(children(served.node)) == 2


def test_no_answer_was_empty_while_workers_started(served: Served) -> None:
    assert len(served.while_starting) > 3
    assert all(served.while_starting)


def test_a_worker_knows_every_acknowledged_write(node: NodeProcess) -> None:
    client = node.client()
    for number in range(30):
        fact = state(client, f"zebra{number} grazes")
        found = recall(client, f"zebra{number}", limit=1)
        assert found["facts"][0]["fact"]["id"] == fact["id"]
        assert found["facts"][0]["score_breakdown"]["semantic"] > 0, "its vector came as well"
        client.post(f"/v1/facts/{fact['id']}/retract", {})
        again = recall(client, f"zebra{number}")
        assert fact["id"] not in [each["fact"]["id"] for each in again["facts"]]


def test_errors_of_a_worker_equal_the_nodes(node: NodeProcess) -> None:
    client = node.client()
    for body, code in (({"garden_id": "none"}, 404), ({"profile": "none"}, 400)):
        with pytest.raises(ClientError) as refused:
            recall(client, "atlas", **body)
        assert refused.value.status == code


def test_recalls_are_counted_and_leave_receipts(node: NodeProcess) -> None:
    client = node.client()
    answer = recall(client, "cassini", limit=2)
    receipt = client.get(f"/v1/recall/receipts/{answer['receipt_id']}")
    assert [each["fact_id"] for each in receipt["returned"]] == [
        each["fact"]["id"] for each in answer["facts"]
    ]
    assert receipt["counted"] is True


def test_killed_workers_cost_no_answer_and_come_back(node: NodeProcess) -> None:
    client = node.client()
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
    enough = len(answers) + 20
    until(lambda: len(answers) > enough)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert set(answers) == {40}
    until(lambda: ready(client) == 2)
    assert not set(children(node)) & set(killed)


def kill_a_worker(node: NodeProcess) -> None:
    for pid in children(node)[:1]:
        os.kill(pid, signal.SIGKILL)


def kill_the_model(node: NodeProcess) -> None:
    (pid,) = until(lambda: children(node, MODEL))
    os.kill(pid, signal.SIGKILL)


def halt_the_model(node: NodeProcess) -> None:
    """For longer than a stage has time."""
    (pid,) = until(lambda: children(node, MODEL))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(pid, signal.SIGCONT)


def say_something(node: NodeProcess) -> None:
    client = node.client()
    said = state(client, "quagga stays")
    assert recall(client, "quagga", limit=1)["facts"][0]["fact"]["id"] == said["id"]
    client.post(f"/v1/facts/{said['id']}/retract", {})


@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.sampled_from([kill_a_worker, kill_the_model, halt_the_model, say_something]),
        min_size=1,
        max_size=3,
        unique=True,
    )
)
@example([halt_the_model, kill_the_model, kill_a_worker])
def test_no_answer_is_empty_while_workers_and_the_model_come_and_go(
    served: Served, acts: list[Callable[[NodeProcess], None]]
) -> None:
    with Asking(served.node) as asking:
        for act in acts:
            asking.more(3)
            act(served.node)
        asking.more(6)
    assert all(asking.counts)
    until(lambda: searched_by_meaning(served.node))
    assert answers_as_before(served)


def searched_by_meaning(node: NodeProcess) -> bool:
    """Whether the model is back: without it a recall answers from the other stages."""
    stages = recall(node.client(), "what about the model")["stages"]
    return {each["name"]: each["status"] for each in stages}["semantic"] == "completed"


def ask_sql(node: NodeProcess) -> list[Any]:
    found = node.client(node.control.token).post(
        "/v1/time-travel/sql", {"sql": "SELECT count(*) FROM events"}
    )
    return found["rows"]


def files_of(data: Path) -> set[tuple[str, int]]:
    """Files by name and inode, so that replaced and removed ones differ. The databases' side files
    come and go with their readers."""
    found = [path for path in data.rglob("*") if path.is_file()]
    return {
        (str(path), path.stat().st_ino)
        for path in found
        if not path.name.endswith(("-wal", "-shm", ".next"))
    }


def written_by(pid: int, data: Path) -> set[str]:
    """Files of the data directory that a process has open for writing. SQLite opens the side
    files so for readers too: they lock in them."""
    found: set[str] = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(handle)
            text = Path(f"/proc/{pid}/fdinfo/{handle.name}").read_text()
        except FileNotFoundError:  # closed meanwhile
            continue
        flags = int(re.search(r"flags:\s+(\d+)", text)[1], 8)  # pyright: ignore[reportOptionalSubscript]
        if target.startswith(f"{data}/") and flags & os.O_ACCMODE != os.O_RDONLY:
            found.add(Path(target).name)
    return {name for name in found if not name.endswith(("-wal", "-shm"))}


def test_a_worker_opens_nothing_for_writing(node: NodeProcess) -> None:
    for pid in children(node):
        assert written_by(pid, node.data) == set()
    assert "log.db" in written_by(node.process.pid, node.data)


def test_audits_are_answered_while_workers_start(node: NodeProcess) -> None:
    client = node.client()
    assert ask_sql(node)
    entity = quote("stigmem://t.example/project/atlas", safe="")
    assert client.get(f"/v1/time-travel/entities/{entity}")


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


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has no workers")
def test_the_serving_process_answers_beside_its_workers(tmp_path: Path) -> None:
    """So workers that hang hold up only the questions that they have."""
    off = {"STIGMEM_EMBED_ENABLED": "false"}
    with serving(tmp_path / "data", "--no-auth", env=off) as running:
        client = running.client()
        with Asking(running):
            until(lambda: ready(client))
        pids = children(running)
        with Asking(running, len(pids) + 2) as asking:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            asking.more(100)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            asking.more(10)


def test_a_worker_applies_tombstones(node: NodeProcess) -> None:
    client = node.client()
    until(lambda: ready(client) == 2)  # a test before may have ended one
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


def test_the_workers_end_with_the_node(node: NodeProcess) -> None:
    pids = until(lambda: found if len(found := children(node)) == 2 else [])
    node.process.kill()
    node.process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() and alive(pid) for pid in pids))
