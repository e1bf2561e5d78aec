"""kill -9 at random moments under writers, rebuilds, snapshots and erasures."""

import random
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from engramlog.api.client.client import ClientError
from tests.worlds.dying_nodes import KILLED_AFTER_MAX, Writers, check_whole
from tests.worlds.processes import NodeProcess

ROUNDS_A_NODE = 20
"""A new node begins after this many kills, so that starts stay short."""


class Disturber:
    """A thread that requests work that rewrites files, until the node dies."""

    def __init__(self, node: NodeProcess, rng: random.Random, erasable: list[str]) -> None:
        self.erased: set[str] = set()
        self._client = node.client(node.control.token)
        self._rng = rng
        self._erasable = erasable
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self._disturb()
            except ClientError as fault:
                if not fault.status:
                    return

    def _disturb(self) -> None:
        drawn = self._rng.random()
        if drawn < 0.3:
            self._client.post("/v1/admin/rebuild", {"from_scratch": drawn < 0.1})
        elif drawn < 0.6:
            self._client.post("/v1/admin/snapshots", {})
        elif drawn < 0.8 and self._erasable:
            gone = self._erasable.pop()
            self.erased.add(gone)
            self._client.post("/v1/erasures", {"fact_ids": [gone]})
        else:
            self._client.post("/v1/decay/sweep", {"scope": "company"})

    def join(self) -> set[str]:
        self._thread.join(30)
        return self.erased


def run(count: int, seed: int) -> list[str]:
    """Run this many kills; returns the faults."""
    faults: list[str] = []
    killed = 0
    while killed < count:
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        try:
            rounds = min(ROUNDS_A_NODE, count - killed)
            _one_node(folder / "data", rounds, seed)
        except AssertionError as fault:
            faults.append(f"seed {seed}: {fault}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        killed += ROUNDS_A_NODE
        seed += 1
    print(f"  {min(killed, count)} kills", flush=True)
    return faults


def _one_node(data: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    acknowledged: dict[str, Any] = {}
    number = 0
    for _ in range(rounds):
        node = NodeProcess(data, "--no-auth").wait_ready()
        try:
            sample = rng.sample(sorted(acknowledged), min(len(acknowledged), 50))
            check_whole(node, data, acknowledged, sample)
            writers = Writers(node, number)
            disturber = Disturber(node, rng, rng.sample(sample, min(len(sample), 5)))
            writers.until_acknowledged(rng.randint(1, KILLED_AFTER_MAX))
            time.sleep(rng.uniform(0.0, 0.05))
        finally:
            node.kill()
        number = writers.join()
        acknowledged |= writers.acknowledged
        for gone in disturber.join():
            acknowledged.pop(gone, None)
    node = NodeProcess(data, "--no-auth").wait_ready()
    try:
        check_whole(node, data, acknowledged, sorted(acknowledged))
    finally:
        with suppress(Exception):
            node.stop()
