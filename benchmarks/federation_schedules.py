"""Random schedules of a network of nodes: how many end with everybody in agreement.

Each schedule is a seed: two to five nodes with skewed clocks write, contradict each other,
retract and settle one another's facts, restart, and replay each other over links that cut,
with pages that end anywhere. Then all hear all, and their streams' digests must be equal.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import Figure, Stopwatch, say
from tests.federation.schedules import run

SCHEDULES = 1_000
SHARED = ("/company", "/public")


def measure(facts: int) -> list[Figure]:
    """Figures for a hundredth of ``facts`` schedules (1,000 by default)."""
    count = max(10, facts // 100)
    watch = Stopwatch()
    equal = rebuilt = 0
    for seed in range(count):
        if seed % 50 == 0:
            say(f"schedule {seed:,} of {count:,}")
        with tempfile.TemporaryDirectory(prefix="engramlog-schedule-") as name:
            members = run(Path(name), seed, nodes=2 + seed % 4)
            digests = [
                {
                    stream: digest
                    for stream, digest in member.node.reader.stream_digests().items()
                    if stream.endswith(SHARED)
                }
                for member in members
            ]
            same = all(each == digests[0] for each in digests)
            if not same:
                say(f"schedule {seed}: the nodes differ")
            equal += same
            if seed % 10 == 0:
                rebuilt += all(
                    member.node.rebuild().digest == member.digests().local for member in members
                )
            for member in members:
                member.close()
    return [
        Figure("schedules with equal digests", 100 * equal / count, "%", aim="100 %"),
        Figure("of every tenth, rebuilt equal", 100 * rebuilt / len(range(0, count, 10)), "%"),
        Figure("schedules", count / watch.seconds, "/s"),
    ]
