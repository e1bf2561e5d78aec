"""Stargraph's own code and cases over a node."""

import asyncio
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from engramlog import AsyncMemory, stargraph
from engramlog.stargraph import (
    AddDelta,
    ConsolidationRule,
    ConsolidationRuleError,
    DeleteDelta,
    Episode,
    EpisodeConflict,
    Fact,
    FactConflictError,
    FactPattern,
    FactStore,
    MemoryDelta,
    MemoryScopeError,
    MemoryStore,
    Migration,
    MigrationNotSupported,
    MigrationPlan,
    NodeFactStore,
    NodeMemoryStore,
    NoopDelta,
    RuleBasedScorer,
    SalienceContext,
    SalienceScorer,
    UpdateDelta,
)

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count(1)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsyncMemory]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIGMEM_EMBED_ENABLED", "false")
        opened = AsyncMemory(tmp_path_factory.mktemp("stargraph") / "memory")
        wait(opened.requests.transport())
        yield opened
        wait(opened.close())


@pytest.fixture
def user() -> str:
    """A user without facts."""
    return f"Alice{next(_numbers)}"


def wait(work: Awaitable[Any]) -> Any:
    async def done() -> Any:
        return await work

    return asyncio.run(done())


def origin(**fields: Any) -> dict[str, Any]:
    return {
        "source_episode_ids": ["ep-1"], "promotion_ts": WHEN, "rule_id": "r",
        "confidence": 1.0, **fields,
    }  # fmt: skip


def payload(user: str, id: str, drink: str) -> dict[str, Any]:
    said = {"subject": "self", "predicate": "drinks", "object": drink}
    return {"id": f"{user}-{id}", "user": user, "agent": "rag", **said}


class Seed:
    """The models as Stargraph's page prints them, word for word."""

    class AddDelta(BaseModel):
        kind: Literal["add"]
        fact_payload: dict[str, Any]
        source_episode_ids: list[str]
        promotion_ts: datetime
        rule_id: str
        confidence: float

    class UpdateDelta(BaseModel):
        kind: Literal["update"]
        replaces: list[str]  # required
        fact_payload: dict[str, Any]
        source_episode_ids: list[str]
        promotion_ts: datetime
        rule_id: str
        confidence: float

    class DeleteDelta(BaseModel):
        kind: Literal["delete"]
        replaces: list[str]  # required
        source_episode_ids: list[str]
        promotion_ts: datetime
        rule_id: str
        confidence: float

    class NoopDelta(BaseModel):
        kind: Literal["noop"]
        source_episode_ids: list[str]
        promotion_ts: datetime
        rule_id: str
        confidence: float

    MemoryDelta = Annotated[
        AddDelta | UpdateDelta | DeleteDelta | NoopDelta,
        Field(discriminator="kind"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["AddDelta", "UpdateDelta", "DeleteDelta", "NoopDelta"])
def test_a_delta_has_the_fields_that_the_page_prints(name: str) -> None:
    printed, ours = getattr(Seed, name), getattr(stargraph, name)
    assert list(ours.model_fields) == list(printed.model_fields)
    for field, wanted in printed.model_fields.items():
        assert ours.model_fields[field].annotation == wanted.annotation
        assert ours.model_fields[field].is_required() or field == "kind"


def test_the_union_reads_data_in_the_printed_form() -> None:
    both = (TypeAdapter[Any](Seed.MemoryDelta), TypeAdapter[Any](MemoryDelta))
    for kind, more in (
        ("add", {"fact_payload": {"id": "f"}}), ("update", {"fact_payload": {}, "replaces": ["x"]}),
        ("delete", {"replaces": ["x"]}), ("noop", {}),
    ):  # fmt: skip
        body = {"kind": kind, **origin(), **more}
        printed, ours = (union.validate_python(body) for union in both)
        assert both[1].validate_json(printed.model_dump_json()) == ours
        assert ours.model_dump() == printed.model_dump()
        for missing in body:
            short = {name: value for name, value in body.items() if name != missing}
            for union in both:
                with pytest.raises(ValidationError):
                    union.validate_python(short)


def test_the_stores_implement_the_protocols(memory: AsyncMemory) -> None:
    episodes, facts = NodeMemoryStore(memory), NodeFactStore(memory)
    assert isinstance(episodes, MemoryStore)
    assert isinstance(facts, FactStore)
    for store in (episodes, facts):
        wait(store.bootstrap())
        wait(store.bootstrap())
        health = wait(store.health())
        assert (health.ok, health.warnings) == (True, [])


def test_reads_widen_as_the_page_says(memory: AsyncMemory, user: str) -> None:
    store = NodeMemoryStore(memory)

    async def put(id: str, session: str, agent: str, minutes: int, who: str = user) -> None:
        at = WHEN + timedelta(minutes=minutes)
        episode = Episode(id=f"{user}-{id}", content=id, timestamp=at, metadata={"n": minutes})
        await store.put(episode, user=who, session=session, agent=agent)

    async def story() -> list[list[str]]:
        await put("a", "S1", "rag", 1)
        await put("b", "S2", "rag", 2)
        await put("c", "S2", "summarizer", 3)
        await put("d", "S1", "rag", 4, who=f"{user}2")
        return [
            [each.content for each in found]
            for found in (
                await store.recent(user, "S1", "rag", limit=10),
                await store.recent(user, agent="rag", limit=10),
                await store.recent(user, limit=10),
                await store.recent(user, limit=1),
                await store.recent("%", limit=10),
            )
        ]

    assert wait(story()) == [["a"], ["b", "a"], ["c", "b", "a"], ["c"], []]
    (found,) = wait(store.recent(user, "S1", limit=10))
    assert (found.timestamp, found.user, found.session) == (WHEN + timedelta(minutes=1), user, "S1")
    assert found.metadata == {"n": 1}


def test_an_episode_put_again_is_the_same_one(memory: AsyncMemory, user: str) -> None:
    """Also one that does not say when it happened: each try comes at another time."""
    store = NodeMemoryStore(memory)
    undated = Episode(id=f"{user}-1", content="hi")
    dated = Episode(id=f"{user}-2", content="ho", timestamp=datetime(2026, 1, 1))  # in UTC
    for episode in (undated, undated, dated, dated):
        wait(store.put(episode, user=user, session="S", agent="rag"))
    assert [e.content for e in wait(store.recent(user, limit=5))] == ["hi", "ho"]
    assert wait(store.recent(user, limit=5))[1].timestamp == WHEN
    with pytest.raises(EpisodeConflict):
        wait(store.put(undated.model_copy(update={"content": "x"}), user=user, session="S",
                       agent="rag"))  # fmt: skip
    with pytest.raises(MemoryScopeError):
        wait(store.put(undated, user="", session="S", agent="rag"))


def test_a_store_uses_its_scope_alone(memory: AsyncMemory, user: str) -> None:
    team = NodeMemoryStore(memory, scope="team")
    wait(team.put(Episode(id=user, content="x"), user=user, session="S", agent="a"))
    assert wait(NodeMemoryStore(memory).recent(user, limit=5)) == []
    assert len(wait(team.recent(user, limit=5))) == 1


def fact(user: str, **fields: Any) -> Fact:
    whole: dict[str, Any] = {
        "id": f"{user}-f", "user": user, "agent": "rag", "payload": payload(user, "f", "tea"),
        "lineage": [{"rule_id": "r", "source_episode_ids": ["ep-1"], "run_id": "run-1"}],
        "confidence": 1.0, "pinned_at": WHEN, **fields,
    }  # fmt: skip
    return Fact(**whole)


def test_a_pinned_fact_comes_back_and_an_unpinned_one_does_not(
    memory: AsyncMemory, user: str
) -> None:
    store = NodeFactStore(memory)
    wait(store.pin(fact(user)))
    (found,) = wait(store.query(FactPattern(user=user)))
    assert (found.id, found.payload["object"], found.pinned_at) == (f"{user}-f", "tea", WHEN)
    assert found.lineage[0]["source_episode_ids"] == ["ep-1"]
    assert wait(store.query(FactPattern(user=user, object="coffee"))) == []
    assert wait(store.query(FactPattern(user=user.lower()))) == []
    assert len(wait(store.query(FactPattern(user=user, agent="rag", subject="self")))) == 1
    wait(store.unpin(f"{user}-f"))
    assert wait(store.query(FactPattern(user=user))) == []
    wait(store.unpin(f"{user}-f"))
    wait(store.unpin("never"))
    with pytest.raises(MemoryScopeError, match="user is required"):
        wait(store.query(FactPattern(subject="self")))


@pytest.mark.parametrize("named", [True, False])
def test_a_pinned_fact_comes_back_as_it_was(memory: AsyncMemory, user: str, named: bool) -> None:
    store = NodeFactStore(memory)
    steps = [{"triple_id": "s|p|o", "promotion_ts": "2026-01-01"}, {"rule_id": "r"}]
    given = {"subject": "self", "predicate": "drinks", "object": "tea", "note": "green"}
    if named:
        given["id"] = f"{user}-f"
    pinned = fact(user, payload=given, lineage=steps, metadata={"seen": 2})
    wait(store.pin(pinned))
    wait(store.pin(pinned))
    assert wait(store.query(FactPattern(user=user))) == [pinned]
    surer = pinned.model_copy(update={"confidence": 0.9})
    wait(store.pin(surer))
    assert wait(store.query(FactPattern(user=user))) == [surer]


def test_a_query_finds_all_facts_of_its_scope(
    memory: AsyncMemory, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.python.stargraph.node_stores.PAGE", 2)
    store, team = NodeFactStore(memory), NodeFactStore(memory, scope="team")
    for n in range(5):
        drink = {"payload": payload(user, f"{n}", f"tea {n}")}
        wait(team.pin(fact(user, id=f"{user}-team-{n}", **drink)))
        wait(store.pin(fact(user, id=f"{user}-{n}", **drink)))
    found = wait(store.query(FactPattern(user=user)))
    assert [each.payload["object"] for each in found] == [f"tea {n}" for n in range(5)]


@pytest.mark.parametrize(
    "wrong", [{"lineage": []}, {"confidence": -3.0}, {"confidence": 5.0}, {"confidence": 0.0},
              {"confidence": float("nan")}],
)  # fmt: skip
def test_invalid_pins_are_refused(memory: AsyncMemory, user: str, wrong: dict[str, Any]) -> None:
    store = NodeFactStore(memory)
    with pytest.raises(ConsolidationRuleError):
        wait(store.pin(fact(user, **wrong)))
    assert wait(store.query(FactPattern(user=user))) == []


def test_the_life_of_deltas(memory: AsyncMemory, user: str) -> None:
    store = NodeFactStore(memory)
    first, second = payload(user, "f-1", "tea"), payload(user, "f-2", "coffee")
    names = [first["id"], second["id"]]
    sources = {"source_episode_ids": [f"{user}-ep"]}
    episode = Episode(id=f"{user}-ep", content="no more coffee")
    wait(NodeMemoryStore(memory).put(episode, user=user, session="S", agent="rag"))
    steps = [
        (AddDelta(fact_payload=first, **origin()), ["tea"]),
        (UpdateDelta(fact_payload=second, replaces=names[:1], **origin()), ["coffee"]),
        (NoopDelta(**origin(**sources)), ["coffee"]),
        (DeleteDelta(replaces=names[1:], **origin(**sources)), []),
    ]
    for delta, standing in steps:
        wait(store.apply_delta(delta))
        found = wait(store.query(FactPattern(user=user)))
        assert [each.payload["object"] for each in found] == standing


def test_a_delta_finds_its_owner_from_the_replaced_facts(memory: AsyncMemory, user: str) -> None:
    store = NodeFactStore(memory)
    wait(store.apply_delta(AddDelta(fact_payload=payload(user, "f", "tea"), **origin())))
    wait(store.apply_delta(DeleteDelta(replaces=[f"{user}-f"], **origin())))
    assert wait(store.query(FactPattern(user=user))) == []
    with pytest.raises(MemoryScopeError, match="user and agent are required"):
        wait(store.apply_delta(NoopDelta(**origin(source_episode_ids=["no-such-episode"]))))
    shared = {"id": "shared", "content": "x"}
    for agent in ("a", "b"):
        owned = NodeFactStore(memory, user=user, agent=agent)
        wait(owned.apply_delta(AddDelta(fact_payload=shared, **origin())))
    with pytest.raises(FactConflictError, match="several users or agents") as conflict:
        wait(store.unpin("shared"))
    assert conflict.value.reason == "scope_mismatch"
    wait(NodeFactStore(memory, user=user, agent="a").unpin("shared"))
    assert [each.agent for each in wait(store.query(FactPattern(user=user)))] == ["b"]


def test_conflicts_and_violations_have_types(memory: AsyncMemory, user: str) -> None:
    store = NodeFactStore(memory)
    stated = payload(user, "f", "x")
    with pytest.raises(FactConflictError) as conflict:
        wait(store.apply_delta(UpdateDelta(fact_payload=stated, replaces=["nope"], **origin())))
    assert conflict.value.reason == "missing"
    for wrong, violation in (
        ({"source_episode_ids": []}, "source_episode_ids must be non-empty"),
        ({"rule_id": ""}, "rule_id must be non-empty"),
        ({"confidence": float("inf")}, "confidence must be finite"),
    ):
        with pytest.raises(ConsolidationRuleError) as fault:
            wait(store.apply_delta(AddDelta(fact_payload=stated, **origin(**wrong))))
        assert (fault.value.violation, fault.value.delta_type) == (violation, "add")
    with pytest.raises(ConsolidationRuleError) as fault:
        wait(store.apply_delta(DeleteDelta(replaces=[], **origin())))
    assert fault.value.violation == "replaces must be non-empty for update/delete"
    assert wait(store.query(FactPattern(user=user))) == []


@pytest.mark.parametrize(
    "change",
    [
        Migration(operation="narrow", column="content"),
        Migration(operation="rename", column="content"),
        Migration(operation="drop", column="content"),
        Migration(operation="add", column="mood", nullable=False),
    ],
)
def test_only_nullable_columns_can_be_added(memory: AsyncMemory, change: Migration) -> None:
    for store in (NodeMemoryStore(memory), NodeFactStore(memory)):
        with pytest.raises(MigrationNotSupported):
            wait(store.migrate(MigrationPlan(changes=[change])))
        wait(store.migrate(MigrationPlan(changes=[Migration(operation="add", column="mood")])))


def test_one_store_applies_deltas_that_the_other_consolidates(
    memory: AsyncMemory, user: str
) -> None:
    episodes, facts = NodeMemoryStore(memory, scope="team"), NodeFactStore(memory, scope="team")
    metadata = {"subject": "self", "predicate": "drinks", "object": "tea"}
    said = Episode(id=f"{user}-1", content="I drink tea", timestamp=WHEN, metadata=metadata)
    quiet = Episode(id=f"{user}-2", content="mm", timestamp=WHEN, metadata={"intent": "noop"})
    for episode in (said, quiet):
        wait(episodes.put(episode, user=user, session="S", agent="rag"))
    rule = ConsolidationRule(id=user, cadence={"every": 1}, then_emits=["add"])
    made = [
        delta for delta in wait(episodes.consolidate(rule))
        if delta.source_episode_ids[0].startswith(user)
    ]  # fmt: skip
    assert [type(delta) for delta in made] == [AddDelta]
    wait(facts.apply_delta(made[0]))
    (found,) = wait(facts.query(FactPattern(user=user)))
    assert found.payload["object"] == "tea"
    with pytest.raises(ConsolidationRuleError, match="SQL"):
        wait(episodes.consolidate(rule.model_copy(update={"when_filter": "1 = 1"})))


def test_salience_is_bounded_and_falls_with_age() -> None:
    scorer, episode = RuleBasedScorer(), Episode(id="e", content="x")
    assert isinstance(scorer, SalienceScorer)
    now = datetime.now(UTC)
    scores = [
        wait(scorer.score(episode, SalienceContext(
            last_access_ts=now - timedelta(days=days), access_count=20, rule_match_count=9,
        )))
        for days in (-1, 0, 1, 2, 400)
    ]  # fmt: skip
    assert scores == sorted(scores, reverse=True)
    assert scores[1] > scores[2] > scores[3]
    assert all(0.0 <= score <= 1.0 for score in scores)


@pytest.mark.parametrize("weights", [{}, {"relevance": 1.0}, {"recency": 0.0}])
def test_an_absent_weight_is_0(weights: dict[str, float]) -> None:
    context = SalienceContext(
        last_access_ts=datetime.now(UTC), access_count=20, rule_match_count=9, weights=weights
    )
    assert wait(RuleBasedScorer().score(Episode(id="e", content="x"), context)) == 0.0
