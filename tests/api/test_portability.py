"""A log that went through a file means what it meant: lives of all kinds, written and read back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from api.node import Node
from eventlog.clock import FixedClock
from tests.api.private_worlds import Life
from tests.api.private_worlds import Step as Move
from tests.api.private_worlds import histories as private_histories
from tests.portable import exported, meaning, read_back
from tests.projections.histories import START_US, Step, histories, live_through

QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(histories(max_size=25, erasing=False))
@QUICK
def test_a_life_with_memories_comes_back_as_it_was(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "first", clock=FixedClock(START_US))
        live_through(node, steps)
        lines, before = exported(node), meaning(node)
        node.close()
        with read_back(lines, Path(folder) / "copy") as (copy, report):
            assert report.failed == 0
            after = meaning(copy)
            again = exported(copy)
    for table, rows in before.items():
        assert after[table] == rows, table
    assert len(again) == len(lines)


@given(private_histories(max_size=15))
@QUICK
def test_a_life_in_gardens_comes_back_as_it_was(moves: list[Move]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "first", private=True)
        for move in moves:
            life.take(move, 0)
        lines, before = exported(life.node), meaning(life.node)
        life.close()
        with read_back(lines, Path(folder) / "copy") as (copy, report):
            assert report.failed == 0
            after = meaning(copy)
    for table, rows in before.items():
        assert after[table] == rows, table
