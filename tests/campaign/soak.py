"""Soak: a node under mixed load, and whether its memory, files and lag stay flat."""

import random
import shutil
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from engramlog.api.client.client import Client
from tests.worlds.processes import NodeProcess, fact, serving

SAMPLES = 20
ENTITIES = 2_000
WRITE_EVERY_SECONDS = 0.25
"""Reads continue without a pause between writes: the log grows slowly, leaks would not."""
BYTES_PER_EVENT_MAX = 4_096
"""The most memory that one more event may cost."""
GROWTH_MAX = {"memory": 48.0, "descriptors": 8.0, "wal": 16.0}
"""How much the last quarter of the samples may exceed the first; bytes in MiB, memory in addition
to the events' cost."""


class Sample(Struct, frozen=True):
    """Events of the log; resident memory and write-ahead logs in MiB; open descriptors; the tables'
    lag."""

    events: int
    memory: float
    descriptors: int
    wal: float
    lag: int


def run(count: int, seed: int) -> list[str]:
    """Run this many minutes; returns the faults."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    samples: list[Sample] = []
    try:
        with serving(folder / "data", "--no-auth") as node:
            client = node.client()
            end = time.monotonic() + count * 60
            sample_due = write_due = 0.0
            while (now := time.monotonic()) < end:
                number = rng.randrange(ENTITIES)
                if now >= write_due:
                    value = {"type": "number", "v": rng.random()}
                    client.post("/v1/facts", fact(number, value=value))
                    write_due = now + WRITE_EVERY_SECONDS
                client.post("/v1/recall", {"query": f"thing {number}", "scope": "company"})
                client.get("/v1/facts", {"limit": 20})
                if rng.random() < 0.001:
                    for _ in client.lines("/v1/export"):
                        pass
                if now >= sample_due:
                    samples.append(_sampled(node, client))
                    print(f"  {samples[-1]}", flush=True)
                    sample_due = now + count * 60 / SAMPLES
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _grown(samples)


def _sampled(node: NodeProcess, client: Client) -> Sample:
    proc = Path(f"/proc/{node.process.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    wal = sum(path.stat().st_size for path in node.data.glob("*-wal"))
    ready = client.get("/readyz")
    return Sample(
        events=ready["position"],
        memory=int(status["VmRSS"].split()[0]) / 1024,
        descriptors=len(list((proc / "fd").iterdir())),
        wal=wal / 1024 / 1024,
        lag=max(mark["lag"] for mark in ready["projections"].values()),
    )


def _grown(samples: list[Sample]) -> list[str]:
    quarter = max(1, len(samples) // 4)
    faults: list[str] = []
    events = samples[-1].events - samples[0].events
    expected = {"memory": events * BYTES_PER_EVENT_MAX / 1024 / 1024}
    for name, most in GROWTH_MAX.items():
        first, last = (
            sum(float(getattr(each, name)) for each in some) / quarter
            for some in (samples[:quarter], samples[-quarter:])
        )
        if last - first > most + expected.get(name, 0.0):
            faults.append(f"{name} grew from {first:.0f} to {last:.0f}")
    return faults
