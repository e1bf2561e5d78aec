"""Recall on the node as it ships while it embeds what was just written, compared with a resting
node, and embedding beside recalls, compared with embedding alone."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.cost import ModelWorld, ShippedNode, fill, shipped
from benchmarks.recall_world import Question
from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient
from benchmarks.workload import fact_bodies

RECALLS = 100
WARM = 30
EMBEDDED = 1_000
"""Facts of the measurement without recalls."""
PAGE = 1_000


def measure(facts: int) -> list[Figure]:
    """Figures over a store of ``facts`` facts."""
    world = ModelWorld(facts)
    with tempfile.TemporaryDirectory(prefix="engramlog-embedding-") as name:
        data = Path(name)
        fill(data, world)
        with shipped(data) as node:
            questions = iter(world.questions(WARM + 2 * RECALLS))
            bodies = fact_bodies(10**6, first=10**6)
            client = node.client()
            _recalls(client, questions, lambda taken: len(taken) < WARM)
            say("recalls of a resting node")
            idle = _recalls(client, questions, lambda taken: len(taken) < RECALLS)
            say("embedding alone")
            _write(client, bodies, EMBEDDED)
            watch = Stopwatch()
            node.settle()
            alone = EMBEDDED / watch.seconds
            say("recalls while it embeds")
            busy, rate = _beside(node, client, questions, bodies)
            client.close()
    return [
        Figure("recall, resting, p50", percentile(idle, 0.5) * 1e3, "ms"),
        Figure("recall, resting, p95", percentile(idle, 0.95) * 1e3, "ms"),
        _ratio("recall while it embeds, p50", busy, idle, 0.5, ""),
        _ratio("recall while it embeds, p95", busy, idle, 0.95, "≤ 2x"),
        Figure("texts embedded", alone, "/s"),
        Figure("texts embedded beside recalls", rate, "/s", "alone", rate / alone),
    ]


def _beside(
    node: ShippedNode, client: RawClient, questions: Iterator[Question], bodies: Iterator[object]
) -> tuple[list[float], float]:
    """The recalls' times, and the texts embedded in a second meanwhile."""
    _write(client, bodies, PAGE)
    watch, to_embed = Stopwatch(), _waiting(client)

    def more(taken: list[float]) -> bool:
        nonlocal to_embed
        if _waiting(client) < PAGE / 2:
            _write(client, bodies, PAGE)
            to_embed += PAGE
        return len(taken) < RECALLS

    taken = _recalls(client, questions, more)
    rate = (to_embed - _waiting(client)) / watch.seconds
    node.settle()
    return taken, rate


def _recalls(
    client: RawClient, questions: Iterator[Question], more: Callable[[list[float]], bool]
) -> list[float]:
    taken: list[float] = []
    while more(taken):
        body = {"query": next(questions).text, "scope": "*"}
        began = time.perf_counter()
        status, answer = client.post("/v1/recall", body)
        taken.append(time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"{status} {answer[:300]!r}")
    return taken


def _write(client: RawClient, bodies: Iterator[object], count: int) -> None:
    lines = "\n".join(json.dumps(next(bodies)) for _ in range(count)).encode()
    status, answer = client.request("POST", "/v1/facts/batch", lines, "application/x-ndjson")
    if status not in (200, 201):
        raise RuntimeError(f"{status} {answer[:300]!r}")


def _waiting(client: RawClient) -> float:
    """How many facts are to get a vector."""
    text = client.request("GET", "/metrics")[1].decode()
    line = next(x for x in text.splitlines() if x.startswith("engramlog_embedding_waiting"))
    return float(line.split()[-1])


def _ratio(name: str, busy: list[float], idle: list[float], share: float, aim: str) -> Figure:
    value, base = percentile(busy, share), percentile(idle, share)
    return Figure(name, value * 1e3, "ms", "resting", value / base, aim)
