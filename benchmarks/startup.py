"""Start-up of a node as it ships, by the size of its store, and a fact's memory.

Each start is a separate process, from its first instruction to ``/readyz``: seconds on the clock,
and of processor time, which other load changes less. A node that closed normally has files of its
memory image; ``from the tables`` is the same store without them.
"""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from msgspec import Struct

from benchmarks.recall_world import DIMENSIONS, RecallWorld
from benchmarks.report import Figure, Stopwatch, say
from benchmarks.serving import serving_process, wait_ready
from engramlog.api.node.node import Node
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.vectors.blocks import VectorBlocks
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.embedding.vectors.vec_facts import VecFacts

BATCH = 2_000
REPEATS = 3
TABLE_FACTS_MAX = 200_000
"""Stores up to this size also have their vectors written to a table, which takes long."""
IMAGE_FOLDER = "image"


class Started(Struct, frozen=True):
    """One start of a node."""

    seconds: float
    processor_s: float
    private_mib: float


def measure(facts: int) -> list[Figure]:
    """Figures for one size, and for an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder, "empty"), Path(folder, "full")
        Node.open(empty).close()
        idle = _best(empty)
        say(f"writing {facts:,} facts")
        closing_s = _fill(full, facts)
        written = sum(file.stat().st_blocks * 512 for file in (full / IMAGE_FOLDER).glob("*"))
        say("starting from files")
        files = _best(full)
        say("loading vectors")
        vectors = _vectors(full, facts)
        say("starting from the tables")
        tables = _best(full, from_tables=True)
    name = f"{facts:,} facts"
    of_tables = "from the tables"
    fact_bytes = [(each.private_mib - idle.private_mib) * 2**20 / facts for each in (files, tables)]
    return [
        Figure("start-up, empty", idle.seconds, "s", aim="≤ 0.5"),
        Figure("start-up, empty, processor", idle.processor_s, "s"),
        Figure(f"start-up, {name}, from files", files.seconds, "s", of_tables,
               files.seconds / tables.seconds, "≤ 3 at 1,000,000"),
        Figure(f"start-up, {name}, from files, processor", files.processor_s, "s", of_tables,
               files.processor_s / tables.processor_s),
        Figure(f"start-up, {name}, from the tables", tables.seconds, "s"),
        Figure(f"start-up, {name}, from the tables, processor", tables.processor_s, "s"),
        Figure(f"closing after writing {name}", closing_s, "s"),
        Figure(f"image files, {name}", written / 2**20, "MiB"),
        Figure("private memory a fact, from files", fact_bytes[0], "B", of_tables,
               fact_bytes[0] / fact_bytes[1]),
        Figure("private memory a fact, from the tables", fact_bytes[1], "B"),
        *vectors,
    ]  # fmt: skip


def _fill(folder: Path, facts: int) -> float:
    """Write a store; returns the seconds of closing it."""
    node = Node.open(folder)
    for page in RecallWorld(facts).pages():
        for start in range(0, len(page), BATCH):
            node.write(*page[start : start + BATCH], actor="bench")
    clock = Stopwatch()
    node.close()
    return clock.seconds


def _vectors(full: Path, facts: int) -> list[Figure]:
    """Vectors of a store from blocks, and from the table, loaded as a node loads them after it
    serves."""
    node = Node.open(full)
    try:
        starts = node.reader.pin().from_position
        ids = list(node.reader.image.facts.slot_of)
        space = Space("none", "made up", DIMENSIONS)
        blocks = VectorBlocks(full / "made-up.blocks", space, node.log)
        table = VecFacts(full / "made-up.db", space)
        vectors = Vectors(DIMENSIONS)
        for slots, rows in RecallWorld(facts).vectors():
            vectors.put(slots, rows)
            if facts <= TABLE_FACTS_MAX:
                first = int(slots[0])
                table.write(added=list(zip(ids[first : first + len(rows)], rows, strict=True)))
        blocks.write(vectors, starts)
        table.close()
        clock = Stopwatch()
        VectorBlocks(full / "made-up.blocks", space, node.log).restore(Vectors(DIMENSIONS), starts)
        blocks_s = clock.seconds
        if facts > TABLE_FACTS_MAX:
            return [Figure("vectors from blocks", blocks_s, "s")]
        table = VecFacts(full / "made-up.db", space)
        clock, vectors = Stopwatch(), Vectors(DIMENSIONS)
        for page, rows in table.pages():
            slot_of = node.reader.slot_of
            vectors.put(np.array([slot_of(each) for each in page], dtype=np.int32), rows)
        table_s = clock.seconds
        table.close()
        return [
            Figure("vectors from blocks", blocks_s, "s", "from the table", blocks_s / table_s),
            Figure("vectors from the table", table_s, "s"),
        ]
    finally:
        node.close()


def _best(data: Path, *, from_tables: bool = False) -> Started:
    """The start with the least processor time."""
    found: list[Started] = []
    for _ in range(REPEATS if not from_tables else 1):
        if from_tables:
            shutil.rmtree(data / IMAGE_FOLDER, ignore_errors=True)
        clock = Stopwatch()
        with serving_process(data, env={"STIGMEM_EMBED_ENABLED": "false"}) as (url, process):
            wait_ready(url)
            found.append(Started(clock.seconds, _processor_s(process), _private_mib(process)))
    return min(found, key=lambda each: each.processor_s)


def _processor_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private_mib(process: int) -> float:
    """Memory of a process that it shares with no file and no other process."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    kib = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    anonymous = [int(line.split()[1]) for line in lines if line.startswith("Anonymous:")]
    return min(sum(kib), *anonymous) / 1024
