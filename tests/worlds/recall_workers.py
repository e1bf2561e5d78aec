"""Nodes that answer recalls in separate processes."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from engramlog.api.client.client import Client
from tests.worlds.processes import NodeProcess
from tests.worlds.waiting import until

WORKERS = {"STIGMEM_RECALL_WORKERS": "2", "STIGMEM_EMBED_ENABLED": "true",
           "STIGMEM_EMBED_PROVIDER": "minilm"}  # fmt: skip


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
    until(lambda: ready(client) >= wanted)


def children(node: NodeProcess, name: bytes = b"recall_workers") -> list[int]:
    """Process ids of the node's workers, or of children with ``name`` in their command."""
    found: list[int] = []
    # each thread has its own children
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        with suppress(FileNotFoundError):
            found += [int(each) for each in (task / "children").read_text().split()]
    return [each for each in found if name in Path(f"/proc/{each}/cmdline").read_bytes()]


class Asking:
    """Threads that ask a node one new question after another, in a ``with`` block. Every second
    question shares no word with a fact, so that only the model finds something. ``counts``: the
    number of facts in each answer."""

    def __init__(self, node: NodeProcess, threads: int = 3) -> None:
        self._node = node
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(threads)]
        self._failed: list[BaseException] = []
        self.counts: list[int] = []

    def __enter__(self) -> Asking:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def more(self, count: int) -> None:
        """Return once this many more answers have come."""
        enough = len(self.counts) + count
        until(lambda: len(self.counts) >= enough or self._failed)
        assert not self._failed

    def _ask(self, thread: int) -> None:
        client, number = self._node.client(), 0
        try:
            while not self._stop.is_set():
                number += 1
                query = f"remark {thread}x{number}" + " on atlas" * (number % 2)
                self.counts.append(len(recall(client, query, track=False)["facts"]))
        except BaseException as fault:
            self._failed.append(fault)
