"""A node against a model of plain lists: live facts, contradictions, visible facts."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.authorization import Authorization, everything
from engramlog.projections.contradictions.conflicts import Conflict, conflicts
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, live
from engramlog.projections.moment import Moment
from engramlog.projections.writing.commands import Done, ResolveConflict
from tests.worlds.histories import (
    START_US,
    Step,
    histories,
    intent_at,
    live_through,
)
from tests.worlds.model import Fact, Model, claims

RIGHTS = everything()


@contextmanager
def opened() -> Generator[Node, None, None]:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            yield node
        finally:
            node.close()


def take(node: Node, model: Model, step: Step) -> None:
    """Apply one step of a history to the node and to the model."""
    intent = intent_at(step, node)
    if intent is None:
        return
    answer = node.writer.submit([intent], actor="agent:t", received_at=step.at_us).result()
    assert status_of_node(node)["degraded"] is None
    model.take(intent, answer.outcomes[0], step.at_us)


def shown(node: Node, moment: Moment, rights: Authorization = RIGHTS) -> list[Conflict]:
    return list(conflicts(node.reader, node.reader.pin(), rights, moment, status="unresolved"))


@given(histories(memory=False, erasing=False))
def test_a_node_agrees_with_the_model_until_every_conflict_is_settled(steps: list[Step]) -> None:
    model = Model()
    with opened() as node:
        for step in steps:
            take(node, model, step)
            _check_facts(node, model, step.at_us)
            _check_conflicts(node, model, step.at_us)
        _settle_every_conflict(node, steps[-1].at_us)


def _check_facts(node: Node, model: Model, at_us: int) -> None:
    view = node.reader.pin()
    moment = Moment(view.position, at_us)
    slots = known(view, RIGHTS, moment)
    assert len(slots) == len(model.facts)
    standing = set(live(view, RIGHTS, moment).tolist())
    confidences = view.confidence(slots, moment)
    for bound in {0.0, 0.1, *confidences.tolist()}:
        above = view.more_confident(slots, moment, bound)
        assert above.tolist() == (confidences > bound).tolist(), bound
    contradicted = are_contradicted(view, slots, moment, RIGHTS)
    alone = [are_contradicted(view, slots[n : n + 1], moment, RIGHTS)[0] for n in range(len(slots))]
    assert alone == contradicted.tolist()
    for slot, fact in zip(slots.tolist(), model.facts, strict=True):
        assert node.reader.slot_of(fact.id) == slot
        assert (slot in standing) == (fact.is_live and not fact.expired(at_us))
        assert confidences[slot] == pytest.approx(fact.confidence, abs=1e-9)
        if fact.is_live:
            assert contradicted[slot] == model.contradicted(fact, at_us)


def _check_conflicts(node: Node, model: Model, at_us: int) -> None:
    """The shown conflicts are pairs that contradict, each once, and none is missing."""
    pairs = _pairs(node, model, Moment(node.reader.pin().position, at_us))
    for newer, older in pairs:
        assert newer in model.rivals(older, at_us)
    values = [{newer.value, older.value} for newer, older in pairs]
    by_key = [(newer.key, sorted(pair)) for (newer, _), pair in zip(pairs, values, strict=True)]
    assert len({repr(each) for each in by_key}) == len(by_key), "every pair once"
    for key in {fact.key for fact in model.facts}:
        _check_key(model, key, [pair for pair in pairs if pair[0].key == key], at_us)


def _pairs(node: Node, model: Model, moment: Moment) -> list[tuple[Fact, Fact]]:
    """Contradictions between claims, without conflicts over denials."""
    found = [(model.facts[each.newer], model.facts[each.older]) for each in shown(node, moment)]
    return [(newer, older) for newer, older in found if newer not in older.denied_by]


def _check_key(
    model: Model, key: tuple[str, str, str], pairs: list[tuple[Fact, Fact]], at_us: int
) -> None:
    """At most one conflict less than values, and at least one if there are rivals; each for another
    older value, and the newest value is never the older side."""
    facts = [fact for fact in model.facts if fact.key == key and claims(fact)]
    valid = [fact for fact in facts if not fact.expired(at_us)]
    opposed = [fact for fact in valid if model.rivals(fact, at_us)]
    assert bool(pairs) == bool(opposed)
    if pairs:
        assert len(pairs) <= len({fact.value for fact in valid}) - 1
        assert len({older.value for _, older in pairs}) == len(pairs)
        assert facts[-1].value not in {older.value for _, older in pairs}


def _settle_every_conflict(node: Node, at_us: int) -> None:
    """Settling every shown conflict ends all contradictions."""
    for _ in range(100):
        view = node.reader.pin()
        moment = Moment(view.position, at_us)
        waiting = shown(node, moment)
        if not waiting:
            break
        older = node.reader.rows([int(view.from_position[waiting[0].older])])[0]
        settle = ResolveConflict(
            conflict_id=waiting[0].row.conflict_id, winning_fact_id=older.id, source="agent:judge"
        )
        answer = node.writer.submit([settle], actor="agent:t", received_at=at_us).result()
        assert isinstance(answer.outcomes[0], Done), answer.outcomes
    else:
        pytest.fail("conflicts never end")
    winners = view.set_aside > moment.position
    slots = np.flatnonzero(winners).astype(np.int32)
    slots = live(view, RIGHTS, moment, slots)
    assert not are_contradicted(view, slots, moment, RIGHTS).any()


LOCAL = Authorization("agent:x", frozenset({"read"}), frozenset({"local"}))


@given(histories(memory=False, erasing=False))
def test_unreadable_facts_change_no_answer(steps: list[Step]) -> None:
    plain = [step for step in steps if step.command is not None]
    readable = [step for step in plain if getattr(step.command, "scope", "local") in LOCAL.scopes]
    with opened() as whole, opened() as part:
        live_through(whole, plain)
        live_through(part, readable)
        at_us = plain[-1].at_us if plain else START_US
        assert _seen(whole, at_us) == _seen(part, at_us)


def _seen(node: Node, at_us: int) -> list[object]:
    """Everything that a caller of scope local can see."""
    view = node.reader.pin()
    moment = Moment(view.position, at_us)
    slots = known(view, LOCAL, moment)
    standing = set(live(view, LOCAL, moment).tolist())
    rows = node.reader.rows([int(view.from_position[slot]) for slot in slots])
    return [
        [
            (row.entity, row.relation, row.value_v, row.source, slot in standing)
            for row, slot in zip(rows, slots.tolist(), strict=True)
        ],
        view.confidence(slots, moment).tolist(),
        view.trust(slots, moment).tolist(),
        are_contradicted(view, slots, moment, LOCAL).tolist(),
        # One declaration may open several at once, in the order of random names.
        sorted(_said(view, each) for each in shown(node, moment, LOCAL)),
    ]


def _said(view: View, each: Conflict) -> tuple[object, ...]:
    return (
        view.entities.text(int(view.entity[each.newer])),
        view.relations.text(int(view.relation[each.newer])),
        int(view.hlc[each.newer] - view.hlc[each.older]) > 0,
    )
