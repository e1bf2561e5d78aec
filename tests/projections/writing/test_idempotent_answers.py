"""A repeated request is answered from the log, item by item, and writes nothing."""

from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.errors import IdempotencyConflict
from engramlog.eventlog.event import Draft
from engramlog.eventlog.kinds import FactAsserted, FactAttributes, KeyIssued, Value
from engramlog.eventlog.log import Idempotency
from engramlog.projections.authorization import everything
from engramlog.projections.writing.commands import AssertFact, Done, Refused, RetractFact
from tests.worlds.histories import asserted
from tests.worlds.stated_facts import stated

ACTOR = "stigmem://t/agent/a"
KEY = Idempotency(ACTOR, "request-1", b"digest")
SCOPES = frozenset({"local"})


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


def test_a_repeated_item_without_a_write_names_the_existing_fact(node: Node) -> None:
    (standing,) = node.write(says("A"), actor=ACTOR)
    assert isinstance(standing, Done)
    assert [each.fact_id for each in submit(node, says("A"))] == [standing.fact_id]
    node.write(RetractFact(fact_id=str(standing.fact_id)), actor=ACTOR)
    assert [each.fact_id for each in submit(node, says("A"))] == [standing.fact_id]


def test_a_key_without_events_still_refuses_another_body(node: Node) -> None:
    node.write(says("A"), actor=ACTOR)
    submit(node, says("A"))
    other = Idempotency(ACTOR, KEY.key, b"another digest")
    with pytest.raises(IdempotencyConflict):
        node.writer.submit([says("B")], actor=ACTOR, idempotency=other).result()


def test_a_repeated_key_issue_names_the_same_key(node: Node) -> None:
    issue = KeyIssued(
        key_id=str(uuid4()),
        entity_uri=ACTOR,
        permissions=["read"],
        key_sha256="ab" * 32,
        scopes=["local"],
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


def answers(node: Node, *commands: object) -> list[Done | Refused]:
    return node.writer.submit(commands, actor=ACTOR, idempotency=KEY).result().outcomes  # type: ignore[arg-type]


def test_a_refused_item_beside_written_ones_is_refused_again(tmp_path: Path) -> None:
    items = [says("A"), misplaced(), RetractFact(fact_id="none"), says("A")]
    node = Node.open(tmp_path / "data")
    first = answers(node, *items)
    codes = [each.code for each in first if isinstance(each, Refused)]
    assert codes == ["classification_misplaced", "fact_not_found"]
    head = node.log.head().position
    node.close()
    node = Node.open(tmp_path / "data")
    again = answers(node, *items)
    for one, other in zip(first, again, strict=True):
        if isinstance(one, Refused):
            assert other == one
        else:
            assert isinstance(other, Done)
            assert (other.fact_id, len(other.events)) == (one.fact_id, len(one.events))
    assert node.log.head().position == head
    assert node.rebuild().compared
    node.close()


def test_a_request_that_was_wholly_refused_is_decided_again(node: Node) -> None:
    (standing,) = node.write(says("A"), actor=ACTOR)
    assert isinstance(standing, Done)
    gone = RetractFact(
        fact_id=str(standing.fact_id), rights=everything().narrowed(frozenset({"public"}))
    )
    (refused,) = answers(node, gone)
    assert isinstance(refused, Refused)
    allowed = msgspec.structs.replace(gone, rights=everything())
    (done,) = answers(node, allowed)
    assert isinstance(done, Done)
    assert done.retracted == (standing.fact_id,)
    (again,) = answers(node, allowed)
    assert isinstance(again, Done)
    assert again.retracted == (standing.fact_id,)


def test_a_key_that_an_earlier_version_kept_of_a_refusal_is_decided_again(node: Node) -> None:
    """Version 0.1 kept the key of a refused request, but not the reason."""
    node.log.append([], idempotency=KEY)
    (refused,) = answers(node, misplaced())
    assert isinstance(refused, Refused)
    assert refused.code == "classification_misplaced"


def test_an_earlier_versions_batch_reports_that_the_reason_was_not_kept(
    node: Node,
) -> None:
    source = node.write(says("B"), actor=ACTOR)[0]
    assert isinstance(source, Done)
    stated = source.events[0]
    assert isinstance(stated.payload, FactAsserted)
    draft = Draft(stated.payload, "scope/local", b"\x01" * 16, ACTOR)
    node.log.append([draft], idempotency=KEY)
    written, refused = answers(node, says("B"), misplaced())
    assert isinstance(written, Done)
    assert isinstance(refused, Refused)
    assert refused.code == "outcome_not_kept"


def misplaced() -> AssertFact:
    secret = FactAttributes(classification=3)
    public = asserted(value=Value("string", "S"), source=ACTOR, scope="public")
    return stated(public, attributes=secret)
