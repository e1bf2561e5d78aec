"""How fast a node replays a peer: verified only, and appended, projected and durable; a peer's lag
under writes, and a new peer's catch-up (two processes).

``python -m benchmarks.federation --events 500000`` measures a larger catch-up.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.federation_processes import measure_catch_up, measure_lag
from benchmarks.report import Figure, Stopwatch, say, table
from benchmarks.workload import fact_bodies
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.eventlog.log import StreamHead
from engramlog.projections.cid import with_cid
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.writing.commands import AssertFact
from engramlog.replay.federation.page import PAGE_EVENTS_MAX, encode_page
from engramlog.replay.federation.serving import read_page
from engramlog.replay.federation.verification import check_page
from tests.worlds.federation.network import Link, Member

BATCH = 1_000
SOURCE = "agent:bench"


def measure(facts: int) -> list[Figure]:
    """All figures; a new peer catches up with ``facts`` facts."""
    return [*measure_replay(facts), *measure_lag(), *measure_catch_up(facts)]


def measure_replay(facts: int) -> list[Figure]:
    """Figures for ``facts`` facts (at most 50,000) that one node states and another replays."""
    count = min(facts, 50_000)
    with tempfile.TemporaryDirectory(prefix="engramlog-federation-") as name:
        a, b = Member(Path(name), "a"), Member(Path(name), "b")
        a.meet(b)
        b.meet(a)
        say(f"{count:,} facts are stated")
        _state(a, count)
        verified, travelled = _verify(a, b)
        say("and replayed")
        watch = Stopwatch()
        pulled = b.pull(Link(b, a))
        seconds = watch.seconds
        assert pulled.events == count
        assert not pulled.faults
        equal = a.node.reader.ask(stream_digests) == b.node.reader.ask(stream_digests)
        a.close()
        b.close()
    applied, checked = count / seconds, count / verified
    return [
        Figure("events replayed", applied, "/s", aim="≥ 10,000"),
        Figure("events verified only", checked, "/s", "replayed", checked / applied, "≥ 5x"),
        Figure("bytes an event, compressed", travelled / count, "B"),
        Figure("digests equal", 100.0 * equal, "%", aim="100 %"),
    ]  # fmt: skip


def _state(member: Member, count: int) -> None:
    batch: list[AssertFact] = []
    for body in fact_bodies(count):
        value = Value("text", str(body["value"]["v"]))
        entity, relation = str(body["entity"]), str(body["relation"])
        fact = FactAsserted(entity, relation, value, SOURCE, "company")
        batch.append(AssertFact(with_cid(fact)))
        if len(batch) == BATCH:
            member.submit(batch)
            batch = []
    if batch:
        member.submit(batch)


def _verify(a: Member, b: Member) -> tuple[float, int]:
    """Seconds to check every page, and the bytes in transit."""
    (stream,) = [name for name in a.node.log.stream_heads() if name.endswith("/scope/company")]
    before: StreamHead | None = None
    seconds, travelled, after = 0.0, 0, 0
    while True:
        page = read_page(
            a.node.identity, a.node.log, stream, after, PAGE_EVENTS_MAX, a.clock.now_us()
        )
        if page is None:
            return seconds, travelled
        travelled += len(encode_page(page))
        watch = Stopwatch()
        check_page(page, b.peer(a), stream, before, b.clock.now_us(), b.id)
        seconds += watch.seconds
        after += len(page.events)
        before = StreamHead(stream, after, page.events[-1][1])


def main() -> None:
    """Measure the parts that the flags select."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.federation")
    parser.add_argument(
        "--events", type=int, default=100_000, help="events of the catch-up (100000)"
    )
    parser.add_argument("--only", choices=("replay", "lag", "catch-up"), help="run only this part")
    args = parser.parse_args()
    figures: list[Figure] = []
    if args.only in (None, "replay"):
        figures += measure_replay(args.events)
    if args.only in (None, "lag"):
        figures += measure_lag()
    if args.only in (None, "catch-up"):
        figures += measure_catch_up(args.events)
    print(table(figures), flush=True)


if __name__ == "__main__":
    main()
