"""The cost of recall by meaning when the vectors do not fit into memory.

The same vectors twice: in memory, and beyond a budget in the file that sqlite-vec searches. Both
answer the semantic stage's requests: the likely facts, then their exact cosines. The vectors are
made up (see ``recall_world``). Real ones, if an earlier run of ``recall_quality`` left some on this
machine, test the preselection by signs on a model's vectors.
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import numpy as np
from msgspec import Struct

from benchmarks.recall_quality import VECTORS
from benchmarks.recall_world import DIMENSIONS, RecallWorld
from benchmarks.report import Figure, Stopwatch, percentile, say
from engramlog.projections.arrays import F32, I32, I64
from engramlog.projections.embedding.vectors.bounded_vectors import BoundedVectors
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.embedding.vectors.vector_file import KeptVectorFile
from engramlog.projections.recall.stages.semantic import COMPARED_MIN, COMPARED_SHARE

QUESTIONS = 50
NEAREST = 50
BUDGET_BYTES = 64 << 20
EVENTS_A_FACT = 3
"""Events per fact in the log, other events included."""
TENTH = 10
REAL_QUESTIONS = 200


class _Asked(Struct):
    """For each question: milliseconds on the clock, of the processor, and the result."""

    clock: list[float] = []
    processor: list[float] = []
    found: list[I32] = []


class _AnyEvent:
    """A log that claims to have every event."""

    def read(self, after: int, _limit: int) -> list[Any]:
        return [SimpleNamespace(position=after + 1, hash=b"")]


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts`` vectors."""
    world = RecallWorld(facts)
    questions = [world.question_vector(each) for each in world.questions(QUESTIONS)]
    figures = _made_up(world.vectors(), facts, questions)
    return [*figures, *_real()]


def _made_up(pages: Iterable[tuple[I32, F32]], facts: int, questions: list[F32]) -> list[Figure]:
    memory = Vectors(DIMENSIONS)
    slots = np.arange(facts, dtype=np.int32)
    starts = slots.astype(np.int64) * EVENTS_A_FACT + 1
    with tempfile.TemporaryDirectory(prefix="engramlog-vectors-") as name:
        path = Path(name) / "search"
        budget = min(BUDGET_BYTES, facts * DIMENSIONS)  # a quarter of them, if they are few
        vectors = _bounded(path, starts, budget)
        say(f"{facts:,} vectors, into memory and into the file")
        taken, held = 0.0, 0
        for some, rows in pages:
            memory.put(some, rows)
            began = time.process_time()
            vectors.put(some, rows)
            taken += time.process_time() - began
            held = max(held, vectors.held_bytes)
        vectors.close()
        before = apsw.memory_used()
        apsw.memory_high_water(True)
        watch = Stopwatch()
        vectors = _bounded(path, starts, budget)
        assert vectors.restored()
        started = watch.seconds
        figures = _both_ways("all facts", memory, vectors, slots, questions)
        figures += _both_ways("a tenth of them", memory, vectors, slots[::TENTH], questions)
        peak = apsw.memory_high_water(False) - before
        size = sum(each.stat().st_size for each in Path(name).iterdir())
        vectors.close()
    return [
        *figures,
        _agreement("nearest 50 kept", memory, slots, questions, _compared(facts)),
        Figure("into the file, a vector", taken / facts * 1e6, "µs of processor time"),
        Figure("the file is open again in", started, "s"),
        Figure("file", size / 2**20, "MiB", "vectors", size / (4 * DIMENSIONS * facts)),
        Figure(
            "vectors in memory beside the file, at most",
            held / 2**20,
            "MiB",
            aim=f"≤ {budget / 2**20:.0f}",
        ),
        Figure("SQLite and sqlite-vec, at most", peak / 2**20, "MiB"),
        Figure("all vectors in memory", facts * (4 + 1 / 8) * DIMENSIONS / 2**20, "MiB"),
    ]


def _bounded(path: Path, starts: I64, budget: int) -> BoundedVectors:
    log: Any = _AnyEvent()
    return BoundedVectors(KeptVectorFile(path, DIMENSIONS, budget, log), lambda: starts, budget)


def _compared(facts: int) -> int:
    return max(COMPARED_MIN, int(facts * COMPARED_SHARE))


def _both_ways(
    name: str, memory: Vectors, vectors: BoundedVectors, slots: I32, questions: list[F32]
) -> list[Figure]:
    compared = _compared(len(slots))
    say(f"{name}: {len(slots):,}, of which {compared:,} are compared")

    def ask(asked: Vectors) -> Callable[[F32], I32]:
        def nearest(query: F32) -> I32:
            likely = slots[asked.likely(query, slots, compared)]
            cosines, _ = asked.cosines(query, likely)
            return likely[np.lexsort((likely, -cosines))[:NEAREST]]

        return nearest

    inside, outside = _timed(ask(memory), questions), _timed(ask(vectors), questions)
    equal = sum(map(np.array_equal, inside.found, outside.found)) / len(questions)
    figures = [Figure(f"{name}: equal answers", equal, "of 1", aim="1")]
    for label, mine, other in (
        ("p50", percentile(outside.clock, 0.5), percentile(inside.clock, 0.5)),
        ("p95", percentile(outside.clock, 0.95), percentile(inside.clock, 0.95)),
        ("processor time", float(np.mean(outside.processor)), float(np.mean(inside.processor))),
    ):
        figures.append(Figure(f"{name}: in the file, {label}", mine, "ms"))
        figures.append(Figure(f"{name}: in memory, {label}", other, "ms", "the file", other / mine))
    return figures


def _timed(ask: Callable[[F32], I32], questions: list[F32]) -> _Asked:
    asked = _Asked()
    ask(questions[0])
    for query in questions:
        watch, began = Stopwatch(), time.process_time()
        asked.found.append(ask(query))
        asked.clock.append(watch.seconds * 1e3)
        asked.processor.append((time.process_time() - began) * 1e3)
    return asked


def _agreement(
    name: str, vectors: Vectors, slots: I32, questions: list[F32], compared: int
) -> Figure:
    """The share of the exactly nearest 50 among the compared ones."""
    found = 0
    for query in questions:
        cosines, _ = vectors.cosines(query, slots)
        nearest = np.lexsort((slots, -cosines))[:NEAREST]
        found += int(np.isin(nearest, vectors.likely(query, slots, compared)).sum())
    return Figure(name, found / (NEAREST * len(questions)), "of 1", aim="≥ 0.995")


def _real() -> list[Figure]:
    """Vectors of real messages, some of them as questions to the others."""
    rows = [row for path in sorted(VECTORS.glob("*.db")) for row in _rows_of(path)]
    if len(rows) <= REAL_QUESTIONS:
        return []
    matrix: F32 = np.random.default_rng(7).permutation(np.unique(np.stack(rows), axis=0))
    questions, others = list(matrix[:REAL_QUESTIONS]), matrix[REAL_QUESTIONS:]
    slots = np.arange(len(others), dtype=np.int32)
    vectors = Vectors(DIMENSIONS)
    vectors.put(slots, others)
    count = int(len(slots) * COMPARED_SHARE)
    name = f"{len(slots):,} real vectors, nearest 50 kept"
    return [
        _agreement(name, vectors, slots, questions, _compared(len(slots))),
        _agreement(f"{name} of {count}", vectors, slots, questions, count),
    ]


def _rows_of(path: Path) -> list[F32]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = [np.frombuffer(row, dtype="<f4") for (row,) in db.execute("SELECT vector FROM vectors")]
    db.close()
    return [row for row in found if len(row) == DIMENSIONS]
