"""Cost per write as the store, or one (entity, relation), grows.

Each arrangement is its own baseline: the last tenth of the writes against the first.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Figure, Stopwatch, say
from benchmarks.workload import command_of, intents
from engramlog.api.node.node import Node
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.eventlog.kinds import SetValuedDeclared
from engramlog.projections.writing.commands import AssertFact

GROUP = 100
STEPS = 10


def measure(facts: int) -> list[Figure]:
    """Figures for the whole store at ``facts``, and for single keys at a fifth of that."""
    hub = facts // 5
    arrangements: list[tuple[str, int, Callable[[int], AssertFact]]] = [
        ("distinct keys", facts, _distinct()),
        ("one set-valued key", hub, lambda n: _hub("set:tag", f"value {n}", 0)),
        ("one contradicted key", hub, lambda n: _hub("memory:state", f"value {n}", 0)),
        ("one value, many sources", hub, lambda n: _hub("memory:agreed", "yes", n)),
        ("one entity", hub, lambda n: _hub(f"memory:r{n}", "x", 0)),
    ]
    figures: list[Figure] = []
    for name, count, make in arrangements:
        say(f"{name}, {count:,} writes")
        with tempfile.TemporaryDirectory() as folder:
            figures.append(_steps(name, Path(folder), count, make))
    return figures


def _steps(name: str, folder: Path, count: int, make: Callable[[int], AssertFact]) -> Figure:
    node = Node.open(folder / "node")
    settle_heap()
    node.write(SetValuedDeclared(relations=["set:*"]))
    step = count // STEPS
    costs: list[float] = []
    for start in range(0, count, step):
        asked = [make(number) for number in range(start, start + step)]
        watch = Stopwatch()
        for at in range(0, step, GROUP):
            node.writer.submit(asked[at : at + GROUP], actor="bench").result()
        costs.append(watch.seconds / step * 1e6)
    node.close()
    return Figure(f"{name}, at {count:,}", costs[-1], "µs/write", "the first tenth",
                  costs[-1] / costs[0], "flat")  # fmt: skip


def _distinct() -> Callable[[int], AssertFact]:
    chunk: list[AssertFact] = []
    size = 1000

    def make(number: int) -> AssertFact:
        nonlocal chunk
        if number % size == 0:
            chunk = intents(size, seed=number, first=number)
        return chunk[number % size]

    return make


def _hub(relation: str, v: str, source: int) -> AssertFact:
    return command_of(
        {
            "entity": "stigmem://bench.example/hub/one",
            "relation": relation,
            "value": {"type": "string", "v": v},
            "source": f"stigmem://bench.example/agent/{source}",
            "scope": "local",
        }
    )
