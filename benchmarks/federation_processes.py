"""Two real nodes on loopback: a peer's lag, and a new peer's catch-up."""

import json
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient
from benchmarks.workload import command_of, fact_bodies
from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from tests.worlds.federation.processes import OPEN, befriend, compared
from tests.worlds.processes import NodeProcess

WRITES_PER_SECOND = 500
WRITERS = 32
LAG_SECONDS = 20.0
BATCH = 1_000
POLL_SECONDS = 0.003
READY_SECONDS = 600.0
CATCH_UP_SECONDS_MAX = 3_600.0
START_US = 1_750_000_000_000_000


def measure_lag(seconds: float = LAG_SECONDS, rate: int = WRITES_PER_SECOND) -> list[Figure]:
    """Figures of a node with ``rate`` writes a second, and its peer."""
    with _pair() as (a, b):
        befriend(a, b)
        befriend(b, a)
        say(f"{rate} writes/s for {seconds:.0f} s")
        probes, written = _write(a, b, seconds, rate)
        _until_level(a, b)
        a.stop()
        b.stop()
        behind = _recorded_lags(a.data, b.data)
    return [
        Figure("writes reached", written / seconds, "/s", f"the {rate}/s asked for",
               written / seconds / rate, "≥ 1x"),
        Figure("recorded to recorded at the peer, p50", percentile(behind, 0.5) * 1e3, "ms"),
        Figure("recorded to recorded at the peer, p99", percentile(behind, 0.99) * 1e3, "ms",
               "a second", percentile(behind, 0.99), "≤ 1x"),
        Figure("acknowledged to readable at the peer, p50", percentile(probes, 0.5) * 1e3, "ms"),
        Figure("acknowledged to readable at the peer, p99", percentile(probes, 0.99) * 1e3, "ms",
               "a second", percentile(probes, 0.99), "≤ 1x"),
    ]  # fmt: skip


def measure_catch_up(events: int) -> list[Figure]:
    """Figures of a new peer that replays a node of ``events`` events, both serving."""
    with tempfile.TemporaryDirectory(prefix="engramlog-catch-up-") as name:
        folder = Path(name)
        say(f"{events:,} facts are stated")
        stating = _state(folder / "a", events)
        say("and replayed by a new peer")
        with _pair(folder) as (a, b):
            befriend(a, b)
            watch = Stopwatch()
            befriend(b, a)
            _until_level(a, b)
            seconds = watch.seconds
    return [
        Figure(f"catch-up of {events:,} events, to level", seconds, "s"),
        Figure("of catch-up, events", events / seconds, "/s", "stating them in process",
               stating / seconds, "≥ 10,000"),
    ]  # fmt: skip


@contextmanager
def _pair(folder: Path | None = None) -> Generator[tuple[NodeProcess, NodeProcess]]:
    """Two serving nodes, ``a`` and ``b``."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="engramlog-pair-")
        home = folder or Path(stack.enter_context(made))
        nodes = [NodeProcess(home / name, "--no-auth", env=OPEN) for name in ("a", "b")]
        for node in nodes:
            stack.callback(node.kill)
        yield nodes[0].wait_ready(READY_SECONDS), nodes[1].wait_ready(READY_SECONDS)


def _state(data: Path, count: int) -> float:
    """Write ``count`` facts into a new node's directory; seconds."""
    node = Node.open(data, clock=FixedClock(START_US))
    watch = Stopwatch()
    batch: list[Any] = []
    for number, body in enumerate(fact_bodies(count), 1):
        batch.append(command_of({**body, "scope": "company"}))
        if len(batch) == BATCH or number == count:
            node.writer.submit(batch, actor="agent:bench").result()
            batch = []
    seconds = watch.seconds
    node.close()
    return seconds


def _write(a: NodeProcess, b: NodeProcess, seconds: float, rate: int) -> tuple[list[float], int]:
    """Write steadily, and time when single facts become readable at the peer."""
    ends = time.monotonic() + seconds
    written: list[int] = []

    def writer(number: int) -> None:
        client = RawClient(a.url)
        bodies = fact_bodies(1_000_000, seed=number, first=number * 1_000_000)
        pause, due, count = WRITERS / rate, time.monotonic(), 0
        while time.monotonic() < ends:
            client.post("/v1/facts", {**next(bodies), "scope": "company"})
            count += 1
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
        written.append(count)
        client.close()

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(1, WRITERS + 1)]
    for thread in threads:
        thread.start()
    probes = _probe(a, b, ends)
    for thread in threads:
        thread.join()
    return probes, sum(written) + len(probes)


def _probe(a: NodeProcess, b: NodeProcess, ends: float) -> list[float]:
    here, there = RawClient(a.url), RawClient(b.url)
    bodies = fact_bodies(1_000_000, seed=99, first=99_000_000)
    found: list[float] = []
    while time.monotonic() < ends:
        _, body = here.post("/v1/facts", {**next(bodies), "scope": "company"})
        path = f"/v1/facts/{json.loads(body)['id']}"
        watch = Stopwatch()
        while there.request("GET", path)[0] != 200:
            time.sleep(POLL_SECONDS)
        found.append(watch.seconds)
    here.close()
    there.close()
    return found


def _until_level(a: NodeProcess, b: NodeProcess) -> None:
    """Wait until ``b`` has all of ``a``'s streams."""
    name = a.client().get("/.well-known/stigmem")["node_id"]
    client = b.client(b.control.token)
    deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
    last = -1
    while time.monotonic() < deadline:
        replay: dict[str, Any] = client.get(f"/v1/federation/peers/{name}")["replay"] or {}
        if replay.get("level_at_us") and compared(b, a)["equal"]:
            return
        if replay.get("events", 0) // 50_000 != last:
            last = replay.get("events", 0) // 50_000
            say(f"{replay.get('events', 0):,} events replayed")
        time.sleep(0.05)
    raise TimeoutError("the peer did not catch up")


def _recorded_lags(ours: Path, theirs: Path) -> list[float]:
    """Seconds between the recording of each event at the origin and at the peer; one clock."""
    own = Node.open(ours)
    recorded = {
        event.header.event_id: event.received_at
        for event in own.log.read(0, own.log.head().position)
        if event.peer is None and event.header.kind == "fact_asserted"
    }
    own.close()
    peer = Node.open(theirs)
    found = [
        (event.received_at - recorded[event.header.event_id]) / 1e6
        for event in peer.log.read(0, peer.log.head().position)
        if event.header.event_id in recorded
    ]
    peer.close()
    return found
