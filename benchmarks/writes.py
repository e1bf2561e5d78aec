"""Durable single POSTs from one keep-alive client and from 32.

Baselines: the same rows into SQLite (WAL, FULL), one commit each, from one thread; and with all
waiting rows sharing a commit, as an upper bound for 32.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from pathlib import Path

import apsw

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient, serving
from benchmarks.workload import fact_bodies

CLIENTS = 32


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts // 20`` writes by each arrangement."""
    writes = max(500, facts // 20)
    with tempfile.TemporaryDirectory() as folder:
        single_raw = _raw_inserts(Path(folder) / "raw.db", writes, 1)
        grouped_raw = _raw_inserts(Path(folder) / "raw2.db", writes, CLIENTS)
        with serving(Path(folder) / "node") as url:
            say("single POSTs, one client")
            _post_all(url, 0, 100)
            watch = Stopwatch()
            seconds = _post_all(url, 1000, writes)
            one = writes / watch.seconds
            say(f"single POSTs, {CLIENTS} clients")
            each = writes // CLIENTS * 2
            with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
                pool.starmap(_post_all, [(url, 10**6 + k, 1) for k in range(CLIENTS)])
                watch = Stopwatch()
                pool.starmap(_post_all, [(url, 10**7 + k * each, each) for k in range(CLIENTS)])
                many = each * CLIENTS / watch.seconds
    return [
        Figure("POST, 1 client", one, "facts/s", "raw insert, a commit each",
               one / single_raw, "≥ 1,000"),
        Figure("POST, 1 client, p50", percentile(seconds, 0.5) * 1e3, "ms"),
        Figure("POST, 1 client, p99", percentile(seconds, 0.99) * 1e3, "ms"),
        Figure(f"POST, {CLIENTS} clients", many, "facts/s", f"raw insert, {CLIENTS} a commit",
               many / grouped_raw, "≥ 3,000"),
    ]  # fmt: skip


def _post_all(url: str, first: int, count: int) -> list[float]:
    client = RawClient(url)
    seconds: list[float] = []
    for body in fact_bodies(count, seed=first, first=first * 10):
        watch = Stopwatch()
        status, answer = client.post("/v1/facts", body)
        seconds.append(watch.seconds)
        assert status == 201, answer
    client.close()
    return seconds


def _raw_inserts(path: Path, rows: int, a_commit: int) -> float:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, body TEXT)")
    bodies = [(json.dumps(body),) for body in fact_bodies(rows)]
    watch = Stopwatch()
    for start in range(0, rows, a_commit):
        with db:
            db.executemany("INSERT INTO facts (body) VALUES (?)", bodies[start : start + a_commit])
    rate = rows / watch.seconds
    db.close()
    return rate
