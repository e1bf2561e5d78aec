"""Both stores over a node, as a program uses them: the protocol's own cases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engramlog.api.node.memory_stores import NodeFactStore, NodeMemoryStore, Standpoint
from engramlog.api.node.node import Node
from engramlog.projections.episodes.delta import (
    AddDelta,
    ConsolidationRuleError,
    DeleteDelta,
    FactConflictError,
    MemoryDelta,
    NoopDelta,
    UpdateDelta,
)
from engramlog.projections.episodes.episode import Episode, FactPattern, MemoryFact
from engramlog.projections.episodes.rule import Rule, parse_rule
from engramlog.projections.episodes.salience import SalienceContext
from engramlog.projections.episodes.stores import (
    EpisodeConflict,
    FactStore,
    MemoryStore,
    Migration,
    MigrationNotSupported,
    MigrationPlan,
)
from engramlog.projections.memories.place import MemoryScopeError

WHEN_US = 1_767_225_600_000_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    yield node
    node.close()


def wait(work: Awaitable[Any]) -> Any:
    async def done() -> Any:
        return await work

    return asyncio.run(done())


def origin(**fields: Any) -> dict[str, Any]:
    return {
        "source_episode_ids": ["ep-1"], "promotion_us": WHEN_US, "rule_id": "r",
        "confidence": 1.0, **fields,
    }  # fmt: skip


def payload(id: str, drink: str) -> dict[str, Any]:
    return {"id": id, "subject": "self", "predicate": "drinks", "object": drink}


def pinned(**fields: Any) -> MemoryFact:
    whole: dict[str, Any] = {
        "id": "f-1", "fact_id": "", "user": "Alice", "agent": "rag", "scope": "local",
        "garden_id": None, "payload": payload("f-1", "tea"), "confidence": 1.0,
        "pinned_us": WHEN_US, "version": 1, "delta_id": "",
        "lineage": [{"rule_id": "r", "source_episode_ids": ["ep-1"], "run_id": "run-1",
                     "promotion_ts": "2026-01-01T00:00:00Z"}],
        **fields,
    }  # fmt: skip
    return MemoryFact(**whole)


ALICE = FactPattern(user="Alice")


def test_the_stores_are_what_the_protocols_say(node: Node) -> None:
    memory, facts = NodeMemoryStore(node), NodeFactStore(node)
    assert isinstance(memory, MemoryStore)
    assert isinstance(facts, FactStore)
    for store in (memory, facts):
        wait(store.bootstrap())
        wait(store.bootstrap())
        health = wait(store.health())
        assert (health.ok, health.warnings) == (True, [])


def test_episodes_are_put_with_three_names_and_read_by_fewer(node: Node) -> None:
    store = NodeMemoryStore(node)
    episode = Episode(id="ep-a", content="hi", at_us=WHEN_US, metadata={"intent": "noop"})
    wait(store.put(episode, user="Alice", session="S1", agent="rag"))
    later = Episode(id="ep-b", content="ho", at_us=WHEN_US + 1)
    wait(store.put(later, user="Alice", session="S2", agent="summarizer"))
    wait(store.put(Episode(id="x", content="", at_us=0), user="Alice2", session="S", agent="a"))
    assert [e.id for e in wait(store.recent("Alice", limit=10))] == ["ep-b", "ep-a"]
    assert [e.id for e in wait(store.recent("Alice", "S1", limit=10))] == ["ep-a"]
    assert [e.id for e in wait(store.recent("Alice", agent="rag", limit=10))] == ["ep-a"]
    (found,) = wait(store.recent("Alice", "S1", "rag", limit=10))
    assert (found.metadata, found.at_us) == ({"intent": "noop"}, WHEN_US)
    wait(store.put(episode, user="Alice", session="S1", agent="rag"))
    with pytest.raises(EpisodeConflict):
        wait(store.put(episode, user="Bob", session="S1", agent="rag"))
    with pytest.raises(MemoryScopeError):
        wait(store.put(episode, user="", session="S1", agent="rag"))


def test_a_store_stands_in_its_scope_alone(node: Node) -> None:
    team = NodeMemoryStore(node, Standpoint(scope="team"))
    wait(team.put(Episode(id="e", content="x", at_us=0), user="A", session="S", agent="a"))
    assert wait(NodeMemoryStore(node).recent("A", limit=5)) == []
    assert len(wait(team.recent("A", limit=5))) == 1


def test_a_pinned_fact_comes_back_whole_and_an_unpinned_one_does_not(node: Node) -> None:
    store = NodeFactStore(node)
    wait(store.pin(pinned()))
    (fact,) = wait(store.query(ALICE))
    assert (fact.payload, fact.lineage) == (pinned().payload, pinned().lineage)
    assert wait(store.query(FactPattern(user="Alice", object="coffee"))) == []
    assert wait(store.query(FactPattern(user="alice"))) == []
    wait(store.unpin("f-1", user="Alice", agent="rag"))
    assert wait(store.query(ALICE)) == []
    wait(store.unpin("f-1", user="Alice", agent="rag"))
    wait(store.unpin("never", user="Alice", agent="rag"))


@pytest.mark.parametrize(
    "wrong", [{"lineage": []}, {"confidence": -3.0}, {"confidence": 5.0}, {"confidence": 0.0},
              {"confidence": float("nan")}],
)  # fmt: skip
def test_pins_without_lineage_or_sense_are_refused(node: Node, wrong: dict[str, Any]) -> None:
    store = NodeFactStore(node)
    before = node.log.head().position
    with pytest.raises(ValueError):
        wait(store.pin(pinned(**wrong)))
    assert node.log.head().position == before


def test_the_life_of_deltas(node: Node) -> None:
    store = NodeFactStore(node)
    steps: list[tuple[MemoryDelta, int]] = [
        (AddDelta(fact_payload=payload("f-1", "tea"), **origin()), 1),
        (UpdateDelta(fact_payload=payload("f-2", "coffee"), replaces=["f-1"], **origin()), 1),
        (NoopDelta(**origin()), 1),
        (DeleteDelta(replaces=["f-2"], **origin()), 0),
    ]
    for delta, standing in steps:
        wait(store.apply_delta(delta, user="Alice", agent="rag"))
        assert len(wait(store.query(ALICE))) == standing


def test_conflicts_and_violations_are_told_by_type(node: Node) -> None:
    store = NodeFactStore(node)
    missing = UpdateDelta(fact_payload=payload("f-2", "x"), replaces=["nope"], **origin())
    with pytest.raises(FactConflictError) as conflict:
        wait(store.apply_delta(missing, user="Alice", agent="rag"))
    assert conflict.value.reason == "missing"
    empty = AddDelta(fact_payload=payload("f-1", "x"), **origin(source_episode_ids=[]))
    with pytest.raises(ConsolidationRuleError) as violation:
        wait(store.apply_delta(empty, user="Alice", agent="rag"))
    assert violation.value.violation == "source_episode_ids must be non-empty"
    assert (violation.value.delta_type, violation.value.rule_id) == ("add", "r")
    for confidence in (5.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConsolidationRuleError):
            wait(store.apply_delta(NoopDelta(**origin(confidence=confidence)), user="A", agent="a"))
    assert wait(store.query(ALICE)) == []


def test_the_union_tells_deltas_apart_by_kind() -> None:
    base = {"source_episode_ids": ["e"], "promotion_us": 1, "rule_id": "r", "confidence": 1.0}
    for kind, more, shape in (
        ("add", {"fact_payload": {}}, AddDelta),
        ("update", {"fact_payload": {}, "replaces": ["x"]}, UpdateDelta),
        ("delete", {"replaces": ["x"]}, DeleteDelta),
        ("noop", {}, NoopDelta),
    ):
        body = {"kind": kind, **base, **more}
        assert type(msgspec.convert(body, MemoryDelta)) is shape
        for field in (*base, *more):
            short = {name: value for name, value in body.items() if name != field}
            with pytest.raises(msgspec.ValidationError, match=field):
                msgspec.convert(short, MemoryDelta)
    assert not hasattr(NoopDelta(**origin()), "replaces")


@pytest.mark.parametrize(
    "change",
    [
        Migration("narrow", "content"), Migration("rename", "content"),
        Migration("drop", "content"),
        Migration("add", "mood", nullable=False),
    ],
)  # fmt: skip
def test_only_columns_that_may_be_empty_can_be_added(node: Node, change: Migration) -> None:
    for store in (NodeMemoryStore(node), NodeFactStore(node)):
        with pytest.raises(MigrationNotSupported):
            wait(store.migrate(MigrationPlan([change])))
        wait(store.migrate(MigrationPlan([Migration("add", "mood")])))


SCORES = {"ep-0": 0.9, "ep-1": 0.8, "ep-2": 0.1, "ep-3": 0.05}


class Table:
    """A scorer that looks scores up by id."""

    async def score(self, memory: Episode, context: SalienceContext) -> float:
        return SCORES[memory.id]


@pytest.mark.parametrize(
    ("threshold", "admitted"), [(0.5, ["ep-0", "ep-1"]), (0.0, sorted(SCORES)), (1.0, [])]
)
def test_salience_gates_with_any_scorer(node: Node, threshold: float, admitted: list[str]) -> None:
    store = NodeMemoryStore(node, scorer=Table())
    for n in range(4):
        episode = Episode(id=f"ep-{n}", content=f"{n}", at_us=WHEN_US + n)
        wait(store.put(episode, user="Alice", session="S", agent="rag"))
    rule: Rule = parse_rule(
        {"id": "r", "cadence": {"every": 1}, "salience": {"threshold": threshold}}
    )
    proposals = wait(store.consolidate(rule))
    assert [p.delta.source_episode_ids for p in proposals] == [[name] for name in admitted]


def test_proposals_of_one_store_are_applied_by_the_other(node: Node) -> None:
    memory, facts = NodeMemoryStore(node), NodeFactStore(node)
    metadata = {"subject": "self", "predicate": "drinks", "object": "tea"}
    episode = Episode(id="ep-1", content="I drink tea", at_us=WHEN_US, metadata=metadata)
    wait(memory.put(episode, user="Alice", session="S", agent="rag"))
    apply: Callable[..., Awaitable[None]] = facts.apply_delta
    for proposal in wait(memory.consolidate(parse_rule({"id": "r", "cadence": {"every": 1}}))):
        wait(apply(proposal.delta, user=proposal.place.user, agent=proposal.place.agent))
    (fact,) = wait(facts.query(ALICE))
    assert fact.payload["object"] == "tea"
    assert fact.lineage[0]["source_episode_ids"] == ["ep-1"]
