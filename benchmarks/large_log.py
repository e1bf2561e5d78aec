"""A log of many millions of events in PostgreSQL, and the same log copied into ``log.db``.

Facts are appended by ``COPY``, ``BATCH`` events per commit, to one server without standbys. One in
``TEAM_EVERY`` is of scope ``team``, so that a node can hold a part that fits into memory. A node
with that scope then joins. The folder stays, for tries with further nodes:

    python -m benchmarks.large_log FOLDER --events 20000000

With ``--everything`` two nodes that hold all scopes join as well: one replays the log, the other
begins with the first one's snapshot.
"""

import argparse
import os
import shutil
import time
from pathlib import Path

import psycopg

from benchmarks.processes import usage_of
from benchmarks.report import Figure, Stopwatch, say, table
from benchmarks.serving import run_command, serving_process
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.engines.postgres.log import PostgresLog
from engramlog.eventlog.engines.postgres.schema import prepare
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.eventlog.log import Idempotency
from engramlog.projections.cid import with_cid
from engramlog.replay.copying import copy_log
from engramlog.replay.verify import verify
from tests.worlds.postgres_servers import Server, Servers

BATCH = 10_000
TEAM_EVERY = 20
SETTINGS = """
shared_buffers = 512MB
max_wal_size = 4GB
wal_keep_size = 0
checkpoint_timeout = 15min
"""
_SIZES = """
SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE n.nspname = 'engramlog' AND c.relkind IN ('r', 'i', 't')
  AND pg_relation_size(c.oid) > 1000000 ORDER BY 2 DESC"""


def fact_drafts(first: int, count: int, ids: IdentifierSource) -> list[Draft]:
    """Facts as a node records them, ten per entity, about 50 bytes of text each."""
    drafts: list[Draft] = []
    now_us = time.time_ns() // 1_000
    for number in range(first, first + count):
        scope = "company" if number % TEAM_EVERY else "team"
        value = Value("text", f"note {number} about the plan and the budget of team {number % 97}")
        entity, relation = f"user:u{number // 10}", f"memory:r{number % 10}"
        payload = with_cid(FactAsserted(entity, relation, value, "agent:one", scope))
        drafts.append(Draft(payload, scope_partition(scope), ids.next(now_us), "agent:one"))
    return drafts


def run(folder: Path, events: int, *, copy: bool, everything: bool) -> list[Figure]:
    """Figures of loading, verifying, copying and joining."""
    servers = Servers(folder=folder)
    try:
        server = servers.single(SETTINGS)
        directory = HeldDirectory.open(folder / "node")
        identity = directory.identity
        directory.close()
        with psycopg.connect(server.url(), autocommit=True) as db:
            db.execute("CREATE ROLE node LOGIN")
        prepare(server.url(), "node")
        figures = _run(server, folder, identity, events, copy=copy)
        if everything:
            figures += _joins_of_everything(folder, server.url("node"))
        return figures
    finally:
        servers.close()


def _run(
    server: Server, folder: Path, identity: Identity, events: int, *, copy: bool
) -> list[Figure]:
    origin, epoch, url = identity.node_id, identity.epoch, server.url("node")
    figures: list[Figure] = []

    def add(name: str, value: float, unit: str) -> None:
        figures.append(Figure(name, value, unit))
        say(f"{name}: {value:,.2f} {unit}")

    log = PostgresLog.open(
        url, origin=origin, epoch=epoch, clock=SystemClock(), durability="server"
    )
    with log:
        ids, watch, spent = IdentifierSource(origin), Stopwatch(), time.process_time()
        for first in range(0, events, BATCH):
            key = f"import-{first}"
            drafts = fact_drafts(first, min(BATCH, events - first), ids)
            log.append(drafts, idempotency=Idempotency("agent:one", key, key.encode()))
            if first % 1_000_000 == 0:
                say(f"{first:,} events in {watch.seconds:,.0f} s")
        add("appended", events / watch.seconds, "events/s")
        add(
            "processor time of the node, an event",
            (time.process_time() - spent) / events * 1e6,
            "µs",
        )
        with psycopg.connect(server.url(), autocommit=True) as db:
            for name, size in db.execute(_SIZES):
                add(f"{name}, an event", size / events, "bytes")
        watch = Stopwatch()
        with PostgresLog.open(
            url, origin=origin, epoch=epoch, clock=SystemClock(), durability="server"
        ):
            add("opened", watch.seconds, "s")
        watch, spent = Stopwatch(), time.process_time()
        fault = verify(log).fault
        assert fault is None, fault
        add("verified", events / watch.seconds, "events/s")
        add(
            "processor time of verifying, an event",
            (time.process_time() - spent) / events * 1e6,
            "µs",
        )
        if copy:
            watch = Stopwatch()
            file = folder / "copy.db"
            with SqliteLog.open(file, origin=origin, epoch=epoch, clock=SystemClock()) as target:
                copy_log(log, target, lambda _done, _of: None)
            add("copied to log.db", events / watch.seconds, "events/s")
            add("log.db, an event", file.stat().st_size / events, "bytes")
            file.unlink()
    figures += _join(folder, "team", url, scopes="team")
    return figures


def _joins_of_everything(folder: Path, url: str) -> list[Figure]:
    """A node that replays the whole log, and one that starts from the first one's snapshot."""
    figures = _join(folder, "replaying", url)
    os.environ |= {"STIGMEM_LOG": url, "STIGMEM_LOG_DURABILITY": "server"}
    run_command("snapshot", "take", "--data", str(folder / "replaying"))
    return figures + _join(folder, "snapshot", url, snapshots=folder / "replaying" / "snapshots")


def _join(
    folder: Path, name: str, url: str, *, scopes: str = "*", snapshots: Path | None = None
) -> list[Figure]:
    """A new node: the time until it serves, and its resources then."""
    joined = folder / name
    run_command("identity", "backup", str(joined / "identity"), "--data", str(folder / "node"))
    watch = Stopwatch()
    if snapshots is not None:
        shutil.copytree(snapshots, joined / "snapshots")
    env = {
        "STIGMEM_LOG": url,
        "STIGMEM_LOG_DURABILITY": "server",
        "STIGMEM_SCOPES": scopes,
        "STIGMEM_EMBED_PROVIDER": "none",
    }
    with serving_process(joined, env=env) as (_, process):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return [
            Figure(f"joined, {name}: ready after", watch.seconds, "s"),
            Figure(f"joined, {name}: processor time", usage_of(process).seconds, "s"),
            Figure(f"joined, {name}: memory", pages * os.sysconf("SC_PAGE_SIZE") / 2**20, "MiB"),
        ]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_log", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--copy", action="store_true", help="also copy the log into log.db")
    parser.add_argument(
        "--everything", action="store_true", help="also have nodes join that hold all scopes"
    )
    args = parser.parse_args()
    print(table(run(args.folder, args.events, copy=args.copy, everything=args.everything)))


if __name__ == "__main__":
    main()
