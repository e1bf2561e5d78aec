"""Walks of depth 1 to 3 against recursive SQL over the same edges in the same run.

The SQL has the table's indexes and neither rights, history, decay nor trust. Starts are random
entities, so most are small and reach the hubs at the second hop.
"""

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter

import apsw

from benchmarks.graph_worlds import (
    CONGRESS,
    CONGRESS_SCOPE,
    POWER_SCOPE,
    congress_changes,
    power_law,
)
from benchmarks.report import Figure, Stopwatch, percentile, say
from engramlog.api.node.node import Node
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import SetValuedDeclared
from engramlog.projections.authorization import everything
from engramlog.projections.graph.neighbors import DEPTH_MAX, NeighborQuery, neighbors
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import Command, Refused

STARTS = 100
SQL_STARTS = {1: 100, 2: 20, 3: 5}
"""Walks in SQL by depth: at depth 3 of a million edges each takes seconds."""
GROUP = 2_000
PAGE_SIZE = 20
_RECURSIVE = """
WITH RECURSIVE reached(entity, hops) AS (
    SELECT ?1, 0
    UNION SELECT object, hops + 1 FROM reached JOIN entity_edges ON subject = entity
        WHERE hops < ?2 AND scope = ?3 AND confidence >= 0.1
    UNION SELECT subject, hops + 1 FROM reached JOIN entity_edges ON object = entity
        WHERE hops < ?2 AND scope = ?3 AND confidence >= 0.1
)
SELECT entity, min(hops) AS hops, count(*) OVER () FROM reached WHERE entity <> ?1
GROUP BY entity ORDER BY 2, 1 LIMIT ?4
"""


def congress() -> list[Figure]:
    """Figures of the congress stream's graph."""
    if not CONGRESS.exists():
        say("graph: the congress stream is skipped, ../shared/data/congress is not here")
        return []
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "node")
        node.write(SetValuedDeclared(relations=["congress:*"]))
        watch, changes = Stopwatch(), 0
        for group in _grouped(congress_changes()):
            outcomes = node.writer.submit(group, actor="bench").result().outcomes
            changes += sum(not isinstance(each, Refused) for each in outcomes)
        say(f"congress: {changes:,} changes in {watch.seconds:.0f} s")
        return _walks(node, "congress", CONGRESS_SCOPE)


def power(edges: int) -> list[Figure]:
    """Figures of a power-law graph."""
    name = f"power law, {edges:,} edges"
    with tempfile.TemporaryDirectory() as folder:
        path, watch = Path(folder) / "node", Stopwatch()
        _logged(path, edges)
        node = Node.open(path)  # which makes its tables from the log, in bulk
        say(f"{name}: there after {watch.seconds:.0f} s")
        return _walks(node, name, POWER_SCOPE)


def _logged(path: Path, edges: int) -> None:
    """A data directory with the graph in its log, and no tables."""
    node = Node.open(path)
    partition, identifiers = scope_partition(POWER_SCOPE), IdentifierSource(node.log.origin)
    for page in power_law(edges):
        now_us = node.clock.now_us()
        drafts = [Draft(each, partition, identifiers.next(now_us), "bench") for each in page]
        node.log.append(drafts)
    node.close()
    for file in path.glob("projections*"):
        file.unlink()


def _grouped(changes: Iterable[Command]) -> Iterable[list[Command]]:
    group: list[Command] = []
    for change in changes:
        group.append(change)
        if len(group) == GROUP:
            yield group
            group = []
    yield group


def _walks(node: Node, name: str, scope: str) -> list[Figure]:
    settle_heap()
    try:
        return [figure for depth in (1, 2, 3) for figure in _depth(node, name, scope, depth)]
    finally:
        node.close()


def _depth(node: Node, name: str, scope: str, depth: int) -> list[Figure]:
    assert depth <= DEPTH_MAX
    view, moment, rights = node.reader.pin(), node.moment(), everything()
    known = len(view.entities)
    chance = random.Random(depth)
    starts = [view.entities.text(chance.randrange(known)) for _ in range(STARTS)]
    first = min(SQL_STARTS[depth], STARTS)

    def walk(entity: str) -> list[tuple[str, int]]:
        asked = NeighborQuery(entity=entity, scope=scope, depth=depth, page_size=PAGE_SIZE)
        page = neighbors(view, asked, rights, moment)
        return [(each.entity, each.hops) for each in page.neighbors]

    with node.reader.pool.connection() as db:
        costs, found = _timed(walk, starts)
        plain, expected = _timed(
            lambda entity: _recursive(db, entity, depth, scope), starts[:first]
        )
    assert found[:first] == expected, f"{name}, depth {depth}: the walks differ"
    say(f"{name}, depth {depth}: {first} walks agree with SQL")
    return [
        Figure(
            f"{name}, depth {depth}, {word}",
            percentile(costs, share),
            "ms",
            f"recursive SQL, {percentile(plain, share):,.2f} ms",
            percentile(costs, share) / percentile(plain, share),
        )
        for word, share in (("p50", 0.5), ("p95", 0.95))
    ]


def _recursive(db: apsw.Connection, entity: str, depth: int, scope: str) -> list[tuple[str, int]]:
    rows = query(db, _RECURSIVE, (entity, depth, scope, PAGE_SIZE))
    return [(str(reached), int(hops)) for reached, hops, _ in rows]


def _timed(
    walk: Callable[[str], list[tuple[str, int]]], starts: Sequence[str]
) -> tuple[list[float], list[list[tuple[str, int]]]]:
    """Milliseconds and answers, after one walk that warms up."""
    walk(starts[0])
    costs: list[float] = []
    found: list[list[tuple[str, int]]] = []
    for start in starts:
        began = perf_counter()
        found.append(walk(start))
        costs.append((perf_counter() - began) * 1e3)
    return costs, found
