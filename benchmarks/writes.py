"""Durable single POSTs to the shipped default, from one keep-alive client and from 32.

Baselines: the same rows into SQLite (WAL, FULL), one commit each, from one thread; and a bare
handler that parses and answers bodies of the same size, under the same clients.
"""

import json
import multiprocessing
import tempfile
from pathlib import Path

import apsw

from benchmarks.bare_handler import bare_handler
from benchmarks.cost import shipped
from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient
from benchmarks.workload import fact_bodies

CLIENTS = 32


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts // 20`` writes by each arrangement."""
    writes = max(500, facts // 20)
    with tempfile.TemporaryDirectory() as folder, bare_handler() as (bare, _):
        raw = _raw_inserts(Path(folder) / "raw.db", writes)
        with shipped(Path(folder) / "node") as node:
            say("single POSTs, one client")
            _post_all(node.url, node.key, 0, 100)
            watch = Stopwatch()
            seconds = _post_all(node.url, node.key, 1000, writes)
            one = writes / watch.seconds
            say(f"single POSTs, {CLIENTS} clients")
            many = _rate(node.url, node.key, writes)
            client = node.client()
            answer = client.request("GET", "/v1/facts?limit=1")[1]
            client.close()
        client = RawClient(bare)
        client.request("PUT", "/", json.dumps(json.loads(answer)["facts"][0]).encode())
        client.close()
        say(f"the bare handler, {CLIENTS} clients")
        bare_many = _rate(bare, "", writes)
    return [
        Figure("POST, 1 client", one, "facts/s", "raw insert, a commit each", one / raw,
               "≥ 1,000"),
        Figure("POST, 1 client, p50", percentile(seconds, 0.5) * 1e3, "ms"),
        Figure("POST, 1 client, p99", percentile(seconds, 0.99) * 1e3, "ms"),
        Figure(f"POST, {CLIENTS} clients", many, "facts/s", f"bare handler, {CLIENTS} clients",
               many / bare_many, "≥ 0.3x"),
    ]  # fmt: skip


def _rate(url: str, key: str, writes: int) -> float:
    """Requests per second of all clients together."""
    each = writes // CLIENTS * 2
    with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
        pool.starmap(_post_all, [(url, key, 10**6 + k, 1) for k in range(CLIENTS)])
        watch = Stopwatch()
        pool.starmap(_post_all, [(url, key, 10**7 + k * each, each) for k in range(CLIENTS)])
        return each * CLIENTS / watch.seconds


def _post_all(url: str, key: str, first: int, count: int) -> list[float]:
    client = RawClient(url, key)
    seconds: list[float] = []
    for body in fact_bodies(count, seed=first, first=first * 10):
        watch = Stopwatch()
        status, answer = client.post("/v1/facts", body)
        seconds.append(watch.seconds)
        assert status in (200, 201), answer
    client.close()
    return seconds


def _raw_inserts(path: Path, rows: int) -> float:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, body TEXT)")
    bodies = [(json.dumps(body),) for body in fact_bodies(rows)]
    watch = Stopwatch()
    for body in bodies:
        with db:
            db.execute("INSERT INTO facts (body) VALUES (?)", body)
    rate = rows / watch.seconds
    db.close()
    return rate
