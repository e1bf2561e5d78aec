"""Nodes whose recalls are answered in processes of their own."""

from __future__ import annotations

import re
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


def children(node: NodeProcess) -> list[int]:
    """Process ids of the node's workers."""
    folder = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children")
    found = [int(each) for each in folder.read_text().split()]
    return [
        each for each in found if b"recall_workers" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
