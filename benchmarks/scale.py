"""Many nodes over one log in PostgreSQL: appends through one and three nodes, recalls, joining.

The servers are a primary and two standbys on this machine, one of which must have each commit.
Baselines on the same servers: the same bodies by raw ``INSERT``, one commit each, and by ``COPY``.
All nodes, servers and clients share the machine's cores, so throughput says little about more
machines; processor time per recall, added up over the nodes, does.
"""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.report import Figure, Stopwatch, say
from benchmarks.serving import RawClient, run_command, serving_process
from benchmarks.workload import fact_bodies
from tests.worlds.postgres_servers import Server, Servers, missing, new_log

NODES = 3
CLIENTS_A_NODE = 4
BATCH = 1_000
QUESTIONS = 200

Served = tuple[str, int]
"""URL and process of a node."""


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts`` facts in batches, and a tenth of that singly."""
    reason = missing()
    if reason is not None:
        say(f"scale: skipped, {reason}")
        return []
    servers = Servers()
    try:
        primary = servers.quorum()[0]
        raw = _raw(primary, facts)
        with new_log(primary) as url, tempfile.TemporaryDirectory() as folder:
            return _measured(Path(folder), url, facts, raw)
    finally:
        servers.close()


def _measured(folder: Path, url: str, facts: int, raw: dict[str, float]) -> list[Figure]:
    figures: list[Figure] = []
    with ExitStack() as stack:
        nodes = [stack.enter_context(_node(folder / "0", url))]
        say("one node: batches, single writes, recalls")
        figures += _writes(nodes, facts, raw, first=0)
        figures += _recalls(nodes)
        run_command("snapshot", "take", "--data", str(folder / "0"))
        joins: dict[str, float] = {}
        for number, way in enumerate(("replay", "snapshot"), 1):
            watch = Stopwatch()
            joined = folder / str(number)
            run_command("identity", "backup", str(joined / "identity"), "--data", str(folder / "0"))
            if way == "snapshot":
                shutil.copytree(folder / "0" / "snapshots", joined / "snapshots")
            nodes.append(stack.enter_context(_node(joined, url)))
            joins[way] = watch.seconds
        figures += [
            Figure("a new node ready, by replay", joins["replay"], "s"),
            Figure("a new node ready, by a copied snapshot", joins["snapshot"], "s", "by replay",
                   joins["snapshot"] / joins["replay"]),
            Figure("events in the log then", float(_position(nodes[0])), ""),
        ]  # fmt: skip
        for count in (2, NODES):
            figures += _recalls(nodes[:count])
        say(f"{NODES} nodes: batches and single writes")
        figures += _writes(nodes, facts, raw, first=10_000_000)
    return figures


@contextmanager
def _node(data: Path, url: str) -> Generator[Served]:
    with serving_process(data, env={"STIGMEM_LOG": url, "STIGMEM_LOG_DURABILITY": "quorum"}) as at:
        yield at


def _writes(nodes: list[Served], facts: int, raw: dict[str, float], *, first: int) -> list[Figure]:
    name = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    batches = max(1, facts // BATCH // len(nodes))
    work = [(at, first + n * 1_000_000, batches) for n, (at, _) in enumerate(nodes)]
    with multiprocessing.get_context("spawn").Pool(len(nodes) * CLIENTS_A_NODE) as pool:
        watch = Stopwatch()
        pool.starmap(_post_batches, work)
        batch = batches * BATCH * len(nodes) / watch.seconds
        each = max(10, facts // 10 // (len(nodes) * CLIENTS_A_NODE))
        single = [
            (at, first + 5_000_000 + (n * CLIENTS_A_NODE + client) * each, each)
            for n, (at, _) in enumerate(nodes)
            for client in range(CLIENTS_A_NODE)
        ]
        watch = Stopwatch()
        pool.starmap(_post_each, single)
        one = each * len(single) / watch.seconds
    return [
        Figure(f"batches of {BATCH:,}, {name}", batch, "facts/s", "COPY, a commit a batch",
               batch / raw["copy"]),
        Figure(f"single POSTs, {name}, {CLIENTS_A_NODE} clients each", one, "facts/s",
               "INSERT, a commit each", one / raw["insert"]),
    ]  # fmt: skip


def _recalls(nodes: list[Served]) -> list[Figure]:
    """Parallel recalls of one client per node."""
    for at, _ in nodes:
        _ask((at, 5, 0))
    before = sum(_cpu_seconds(pid) for _, pid in nodes)
    watch = Stopwatch()
    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(_ask, [(at, QUESTIONS, n + 1) for n, (at, _) in enumerate(nodes)]))
    seconds, asked = watch.seconds, QUESTIONS * len(nodes)
    used = sum(_cpu_seconds(pid) for _, pid in nodes) - before
    name = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    return [
        Figure(f"recalls, {name}", asked / seconds, "/s"),
        Figure(f"processor time a recall, {name}", used / asked * 1e3, "ms"),
    ]


def _ask(work: tuple[str, int, int]) -> None:
    url, count, salt = work
    client = RawClient(url)
    for number in range(count):
        query = f"what did person {number} do in town {salt}?"
        body: dict[str, Any] = {"query": query, "token_budget": 1000, "scope": "*"}
        status, answer = client.post("/v1/recall", body)
        assert status == 200, answer
    client.close()


def _post_batches(url: str, first: int, batches: int) -> None:
    client = RawClient(url)
    for number in range(batches):
        bodies = [*fact_bodies(BATCH, seed=first + number, first=first + number * BATCH)]
        status, answer = client.post("/v1/facts/batch", bodies)
        assert status == 200, answer
    client.close()


def _post_each(url: str, first: int, count: int) -> None:
    client = RawClient(url)
    for body in fact_bodies(count, seed=first, first=first):
        status, answer = client.post("/v1/facts", body)
        assert status == 201, answer
    client.close()


def _position(node: Served) -> int:
    client = RawClient(node[0])
    _, body = client.request("GET", "/readyz")
    client.close()
    return int(json.loads(body)["position"])


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process and of its living children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(_cpu_seconds(int(child)) for child in children)


def _raw(primary: Server, facts: int) -> dict[str, float]:
    """Rows per second of the same bodies without a log: one commit each, and by COPY."""
    rows = [json.dumps(body) for body in fact_bodies(max(BATCH, facts))]
    with psycopg.connect(primary.url(), autocommit=True) as db:
        db.execute("CREATE TABLE raw (id bigserial PRIMARY KEY, body text)")
        singly = rows[: max(100, facts // 10)]
        watch = Stopwatch()
        for row in singly:
            db.execute("INSERT INTO raw (body) VALUES (%s)", (row,))
        insert = len(singly) / watch.seconds
        watch = Stopwatch()
        for start in range(0, len(rows), BATCH):
            with db.cursor().copy("COPY raw (body) FROM STDIN") as copy:
                for row in rows[start : start + BATCH]:
                    copy.write_row((row,))
        by_copy = len(rows) / watch.seconds
        db.execute("DROP TABLE raw")
    return {"insert": insert, "copy": by_copy}
