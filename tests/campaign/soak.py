"""Soak: a node under mixed load, and whether its memory, files and lag stay flat."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from tests.worlds.processes import NodeProcess, fact, serving

SAMPLES = 20
GROWTH_MAX = 1.5
"""Last over first quarter of the samples, beyond which memory or descriptors are not flat. Facts
are rewritten in place of others, so that there is no growth to be expected."""
ENTITIES = 2_000


class Sample(Struct, frozen=True):
    """Resident memory and write-ahead logs in MiB; open descriptors; how far tables are behind."""

    memory: float
    descriptors: int
    wal: float
    lag: int


def run(count: int, seed: int) -> list[str]:
    """So many minutes; returns what was wrong."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    samples: list[Sample] = []
    try:
        with serving(folder / "data", "--no-auth") as node:
            client = node.client()
            end = time.monotonic() + count * 60
            due = 0.0
            while (now := time.monotonic()) < end:
                number = rng.randrange(ENTITIES)
                client.post("/v1/facts", fact(number, value={"type": "number", "v": rng.random()}))
                if rng.random() < 0.3:
                    client.post("/v1/recall", {"query": f"thing {number}", "scope": "company"})
                if rng.random() < 0.01:
                    client.get("/v1/export")
                if now >= due:
                    samples.append(_sampled(node))
                    print(f"  {samples[-1]}", flush=True)
                    due = now + count * 60 / SAMPLES
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _grown(samples)


def _sampled(node: NodeProcess) -> Sample:
    proc = Path(f"/proc/{node.process.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    wal = sum(path.stat().st_size for path in node.data.glob("*-wal"))
    ready = node.client().get("/readyz")
    return Sample(
        memory=int(status["VmRSS"].split()[0]) / 1024,
        descriptors=len(list((proc / "fd").iterdir())),
        wal=wal / 1024 / 1024,
        lag=max(mark["lag"] for mark in ready["projections"].values()),
    )


def _grown(samples: list[Sample]) -> list[str]:
    quarter = max(1, len(samples) // 4)
    faults: list[str] = []
    for name in ("memory", "descriptors", "wal"):
        values = [float(getattr(each, name)) for each in samples]
        first, last = sum(values[:quarter]) / quarter, sum(values[-quarter:]) / quarter
        if first and last > first * GROWTH_MAX and last - first > 40:
            faults.append(f"{name} grew from {first:.0f} to {last:.0f}")
    return faults
