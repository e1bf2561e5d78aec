"""Contradictions once missed or wrongly reported; each by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import FactRetracted, SetValuedDeclared, Value
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import conflict_between, conflicts
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.moment import Moment
from engramlog.projections.tables.database import query
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import (
    Command,
    Done,
    Refused,
    ResolveConflict,
    RetractFact,
)
from tests.worlds.counted_work import line_work
from tests.worlds.histories import START_US, asserted

RIGHTS = everything()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    yield node
    node.close()


def write(node: Node, intent: Command) -> Done:
    (outcome,) = node.write(intent, actor="agent:t")
    assert isinstance(outcome, Done), outcome
    return outcome


def says(node: Node, v: str, source: str, relation: str = "memory:role", **more: Any) -> str:
    value = Value("string", v)
    done = write(node, asserted(value=value, source=source, relation=relation, **more))
    return str(done.fact_id)


def shown(node: Node, status: str = "unresolved", moment: Moment | None = None) -> list[str]:
    """Conflicts as ``newer>older``, newest first."""
    view = node.reader.pin()
    found = conflicts(node.reader, view, RIGHTS, moment or node.moment(), status=status)  # type: ignore[arg-type]
    pairs = [(int(each.newer), int(each.older)) for each in found]
    values = [
        [node.reader.rows([int(view.from_position[slot])])[0].value_v for slot in pair]
        for pair in pairs
    ]
    return [">".join(pair) for pair in values]


def only_conflict(node: Node, newer: str, older: str) -> str:
    view = node.reader.pin()
    found = conflict_between(node.reader, view, RIGHTS, node.moment(), newer, older)
    assert found is not None
    return found.row.conflict_id


def settle(node: Node, conflict_id: str, winner: str) -> Done | Refused:
    intent = ResolveConflict(conflict_id=conflict_id, winning_fact_id=winner, source="agent:judge")
    return node.write(intent, actor="agent:t")[0]


def test_a_value_that_stops_being_the_newest_is_in_conflict_with_the_one_that_is(
    node: Node,
) -> None:
    says(node, "A", "one")
    says(node, "B", "two")
    again = says(node, "A", "three")
    assert shown(node) == ["A>B"]
    write(node, RetractFact(fact_id=again))
    assert shown(node) == ["B>A"]


def test_a_conflict_that_comes_back_leaves_its_past_as_it_was(node: Node) -> None:
    says(node, "A", "one")
    says(node, "B", "two")
    again = says(node, "A", "three")
    between = node.moment()
    write(node, RetractFact(fact_id=again))
    assert shown(node, moment=between) == ["A>B"]
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*), count(DISTINCT conflict_id) FROM conflicts") == [(3, 3)]


def test_the_winner_of_one_conflict_is_in_conflict_with_a_third_value(node: Node) -> None:
    first = says(node, "A", "one")
    says(node, "B", "two")
    third = says(node, "C", "three")
    settled = settle(node, only_conflict(node, third, first), first)
    assert isinstance(settled, Done)
    assert shown(node) == ["B>A"]
    assert len(shown(node, "resolved")) == 1


def test_the_facts_that_are_shown_may_win(node: Node) -> None:
    """Also if the fact that opened the conflict has since been retracted."""
    older = says(node, "A", "one")
    gone = says(node, "A", "two")
    newer = says(node, "B", "three")
    conflict_id = only_conflict(node, newer, older)
    write(node, RetractFact(fact_id=gone))
    refused = settle(node, conflict_id, gone)
    assert isinstance(refused, Refused)
    assert refused.code == "not_in_conflict"
    assert isinstance(settle(node, conflict_id, older), Done)
    assert shown(node) == []


def test_no_pair_is_shown_twice_when_the_newest_value_has_expired(node: Node) -> None:
    says(node, "A", "one")
    says(node, "B", "two")
    says(node, "C", "three", valid_until="2023-11-15T00:00:00Z")
    node.clock.set(START_US + 30 * 86_400_000_000)  # type: ignore[attr-defined]
    assert shown(node) == ["B>A"]


def test_older_facts_of_a_value_contradict_where_its_newest_does_not(node: Node) -> None:
    says(node, "A", "one")
    says(node, "B", "two", valid_until="2023-12-01T00:00:00Z")
    says(node, "A", "three", valid_from="2023-12-01T00:00:00Z")
    assert shown(node) == ["A>B"]


def test_an_answer_flags_no_contradiction_of_a_set_valued_relation(node: Node) -> None:
    answers = [write(node, asserted(value=Value("string", v), relation="rel:knows")) for v in "AB"]
    assert [answer.contradicted for answer in answers] == [False, False]


def test_declaring_a_relation_set_valued_ends_its_conflicts_and_undoing_it_brings_them_back(
    node: Node,
) -> None:
    says(node, "A", "one", "tag:x")
    says(node, "B", "two", "tag:x")
    says(node, "A", "one")
    says(node, "B", "two")
    before = node.moment()
    write(node, SetValuedDeclared(relations=["tag:*"]))
    assert shown(node) == ["B>A"]
    says(node, "C", "three", "tag:x")
    write(node, SetValuedDeclared(relations=[]))
    assert sorted(shown(node)) == ["B>A", "C>A", "C>B"]
    assert shown(node, moment=before) == ["B>A", "B>A"]
    with node.reader.pool.connection() as db:
        open_now = query(db, "SELECT count(*) FROM conflicts WHERE to_position>1000000")
    assert open_now == [(3,)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (2, 2, 0), (1, 2, 0)])
def test_a_retraction_may_name_facts_in_any_order_and_twice(
    node: Node, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """A claim of several peers may do so: the tables accept it and stay right."""
    ids = [says(node, v, source) for v, source in (("A", "one"), ("B", "two"), ("A", "three"))]
    store = ProjectionStore(tmp_path / "other.db")
    events = node.log.read(0, 100)
    last = events[-1]
    retraction = msgspec.structs.replace(
        last,
        position=last.position + 1,
        peer=None,
        header=msgspec.structs.replace(last.header, kind="fact_retracted"),
        payload=FactRetracted(fact_ids=[*(ids[index] for index in order), "unknown"]),
    )
    with store.db:
        store.apply([*events, retraction])
    assert not store.halted
    left = 3 - len(set(order))
    assert query(store.db, "SELECT sum(live_count), count(*) FROM claims") == [
        (left or None, 1 if left else 0)
    ]
    assert query(store.db, "SELECT count(*) FROM conflicts WHERE to_position>1000000") == [(0,)]
    store.close()


def test_a_retracted_fact_contradicts_nothing(node: Node) -> None:
    gone = says(node, "A", "one")
    says(node, "B", "two")
    write(node, RetractFact(fact_id=gone))
    view = node.reader.pin()
    newest = np.array([1], dtype=np.int32)
    assert not are_contradicted(view, newest, node.moment(), RIGHTS).any()
    assert shown(node) == []


def test_an_expired_fact_contradicts_nothing_whatever_others_of_its_key_say(node: Node) -> None:
    """Wire 5.1: both facts of a contradiction are live, so not expired."""
    says(node, "A", "one")
    says(node, "B", "two")
    says(node, "C", "three", valid_until="2001-01-01T00:00:00Z")
    view = node.reader.pin()
    every = np.arange(3, dtype=np.int32)
    flags = are_contradicted(view, every, node.moment(), RIGHTS).tolist()
    alone = [are_contradicted(view, every[n : n + 1], node.moment(), RIGHTS)[0] for n in range(3)]
    assert flags == alone == [True, True, False]


def test_conflicts_that_ended_cost_the_list_nothing_but_their_place_in_the_table(
    node: Node,
) -> None:
    def come_and_go(times: int) -> None:
        for _ in range(times):
            write(node, RetractFact(fact_id=says(node, "CTO", "agent:max")))

    def lines() -> int:
        view, moment = node.reader.pin(), node.moment()
        return line_work(lambda: list(conflicts(node.reader, view, RIGHTS, moment)))

    says(node, "CEO", "agent:ann")
    come_and_go(10)
    once = lines()
    come_and_go(30)
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*) FROM conflicts") == [(40,)]
    assert lines() == once
