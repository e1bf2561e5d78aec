"""The cost of a fact: bytes of log, tables, image file and memory, and processor time, as the node
grows."""

import os
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, say
from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.writing.commands import AssertFact
from tests.worlds.histories import asserted

BATCH = 2_000
FACTS_OF_AN_ENTITY = 10


def measure(facts: int) -> list[Figure]:
    """Figures for a separate node with this many facts, without vectors."""
    count = max(BATCH, facts // BATCH * BATCH)
    with tempfile.TemporaryDirectory(prefix="engramlog-capacity-") as name:
        data = Path(name) / "data"
        node = Node.open(data)
        before, began = _resident_bytes(), time.process_time()
        for first in range(0, count, BATCH):
            node.write(*(_fact(number) for number in range(first, first + BATCH)))
        node.writer.exclusive(lambda: None).result()  # with the tables
        spent, resident = time.process_time() - began, _resident_bytes() - before
        node.close()
        sizes = {
            "log": (data / "log.db").stat().st_size,
            "tables": _bytes_of(data, "projections-*.db"),
            "image file": _bytes_of(data, "image/**/*"),
        }
    say(f"{count:,} facts")
    return [
        *(Figure(f"{name}, a fact", size / count, "bytes") for name, size in sizes.items()),
        Figure("resident, a fact", resident / count, "bytes"),
        Figure("processor time, a fact of a batch", 1e6 * spent / count, "µs"),
    ]


def _fact(number: int) -> AssertFact:
    return asserted(
        f"user:u{number // FACTS_OF_AN_ENTITY}",
        f"memory:r{number % FACTS_OF_AN_ENTITY}",
        Value("text", f"note {number} about the plan and the budget of team {number % 97}"),
        scope="company",
    )


def _bytes_of(folder: Path, pattern: str) -> int:
    found = (path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in found)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
