"""Costs that grow with one entity: the refresh of its card, and writes about and to it.

Writes are measured in processor time: other load on the machine would hide their growth.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import httpx

from benchmarks.report import Figure, percentile, say
from benchmarks.serving import serving, wait_ready
from benchmarks.workload import command_of
from engramlog.api.node.node import Node
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.projections.writing.commands import AssertFact

CARD_FACTS = 1_000
CARD_AIM = "≤ 50 ms"
REFRESHES = 30
GROUP = 500
STEPS = 10
HUB = "stigmem://bench.example/hub/one"
AGENT = "stigmem://bench.example/agent/ann"


def card_refresh() -> list[Figure]:
    """Milliseconds until a card of a thousand facts is ready again after a write."""
    say(f"the card of an entity with {CARD_FACTS:,} facts")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "node"
        node = Node.open(folder)
        node.writer.submit([_said(n) for n in range(CARD_FACTS)], actor="bench").result()
        node.close()
        return [_refreshed(folder)]


def _refreshed(folder: Path) -> Figure:
    quiet = {"STIGMEM_EMBED_ENABLED": "false"}
    costs: list[float] = []
    with serving(folder, env=quiet) as url, httpx.Client(base_url=url, timeout=30) as http:
        wait_ready(url)
        for number in range(REFRESHES):
            body = {
                "entity": HUB,
                "relation": f"memory:later{number}",
                "value": {"type": "text", "v": f"said later {number}"},
                "source": AGENT,
                "scope": "local",
            }
            http.post("/v1/facts", json=body).raise_for_status()
            began = perf_counter()
            params = {"scope": "local", "refresh": "true"}
            card = http.get(f"/v1/cards/{HUB}", params=params).raise_for_status().json()
            costs.append((perf_counter() - began) * 1e3)
            assert card["facts"] == CARD_FACTS + number + 1
            assert not card["is_stale"]
    label = f"card of {CARD_FACTS:,} facts refreshed, over HTTP, p50"
    return Figure(label, percentile(costs, 0.5), "ms", aim=CARD_AIM)


def hub_writes(facts: int) -> list[Figure]:
    """Cost of writes as one entity grows to ``facts`` facts: its own, and refs to it."""
    return [
        _grown("facts about one hub", facts, _said),
        _grown("edges to one hub", facts, _pointing),
    ]


def _grown(name: str, facts: int, make: Callable[[int], AssertFact]) -> Figure:
    say(f"{name}, {facts:,}")
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "node")
        settle_heap()
        step = max(GROUP, facts // STEPS)
        costs: list[float] = []
        for start in range(0, facts, step):
            asked = [make(number) for number in range(start, start + step)]
            began = process_time()
            for at in range(0, step, GROUP):
                node.writer.submit(asked[at : at + GROUP], actor="bench").result()
            costs.append((process_time() - began) / step * 1e6)
        node.close()
    return Figure(
        f"{name}, at {facts:,}", costs[-1], "µs CPU/write", "the first tenth",
        costs[-1] / costs[0], "flat",
    )  # fmt: skip


def _said(number: int) -> AssertFact:
    return command_of(
        {
            "entity": HUB,
            "relation": f"memory:r{number}",
            "value": {"type": "text", "v": f"what was said of it the {number}th time"},
            "source": AGENT,
            "scope": "local",
        }
    )


def _pointing(number: int) -> AssertFact:
    return command_of(
        {
            "entity": f"stigmem://bench.example/item/{number:09d}",
            "relation": "rel:has",
            "value": {"type": "ref", "v": HUB},
            "source": AGENT,
            "scope": "local",
        }
    )
