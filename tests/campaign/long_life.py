"""A long log: what it takes to start, rebuild, verify and look back, and that all of it agrees."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.normalization import SCOPES
from engramlog.projections.writing.commands import Command, Done, RetractFact, SweepDecay
from engramlog.replay.moment import resolve
from engramlog.replay.verify import verify
from tests.worlds.histories import asserted

TOGETHER = 500

Result = TypeVar("Result")


def run(count: int, seed: int) -> list[str]:
    """A log of so many events; returns what was wrong."""
    folder = Path(tempfile.mkdtemp(prefix="life-"))
    rng = random.Random(seed)
    faults: list[str] = []
    try:
        node = Node.open(folder / "data")
        try:
            _timed("written", lambda: _write(node, count, rng))
        finally:
            node.close()
        node = _timed("started", lambda: Node.open(folder / "data"))
        try:
            report = _timed("verified", lambda: verify(node.log))
            if report.fault is not None:
                faults.append(f"seed {seed}: {report.fault}")
            head = node.log.head().position
            before = node.reader.digests()
            _timed("rebuilt", lambda: node.rebuild(from_scratch=True))
            if node.reader.digests() != before:
                faults.append(f"seed {seed}: a rebuild makes other tables")
            middle = f"position:{head // 2}"
            _timed("looked back", lambda: resolve(middle, node.log, head, node.clock.now_us()))
        finally:
            node.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return faults


def _write(node: Node, count: int, rng: random.Random) -> None:
    facts: list[str] = []
    while node.log.head().position < count:
        commands: list[Command] = [
            asserted(
                f"user:u{rng.randrange(count // 20 + 1)}",
                f"rel:r{rng.randrange(50)}",
                Value(type="text", v=f"note {rng.getrandbits(60)}"),
                scope="company",
            )
            for _ in range(TOGETHER)
        ]
        done = node.write(*commands)
        facts += [str(each.fact_id) for each in done if isinstance(each, Done)]
        gone = [facts.pop(rng.randrange(len(facts))) for _ in range(20)]
        node.write(
            *(RetractFact(fact_id=each, scopes=frozenset(SCOPES), reason="old") for each in gone)
        )
    node.write(SweepDecay(scopes=("company",), policies=()))


def _timed(what: str, work: Callable[[], Result]) -> Result:
    began = time.monotonic()
    result = work()
    print(f"  {what} in {time.monotonic() - began:.1f} s", flush=True)
    return result
