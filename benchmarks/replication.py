"""A replica measured: how fast it starts, how soon it shows a write, how fast it catches up.

``python -m benchmarks.replication [FACTS]`` starts a primary and its replica as separate processes
on this machine, which share its cores.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.serving import RawClient, serving
from engramlog.api.client.client import Client

FACTS = 100_000
BATCH_FACTS = 2_000
SINGLE_WRITES = 300
BEHIND_FACTS = 20_000
BOOTSTRAPS = 3
SOURCE = "stigmem://bench.example/agent/writer"


def fact(number: int) -> dict[str, object]:
    """One of many facts of one shape."""
    return {
        "entity": f"stigmem://bench.example/thing/{number}",
        "relation": "memory:number",
        "value": {"type": "number", "v": number},
        "source": SOURCE,
        "scope": "company",
    }


def write(url: str, first: int, count: int) -> None:
    """State facts in batches."""
    client = RawClient(url)
    for start in range(first, first + count, BATCH_FACTS):
        items = [fact(n) for n in range(start, min(start + BATCH_FACTS, first + count))]
        status, body = client.request("POST", "/v1/facts/batch", json.dumps(items).encode())
        assert status == 200, body


def key_of(data: Path) -> str:
    """A key that may copy the log."""
    control = json.loads((data / "control.json").read_text())
    raw_key = "benchmark-replica-key-0123456789-abcdef"
    with Client(control["url"], control["token"]) as client:
        body = {"raw_key": raw_key, "entity_uri": "agent:replica", "permissions": ["replicate"]}
        client.post("/v1/auth/keys", body)
    return raw_key


def take_snapshot(data: Path) -> None:
    """Make the primary take one, and wait for it."""
    control = json.loads((data / "control.json").read_text())
    with Client(control["url"], control["token"]) as client:
        client.post("/v1/admin/snapshots")
        while (job := client.get("/v1/admin/snapshots")["job"])["status"] == "running":
            time.sleep(0.02)
        assert job["status"] == "done", job


def delays(primary: str, replica: str, first: int) -> list[float]:
    """Milliseconds from a write's acknowledgement until the replica shows it, ascending."""
    found: list[float] = []
    with Client(primary) as theirs, Client(replica) as ours:
        for number in range(first, first + SINGLE_WRITES):
            position = theirs.post("/v1/facts", fact(number))["position"]
            started = time.perf_counter()
            while ours.get("/readyz")["position"] < position:
                pass
            found.append((time.perf_counter() - started) * 1000)
    return sorted(found)


def bootstrap(copy: Path, env: dict[str, str]) -> float:
    """Seconds from the start of a new replica until it serves everything of the primary."""
    started = time.perf_counter()
    with serving(copy, env=env) as replica, Client(replica) as client:
        seconds = time.perf_counter() - started
        assert client.get("/readyz")["replica"]["lag"] == 0
    return seconds


def compare_bootstraps(folder: Path, facts: int, follow: dict[str, str]) -> None:
    """New replicas from a snapshot and from the log alone, in turns; the best of each."""
    best: dict[str, float] = {}
    for turn in range(BOOTSTRAPS):
        for name, wanted in (("the log alone", "false"), ("a snapshot", "true")):
            copy = folder / f"replica-{turn}-{wanted}"
            seconds = bootstrap(copy, {**follow, "STIGMEM_REPLICA_SNAPSHOT": wanted})
            assert (copy / "snapshots").exists() == (wanted == "true")
            shutil.rmtree(copy)
            best[name] = min(best.get(name, seconds), seconds)
            print(f"new replica of {facts:,} facts from {name}, to serving: {seconds:.2f} s")
    ratio = best["the log alone"] / best["a snapshot"]
    print(f"from a snapshot: {ratio:.2f} times as fast as from the log alone (best of each)")


def main(facts: int) -> None:
    """Measure and print."""
    quiet = {"STIGMEM_EMBED_ENABLED": "false"}
    with tempfile.TemporaryDirectory() as folder:
        data, copy = Path(folder, "primary"), Path(folder, "replica")
        with serving(data, env=quiet) as primary:
            write(primary, 0, facts)
            follow = {**quiet, "STIGMEM_REPLICA_OF": primary, "STIGMEM_REPLICA_KEY": key_of(data)}
            started = time.perf_counter()
            take_snapshot(data)
            print(f"snapshot of {facts:,} facts: {time.perf_counter() - started:.2f} s")
            compare_bootstraps(Path(folder), facts, follow)
            with serving(copy, env=follow) as replica:
                shown = delays(primary, replica, facts)
                print(f"write to visible: p50 {shown[len(shown) // 2]:.1f} ms,", end=" ")
                print(f"p99 {shown[len(shown) * 99 // 100]:.1f} ms")
            write(primary, 10_000_000, BEHIND_FACTS)
            started = time.perf_counter()
            with serving(copy, env=follow):
                seconds = time.perf_counter() - started
                print(f"restart {BEHIND_FACTS:,} facts behind to serving: {seconds:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FACTS)
