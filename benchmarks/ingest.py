"""Batch ingest with every synchronous projection, rebuild, verification, and start-up.

Baselines of the same run: the same rows into one SQLite table, 1,000 per durable commit; a replay
that only decodes; SHA-256 over the same bytes.
"""

import hashlib
import json
import tempfile
from pathlib import Path

import apsw

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient, serving, wait_ready
from benchmarks.workload import fact_bodies, intents
from engramlog.api.node.node import Node
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.replay.verify import verify

BATCH = 1_000
GETS = 2_000


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts`` facts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = _raw(folder / "raw.db", facts)
        figures = _writer(folder / "writer", facts, raw)
        figures += _http(folder / "http", facts, raw)
        figures += _start_up(folder / "writer", folder / "empty", facts)
        return figures


def _raw(path: Path, facts: int) -> float:
    say(f"raw SQLite, {facts:,} rows")
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, entity, relation, v, source, scope)")
    rows = [
        (b["entity"], b["relation"], b["value"]["v"], b["source"], b["scope"])
        for b in fact_bodies(facts)
    ]
    watch = Stopwatch()
    for start in range(0, facts, BATCH):
        with db:
            db.executemany(
                "INSERT INTO facts (entity, relation, v, source, scope) VALUES (?,?,?,?,?)",
                rows[start : start + BATCH],
            )
    rate = facts / watch.seconds
    db.close()
    return rate


def _writer(data: Path, facts: int, raw: float) -> list[Figure]:
    say(f"writer, {facts:,} facts, {BATCH} a command")
    asked = intents(facts)
    node = Node.open(data)
    settle_heap()  # as a served node does
    watch = Stopwatch()
    answers = [
        node.writer.submit(asked[start : start + BATCH], actor="bench")
        for start in range(0, facts, BATCH)
    ]
    for answer in answers:
        answer.result()
    ingest = facts / watch.seconds
    say("rebuild")
    before = node.reader.digests().local
    report = node.rebuild()
    assert report.digest == before, "a rebuild must give equal digests"
    rebuild = report.events / report.seconds
    watch = Stopwatch()
    events = sum(1 for _ in node.log.iterate())
    decode = events / watch.seconds
    origin, epoch = node.identity.node_id, node.identity.epoch
    node.close()
    return [
        Figure("batch ingest, writer", ingest, "facts/s", "raw executemany", ingest / raw,
               "≥ 20,000"),
        Figure("rebuild, rows compared", rebuild, "events/s", "decoding alone",
               rebuild / decode, "≥ 20,000"),
        *_verify(data / "log.db", origin, epoch),
    ]  # fmt: skip


def _verify(path: Path, origin: str, epoch: int) -> list[Figure]:
    say("verify")
    log = SqliteLog.open(path, origin=origin, epoch=epoch, clock=SystemClock(), read_only=True)
    watch = Stopwatch()
    report = verify(log)
    seconds = watch.seconds
    assert report.fault is None
    stored = log.read_stored(0, 100_000)
    watch = Stopwatch()
    for event in stored:
        hashlib.sha256(event.header).digest()
        hashlib.sha256(event.payload or b"").digest()
    hashing = len(stored) / watch.seconds
    log.close()
    rate = report.events / seconds
    return [Figure("verify", rate, "events/s", "hashing the bytes alone", rate / hashing)]


def _http(data: Path, facts: int, raw: float) -> list[Figure]:
    say(f"HTTP batches, {facts:,} facts, {BATCH} a request")
    bodies = [json.dumps(body) for body in fact_bodies(facts)]
    with serving(data) as url:
        client = RawClient(url)
        watch = Stopwatch()
        last = b""
        for start in range(0, facts, BATCH):
            lines = "\n".join(bodies[start : start + BATCH]).encode()
            status, last = client.request("POST", "/v1/facts/batch", lines, "application/x-ndjson")
            assert status == 200
        rate = facts / watch.seconds
        ids = [result["id"] for result in json.loads(last)["results"]]
        seconds: list[float] = []
        for number in range(GETS):
            watch = Stopwatch()
            status, _ = client.request("GET", f"/v1/facts/{ids[number % len(ids)]}")
            seconds.append(watch.seconds)
            assert status == 200
        client.close()
    p50 = percentile(seconds, 0.5)
    select = _raw_select(data / "projections.db", ids)
    return [
        Figure("batch ingest, HTTP", rate, "facts/s", "raw executemany", rate / raw),
        Figure("GET by id, p50", p50 * 1e3, "ms", "raw SELECT by id", p50 / select, "≤ 1"),
        Figure("GET by id, p99", percentile(seconds, 0.99) * 1e3, "ms"),
    ]


def _raw_select(path: Path, ids: list[str]) -> float:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    seconds: list[float] = []
    for fact_id in ids:
        watch = Stopwatch()
        db.execute("SELECT * FROM facts WHERE id=?", (fact_id,)).fetchall()
        seconds.append(watch.seconds)
    db.close()
    return percentile(seconds, 0.5)


def _start_up(full: Path, empty: Path, facts: int) -> list[Figure]:
    figures: list[Figure] = []
    for name, data, aim in ((f"start-up, {facts:,} facts", full, "≤ 2"),
                            ("start-up, empty", empty, "≤ 1")):  # fmt: skip
        say(name)
        watch = Stopwatch()
        with serving(data) as url:
            wait_ready(url)
            figures.append(Figure(name, watch.seconds, "s", aim=aim))
    return figures
