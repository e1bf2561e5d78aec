"""Episodes into facts: the speed, that none is lost, and that the number of passes does not matter.

Two workloads under the classifier: a conversation in which every fifth episode states a fact and
the rest are recorded as such (``noop``), and the worst case, in which every episode states a new
one. The baselines are the classifier alone, in memory, and plain assertions of as many facts.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.workload import intents
from engramlog.api.node.consolidator import Consolidator, readers_of
from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import everything
from engramlog.projections.episodes import reading, reading_deltas
from engramlog.projections.episodes.classifying import CurrentFacts, emit
from engramlog.projections.episodes.rule import Rule, parse_rule
from engramlog.projections.tables.database import query
from engramlog.projections.writing.memory_commands import RecordEpisodes

BATCH = 1_000
USERS = 20
PREDICATES = 500
START_US = 1_700_000_000_000_000
PUTS = 300
AIM = "≥ 10,000"
RULE: Rule = parse_rule({"id": "classifier", "cadence": {"every": 1_000_000}})
_LOST = """
SELECT count(*) FROM episodes e WHERE NOT EXISTS (
    SELECT 1 FROM delta_sources s JOIN deltas d USING (position, number)
    WHERE s.partition=e.partition AND s.episode_id=e.id)
"""
_UNRESOLVED = """
SELECT count(*) FROM delta_sources s WHERE NOT EXISTS (
    SELECT 1 FROM episodes e WHERE e.partition=s.partition AND e.id=s.episode_id)
"""


def measure(episodes: int) -> list[Figure]:
    """Figures for ``episodes`` episodes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asserted = _asserted(folder / "asserted", episodes)
        figures: list[Figure] = []
        for title, one_in in (("every fifth states a fact", 5), ("every one states a fact", 1)):
            figures += _consolidated(folder / title.split()[1], episodes, title, one_in, asserted)
        figures += _passes(folder, max(1_000, episodes // 10))
        figures += _puts(folder / "puts")
        return figures


def _said(number: int, one_in: int) -> dict[str, Any]:
    if number % one_in:
        return {"intent": "noop"}
    # Some 10 predicates per subject: most statements replace an earlier one.
    predicate = f"likes_{number // one_in % PREDICATES}"
    return {"subject": "self", "predicate": predicate, "object": f"thing {number}"}


def _episodes(count: int, one_in: int) -> Iterator[tuple[EpisodeRecorded, ...]]:
    for start in range(0, count, BATCH):
        yield tuple(
            EpisodeRecorded(
                scope="local",
                user=f"user-{n % USERS}",
                session=f"s-{n // 200}",
                agent="rag",
                content=f"What was said at the {n}th turn of a long conversation, in ten words.",
                at_us=START_US + n * 1_000_000,
                id=f"ep-{n}",
                metadata=_said(n, one_in),
            )
            for n in range(start, min(count, start + BATCH))
        )


def _record(node: Node, count: int, one_in: int) -> float:
    watch = Stopwatch()
    for batch in _episodes(count, one_in):
        node.write(RecordEpisodes(episodes=batch), actor="agent:bench")
    return count / watch.seconds


def _asserted(path: Path, facts: int) -> float:
    say(f"{facts:,} plain assertions")
    node = Node.open(path)
    asked = list(intents(facts))
    watch = Stopwatch()
    for start in range(0, facts, BATCH):
        node.writer.submit(asked[start : start + BATCH], actor="agent:bench").result()
    rate = facts / watch.seconds
    node.close()
    return rate


def _consolidated(path: Path, count: int, title: str, one_in: int, asserted: float) -> list[Figure]:
    say(f"{count:,} episodes, {title}")
    node = Node.open(path)
    recorded = _record(node, count, one_in)
    classified = _classified(node, count)
    watch = Stopwatch()
    report = asyncio.run(Consolidator(node).run(RULE))
    rate = count / watch.seconds
    with node.reader.pool.connection() as db:
        ((lost,), (unresolved,)) = query(db, _LOST)[0], query(db, _UNRESOLVED)[0]
    node.close()
    assert (report.episodes, report.applied, report.rejected) == (count, count, 0)
    stated = -(-count // one_in)
    return [
        Figure(f"recorded, {title}", recorded, "episodes/s"),
        Figure(f"classified alone, {title}", classified, "episodes/s", aim=AIM),
        Figure(
            f"consolidated, durable, {title}",
            rate,
            "episodes/s",
            f"plain assertions, {asserted:,.0f} facts/s",
            rate * stated / count / asserted,
            AIM,
        ),
        Figure(f"episodes that no delta names, {title}", lost, "episodes", aim="0"),
        Figure(f"sources that are no episode, {title}", unresolved, "sources", aim="0"),
    ]


def _classified(node: Node, count: int) -> float:
    """Read the episodes and emit their deltas, without writing."""
    standing, seen, after = CurrentFacts({}), 0, 0
    watch = Stopwatch()
    with node.reader.pool.connection() as db:
        head = node.log.head().position
        while episodes := reading.behind(
            db, readers_of(RULE), after=after, until=head, limit=BATCH
        ):
            seen += len(emit(RULE, episodes, standing).proposals)
            after = episodes[-1].position
    assert seen == count
    return count / watch.seconds


def _passes(folder: Path, count: int) -> list[Figure]:
    say(f"{count:,} episodes in one pass and in many")
    outcomes: list[list[Any]] = []
    for name, size in (("whole", count), ("pieces", 97)):
        node = Node.open(folder / name)
        _record(node, count, 2)
        runs = 0
        while asyncio.run(Consolidator(node).run(RULE, most=size)).more:
            runs += 1
        outcomes.append(_outcome(node))
        node.close()
    one, many = outcomes
    differing = sum(1 for a, b in zip(one, many, strict=False) if a != b) + abs(
        len(one) - len(many)
    )
    return [Figure("rows that differ, one pass against passes of 97", differing, "rows", aim="0")]


def _outcome(node: Node) -> list[Any]:
    position = node.log.head().position
    kept = ("user", "name", "subject", "sources", "delta_id", "version")
    with node.reader.pool.connection() as db:
        facts = [
            tuple(getattr(each, name) for name in kept)
            for n in range(USERS)
            for each in reading_deltas.memory_facts_at(db, position, user=f"user-{n}")
        ]
        deltas = query(
            db, "SELECT delta_id, kind, user, sources, replaces, name FROM deltas ORDER BY delta_id"
        )
        newest = reading.recent(db, everything(), position, user="user-0", limit=100)
    return [*sorted(facts), *deltas, *(each.id for each in newest)]


def _puts(path: Path) -> list[Figure]:
    """Single durable episodes, one after the other."""
    node = Node.open(path)
    seconds: list[float] = []
    for (episode,) in ((batch[0],) for batch in _episodes(PUTS * BATCH, 5)):
        began = perf_counter()
        node.write(RecordEpisodes(episodes=(episode,)), actor="agent:bench")
        seconds.append(perf_counter() - began)
    node.close()
    return [
        Figure("one durable episode, p50", percentile(seconds, 0.5) * 1e3, "ms"),
        Figure("one durable episode, p99", percentile(seconds, 0.99) * 1e3, "ms", aim="< 5 ms"),
    ]
