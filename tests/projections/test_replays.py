"""A repeated request is answered from the log, item by item, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.node import Node
from eventlog.errors import IdempotencyConflict
from eventlog.kinds import Value
from eventlog.log import Idempotency
from projections.intents import AssertFact, Done, IssueKey, RetractFact
from tests.projections.histories import asserted

ACTOR = "stigmem://t/agent/a"
KEY = Idempotency(ACTOR, "request-1", b"digest")
SCOPES = frozenset({"local"})


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    yield node
    node.close()


def says(v: str, *, confidence: float = 1.0) -> AssertFact:
    return asserted(value=Value("string", v), source=ACTOR, confidence=confidence)


def submit(node: Node, *intents: object) -> list[Done]:
    answer = node.writer.submit(intents, actor=ACTOR, idempotency=KEY).result()  # type: ignore[arg-type]
    assert all(isinstance(outcome, Done) for outcome in answer.outcomes)
    return answer.outcomes  # type: ignore[return-value]


def test_a_request_that_applies_in_several_steps_repeats_whole(node: Node) -> None:
    items = [says("A"), says("retracted", confidence=0.0), says("A"), says("A"), says("B")]
    first = submit(node, *items)
    head = node.log.head().position
    again = submit(node, *items)
    assert [each.fact_id for each in again] == [each.fact_id for each in first]
    assert [each.retracted for each in again] == [each.retracted for each in first]
    assert again[0].fact_id != again[2].fact_id, "A, retracted, A is two facts"
    assert again[2].fact_id == again[3].fact_id, "the second A found the first"
    assert node.log.head().position == head


def test_a_repeated_item_that_wrote_nothing_names_the_fact_that_stood(node: Node) -> None:
    (standing,) = node.write(says("A"), actor=ACTOR)
    assert isinstance(standing, Done)
    assert [each.fact_id for each in submit(node, says("A"))] == [standing.fact_id]
    node.write(RetractFact(fact_id=str(standing.fact_id), scopes=SCOPES), actor=ACTOR)
    assert [each.fact_id for each in submit(node, says("A"))] == [standing.fact_id]


def test_a_key_without_events_still_refuses_another_body(node: Node) -> None:
    node.write(says("A"), actor=ACTOR)
    submit(node, says("A"))
    other = Idempotency(ACTOR, KEY.key, b"another digest")
    with pytest.raises(IdempotencyConflict):
        node.writer.submit([says("B")], actor=ACTOR, idempotency=other).result()


def test_a_repeated_key_issue_names_the_same_key(node: Node) -> None:
    issue = IssueKey(
        entity_uri=ACTOR, permissions=("read",), key_sha256="ab" * 32, scopes=("local",)
    )
    first, again = submit(node, issue), submit(node, issue)
    assert first[0].detail["key_id"] == again[0].detail["key_id"]


def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    first = submit(node, says("A"), says("B"))
    node.close()
    node = Node.open(tmp_path / "data")
    assert [e.fact_id for e in submit(node, says("A"), says("B"))] == [e.fact_id for e in first]
    node.close()
