"""An export that is imported again, or into the node that it came from, changes no fact."""

import json
import re
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engramlog.api.node.node import Node
from engramlog.api.transfer.importing import Importer, Options
from engramlog.api.transfer.known_facts import Known
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.writing.commands import SweepDecay
from engramlog.projections.writing.memory_commands import RecordSummary
from tests.worlds.histories import START_US, Step, histories, live_through
from tests.worlds.live import LiveNode
from tests.worlds.portable import exported, meaning, read_back
from tests.worlds.private_steps import Step as Move
from tests.worlds.private_steps import histories as private_histories
from tests.worlds.private_worlds import Life

QUICK = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FACTS = (
    "facts", "fact_retractions", "conflicts", "derivations", "entity_edges", "episodes", "deltas",
    "memory_facts", "gardens", "garden_members", "quarantine",
)  # fmt: skip
USES = re.compile(r'"(access_count|last_accessed_at)": [^,}]*')
"""Recalls are counted again."""


def known(node: Node) -> dict[str, list[str]]:
    tables = meaning(node)
    return {table: sorted(USES.sub("", row) for row in tables[table]) for table in FACTS}


def take(node: Node, lines: list[bytes], known: Known = "export") -> list[str]:
    """The outcomes of the lines, each once."""
    sink, options = NodeSink(node, 262_144), Options(known=known)
    report = Importer(sink, options, decode_line).run(iter(lines))
    assert report.failed == 0
    return sorted(report.counts)


def take_twice(node: Node, folder: Path) -> None:
    """The node's export into a new node, and again into both."""
    lines = exported(node)
    with read_back(lines, folder) as (copy, _):
        for each in (copy, node):
            before = known(each)
            take(each, lines)
            for table, rows in known(each).items():
                assert rows == before[table], table


@given(histories(max_size=25))
@QUICK
def test_a_life_with_memories_is_not_doubled(steps: list[Step]) -> None:
    """A sweep is one more sweep, and an earlier version of a summary is one more version; an erased
    fact is stated again, as nothing tells that it was. A settlement that later facts changed may be
    refused."""
    repeated = (SweepDecay, RecordSummary)
    kept = [
        step
        for step in steps
        if step.kind not in ("erase", "resolve") and not isinstance(step.command, repeated)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(Node.open(folder / "first", clock=FixedClock(START_US))) as node:
            live_through(node, kept)
            take_twice(node, folder / "copy")


@given(private_histories(max_size=15))
@QUICK
def test_a_life_in_gardens_is_not_doubled(moves: list[Move]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(Life(folder / "first", private=True)) as life:
            for move in moves:
                if move.kind not in ("sweep", "summary", "resolve"):
                    life.take(move, 0)
            take_twice(life.node, folder / "copy")


def role(value: str, source: str = "agent:a", **more: Any) -> dict[str, Any]:
    stated = {"type": "string", "v": value}
    return {"entity": "user:ann", "relation": "role", "value": stated, "source": source, **more}


SETTLED = {"op": "resolve", "winner": "a", "loser": "b"}
A, B = role("A", key="a"), role("B", "agent:b", key="b")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([role("A"), role("B")], id="two values of one source"),
        pytest.param([role("A"), role("B"), role("A")], id="a value stated again"),
        pytest.param([A, {"op": "retract", "target": "a"}, role("A"), role("B")], id="ended"),
        pytest.param([A, B, SETTLED], id="settled"),
        pytest.param([A, B, {**SETTLED, "states": role("C", "agent:c")}], id="settled by another"),
        pytest.param([A, role("B", derived_from=["a"]), role("C", derived_from=["a"])], id="tree"),
        pytest.param(
            [{"op": "garden", "slug": "g"}]
            + [role(value, garden_id="g", scope="company") for value in "AB"],
            id="in a garden",
        ),
    ],
)
def test_what_is_known_is_left_out(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    with closing(Node.open(tmp_path / "first", clock=FixedClock(START_US))) as node:
        take(node, [json.dumps(line).encode() for line in lines], "write")
        take_twice(node, tmp_path / "copy")
        position = node.log.head().position
        assert take(node, exported(node)) == ["existing"]
        assert node.log.head().position == position


def test_what_ended_since_stays_ended(tmp_path: Path) -> None:
    with closing(Node.open(tmp_path / "first", clock=FixedClock(START_US))) as node:
        take(node, [json.dumps(A).encode()], "write")
        lines = exported(node)
        with read_back(lines, tmp_path / "copy") as (copy, _):
            for each in (copy, node):
                end = {name: A[name] for name in ("entity", "relation", "value")}
                take(each, [json.dumps({"op": "retract", "match": end}).encode()], "write")
                assert take(each, lines) == ["existing"]
                assert len(known(each)["fact_retractions"]) == 1


def test_an_equal_fact_that_ended_here_takes_no_others_place(tmp_path: Path) -> None:
    """What this node's own agents stated and ended says nothing of the fact of another node."""
    with closing(Node.open(tmp_path / "first", clock=FixedClock(START_US))) as node:
        take(node, [json.dumps(A).encode()], "write")
        lines = exported(node)
    other = LiveNode(tmp_path / "other")
    fact = other.state(entity="user:ann", relation="role", v="A", source="agent:a", scope="local")
    other.call("POST", f"/v1/facts/{fact['id']}/retract", json={})
    assert take(other.node, lines) == ["asserted"]
    other.close()


def test_the_end_of_another_nodes_fact_does_not_end_an_equal_one(tmp_path: Path) -> None:
    many = {"op": "policy", "set_valued": ["role"]}
    ended = [many, A, {"op": "retract", "target": "a"}]
    with closing(Node.open(tmp_path / "first", clock=FixedClock(START_US))) as node:
        take(node, [json.dumps(line).encode() for line in ended], "write")
        lines = exported(node)
    other = LiveNode(tmp_path / "other")
    take(other.node, [json.dumps(many).encode()])
    fact, _ = (
        other.state(entity="user:ann", relation="role", v=v, source="agent:a", scope="local")
        for v in "AB"
    )
    for outcomes in (["asserted", "declared", "retracted"], ["declared", "existing"]):
        assert take(other.node, lines) == outcomes
        assert other.call("GET", f"/v1/facts/{fact['id']}").json()["confidence"] == 1
    other.close()


def test_a_line_that_names_no_fact_states_its_fact_again(tmp_path: Path) -> None:
    """As a value may come back, and lines of a day say so."""
    with closing(Node.open(tmp_path / "node", clock=FixedClock(START_US))) as node:
        for value in "ABA":
            take(node, [json.dumps(role(value)).encode()])
        assert len(known(node)["facts"]) == 3
