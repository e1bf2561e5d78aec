"""When recalls returned facts, and their feedback: live, at any position, rebuilt."""

from pathlib import Path

import numpy as np

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import FactFeedback, RecallServed, RecallUse, Value
from engramlog.projections.arrays import I32
from engramlog.projections.moment import Moment
from engramlog.projections.writing.commands import Done, Refused
from tests.worlds.histories import asserted


def stated(node: Node, v: str) -> str:
    outcome = node.write(asserted(value=Value("string", v)))[0]
    assert isinstance(outcome, Done)
    return str(outcome.fact_id)


def times(node: Node, fact: str, position: int | None = None) -> tuple[int, ...]:
    view = node.reader.pin()
    moment = Moment(view.position if position is None else position, 0)
    return view.recall_times(slots_of(node, fact), moment)[0]


def feedback(node: Node, fact: str, position: int | None = None) -> tuple[int, int]:
    view = node.reader.pin()
    moment = Moment(view.position if position is None else position, 0)
    cited, rejected = view.feedback(slots_of(node, fact), moment)
    return int(cited[0]), int(rejected[0])


def slots_of(node: Node, fact: str) -> I32:
    return np.array([node.reader.slot_of(fact)], dtype=np.int32)


def test_every_instant_of_a_batch_is_kept_and_the_last_twenty_are_shown(node: Node) -> None:
    fact = stated(node, "A")
    assert times(node, fact) == ()
    node.write(RecallServed(uses=[RecallUse(fact, 3, 300, (100, 200))]))
    first = node.log.head().position
    node.write(RecallServed(uses=[RecallUse(fact, 9, 500)]))
    assert times(node, fact) == (100, 200, 300, 500)
    assert times(node, fact, first) == (100, 200, 300)
    assert times(node, fact, first - 1) == ()
    for at in range(1_000, 1_019):
        node.write(RecallServed(uses=[RecallUse(fact, 1, at)]))
    assert times(node, fact) == (500, *range(1_000, 1_019))
    assert times(node, fact, first) == (100, 200, 300)


def test_feedback_counts_once_per_event_and_as_of_a_position(node: Node) -> None:
    one, two = stated(node, "A"), stated(node, "B")
    before = node.log.head().position
    node.write(FactFeedback(cited=[one, one], rejected=[two]))
    node.write(FactFeedback(cited=[one], rejected=[one]))
    assert feedback(node, one) == (2, 1)
    assert feedback(node, two) == (0, 1)
    assert feedback(node, one, before + 1) == (1, 0)
    assert feedback(node, one, before) == (0, 0)


def test_feedback_on_an_absent_fact_is_refused(node: Node) -> None:
    fact = stated(node, "A")
    head = node.log.head().position
    refusal = node.write(FactFeedback(cited=[fact, "no-such-fact"]))[0]
    assert isinstance(refusal, Refused)
    assert refusal.code == "fact_not_found"
    assert isinstance(node.write(FactFeedback())[0], Done)
    assert node.log.head().position == head


def test_a_restart_and_a_rebuild_give_the_same(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    fact = stated(node, "A")
    uses = (RecallUse(fact, 1, 700), RecallUse(fact, 2, 600, (550,)))
    node.write(RecallServed(uses=list(uses)))
    node.write(FactFeedback(cited=[fact]))
    assert times(node, fact) == (550, 600, 700)
    digests = node.reader.digests()
    node.rebuild()
    assert node.reader.digests() == digests
    assert (times(node, fact), feedback(node, fact)) == ((550, 600, 700), (1, 0))
    node.close()
    node = Node.open(tmp_path / "data")
    assert (times(node, fact), feedback(node, fact)) == ((550, 600, 700), (1, 0))
    node.close()
