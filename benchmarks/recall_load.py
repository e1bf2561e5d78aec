"""Parallel recalls, with and without writes, against a served node."""

import threading
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.recall_world import Question
from benchmarks.report import Figure, say
from benchmarks.serving import RawClient
from benchmarks.workload import fact_bodies

CLIENTS = 8
LOAD_SECONDS = 5.0


def ask(client: RawClient, question: Question, **more: Any) -> None:
    """One recall in every readable scope; ``more`` overrides the body."""
    body = {"query": question.text, "scope": "*", "track": False, **more}
    status, _ = client.post("/v1/recall", body)
    assert status == 200


def side_by_side(url: str, questions: list[Question]) -> list[Figure]:
    """Eight clients against one, and writes with and without concurrent recalls."""
    say(f"{CLIENTS} clients; writes beside recalls")
    one = _rate([_recalls(url, questions)])
    many = _rate([_recalls(url, questions[n:] + questions[:n]) for n in range(CLIENTS)])
    alone = _rate([_writes(url, 0)])
    both = _rate([_writes(url, 1_000_000), _recalls(url, questions)], counted=1)
    return [
        Figure("recalls, one client", one, "/s"),
        Figure(f"recalls, {CLIENTS} clients", many, "/s", "one client", many / one, "≥ 1.5x"),
        Figure("writes beside recalls", both, "/s", "writes alone", both / alone),
    ]


def _rate(works: list[Iterator[None]], counted: int | None = None) -> float:
    """Steps per second that the first ``counted`` of ``works`` (all) make in parallel."""
    ends = time.monotonic() + LOAD_SECONDS
    steps = [0] * len(works)

    def run(number: int) -> None:
        for _ in works[number]:
            steps[number] += 1
            if time.monotonic() >= ends:
                return

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(steps[:counted]) / LOAD_SECONDS


def _recalls(url: str, questions: list[Question]) -> Iterator[None]:
    client = RawClient(url)
    while True:
        for question in questions:
            ask(client, question)
            yield


def _writes(url: str, first: int) -> Iterator[None]:
    client = RawClient(url)
    for body in fact_bodies(1_000_000, first=first):
        status, _ = client.post("/v1/facts", body)
        assert status in (200, 201)
        yield
