"""The graph: pages of a hub, walks of depth 1 to 3, and costs that grow with one entity.

The hub's pages are read through the memory image and over HTTP. Their baseline is a plain scan: the
same hub's edges read from ``entity_edges`` by SQL in both directions, deduplicated and sorted in
Python, without rights, history or trust.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time

import apsw
import httpx
import msgspec

from benchmarks import graph_hub, graph_walks
from benchmarks.report import Figure, percentile, say
from benchmarks.serving import serving, wait_ready
from benchmarks.workload import command_of
from engramlog.api.node.node import Node
from engramlog.projections.authorization import everything
from engramlog.projections.graph.neighbors import Mark, NeighborQuery, neighbors
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import AssertFact

GROUP = 500
RUNS = 30
HUB = "stigmem://bench.example/hub/one"
AIM = "≤ 20 ms"
_SCAN = """
SELECT object FROM entity_edges WHERE subject=?1 AND scope='local' AND confidence>=0.1
UNION ALL
SELECT subject FROM entity_edges WHERE object=?1 AND scope='local' AND confidence>=0.1
"""


POWER_TIMES = 10
"""Edges of the power-law graph for each of the hub's."""


def measure(edges: int) -> list[Figure]:
    """A hub of ``edges`` edges, the congress stream, a power-law graph of ten times as many
    edges, the card of an entity with a thousand facts, and writes as one hub grows."""
    return [
        *hub_pages(edges),
        *graph_walks.congress(),
        *graph_walks.power(POWER_TIMES * edges),
        *graph_hub.card_refresh(),
        *graph_hub.hub_writes(edges),
    ]


def hub_pages(edges: int) -> list[Figure]:
    """Milliseconds per page of a hub with ``edges`` edges, half of them in each direction."""
    say(f"a hub of {edges:,} edges")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "node"
        node = Node.open(folder)
        for start in range(0, edges, GROUP):
            asked = [_edge(n, edges) for n in range(start, min(start + GROUP, edges))]
            node.writer.submit(asked, actor="bench").result()
        figures = _pages(node, edges)
        node.close()
        return [*figures, *_served(folder, edges)]


def _edge(number: int, edges: int) -> AssertFact:
    """Names fall as the numbers rise: the worst order for code that keeps the smallest."""
    other = f"stigmem://bench.example/item/{edges - number:09d}"
    start, end = (HUB, other) if number % 2 else (other, HUB)
    return command_of(
        {
            "entity": start,
            "relation": "rel:has",
            "value": {"type": "ref", "v": end},
            "source": "stigmem://bench.example/agent/ann",
            "scope": "local",
        }
    )


def _pages(node: Node, edges: int) -> list[Figure]:
    view, moment, rights = node.reader.pin(), node.moment(), everything()
    first = NeighborQuery(entity=HUB, scope="local")
    middle = Mark(1, f"stigmem://bench.example/item/{edges // 2:09d}")
    later = msgspec.structs.replace(first, after=middle, page_size=200)
    deep = msgspec.structs.replace(first, depth=3)
    with node.reader.pool.connection() as db:
        scan = _best(lambda: _plain_scan(db))
    found: list[Figure] = []
    for name, asked in (
        ("first page of 20", first),
        ("page of 200 from the middle", later),
        ("first page, depth 3", deep),
    ):
        cost = _best(lambda asked=asked: neighbors(view, asked, rights, moment))
        label = f"{name}, {edges:,} edges"
        found.append(Figure(label, cost, "ms", "plain SQL scan", cost / scan, AIM))
        work = _best(lambda asked=asked: neighbors(view, asked, rights, moment), thread_time)
        found.append(Figure(f"{label}, processor time", work, "ms", aim=AIM))
    found.append(Figure("plain SQL scan", scan, "ms"))
    return found


def _plain_scan(db: apsw.Connection) -> list[str]:
    return sorted({str(row[0]) for row in query(db, _SCAN, (HUB,))})[:20]


def _served(folder: Path, edges: int) -> list[Figure]:
    params = {"entity": HUB, "scope": "local"}
    quiet = {"STIGMEM_EMBED_ENABLED": "false"}  # otherwise it embeds the edges meanwhile
    with serving(folder, env=quiet) as url, httpx.Client(base_url=url) as http:
        wait_ready(url)

        def ask() -> None:
            http.get("/v1/graph/neighbors", params=params).raise_for_status()

        cost = _best(ask)
    return [Figure(f"first page over HTTP, {edges:,} edges", cost, "ms", aim=AIM)]


def _best(act: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """The median of some runs after a warm-up, milliseconds."""
    act()
    costs: list[float] = []
    for _ in range(RUNS):
        began = clock()
        act()
        costs.append((clock() - began) * 1e3)
    return percentile(costs, 0.5)
