"""The protocol's published Python SDK, unmodified, against a real node process."""

import asyncio
from collections.abc import Iterator

import pytest
from stigmem import (
    AsyncStigmemClient,
    Fact,
    RecallWeights,
    StigmemAuthError,
    StigmemClient,
    StigmemConflictError,
    StigmemNotFoundError,
    boolean_value,
    datetime_value,
    null_value,
    number_value,
    ref_value,
    string_value,
    text_value,
    verify_fact_chain_proof,
    verify_fact_cid,
)

from tests.worlds.processes import NodeProcess, create_key, serving

KEY = "sdk-key-" + "x" * 40
SOURCE = "stigmem://acme.example/agent/hr"
VALUES = (
    string_value("CEO"),
    text_value("Ann leads Atlas and keeps the ledger."),
    number_value(42),
    number_value(0.1),
    boolean_value(True),
    datetime_value("2026-01-31T12:00:00Z"),
    ref_value("stigmem://acme.example/project/atlas"),
    null_value(),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("sdk") / "data"
    source = "stigmem://acme.example/*"
    create_key(data, KEY, "agent:hr", "read", "write", "federate", source=source)
    with serving(data) as process:
        yield process


@pytest.fixture
def client(node: NodeProcess) -> Iterator[StigmemClient]:
    with StigmemClient(node.url, api_key=KEY) as opened:
        yield opened


def entity(name: str) -> str:
    return f"stigmem://acme.example/user/{name}"


def verified(facts: list[Fact]) -> list[Fact]:
    for fact in facts:
        assert fact.cid is not None
        verify_fact_cid(fact)
    return facts


def test_the_sdk_reads_what_the_node_is(client: StigmemClient, node: NodeProcess) -> None:
    info = client.node_info()
    assert (info.auth, info.federation) == ("required", "disabled")
    assert info.node_url == node.url
    assert info.node_id.startswith("stigmem:node:")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.type}")
def test_every_value_type_comes_back_and_verifies(client: StigmemClient, value: object) -> None:
    kind = value.type  # pyright: ignore[reportAttributeAccessIssue]
    written = client.assert_fact(entity(f"v-{kind}"), f"memory:{kind}", value, SOURCE)  # pyright: ignore[reportArgumentType]
    verified([written])
    (read,) = verified([client.get(written.id)])
    assert read.value == written.value
    assert read.cid == written.cid


def test_query_pages_through_all_facts(client: StigmemClient) -> None:
    for n in range(7):
        client.assert_fact(entity("pager"), "rel:knows", ref_value(entity(f"p{n}")), SOURCE)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = client.query(entity=entity("pager"), scope="company", cursor=cursor, limit=3)
        assert page.total == 7
        seen += [fact.id for fact in verified(page.facts)]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 7


def test_retract_ends_the_fact_and_keeps_its_record(client: StigmemClient) -> None:
    stated = client.assert_fact(entity("leaver"), "memory:role", string_value("CTO"), SOURCE)
    marker = client.retract(entity("leaver"), "memory:role", "company", SOURCE)
    assert marker.confidence == 0.0
    assert client.query(entity=entity("leaver")).facts == []
    assert client.get(marker.id).confidence == 0.0
    assert client.get(stated.id).id == stated.id


def test_conflicts_are_listed_and_resolved_once(client: StigmemClient) -> None:
    facts = [
        client.assert_fact(entity("split"), "memory:city", string_value(city), SOURCE)
        for city in ("Oslo", "Bergen")
    ]
    assert client.query(entity=entity("split")).facts == []
    both = client.query(entity=entity("split"), include_contradicted=True)
    assert [fact.contradicted for fact in verified(both.facts)] == [True, True]
    ids = {fact.id for fact in facts}
    (conflict,) = [
        each
        for each in client.list_conflicts(status="unresolved").conflicts
        if {each.fact_a.id, each.fact_b.id} == ids
    ]
    resolution = client.resolve_conflict(
        conflict.conflict_id, winning_fact_id=facts[1].id, resolution_note="moved"
    )
    assert resolution.conflict_status == "resolved"
    (shown,) = verified(client.query(entity=entity("split")).facts)
    assert shown.value.v == "Bergen"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(StigmemConflictError):
        client.resolve_conflict(conflict.conflict_id, winning_fact_id=facts[1].id)


def test_recall_answers_with_proof_and_weights(client: StigmemClient) -> None:
    client.assert_fact(
        entity("cook"), "memory:summary", text_value("Bo cooks the best ramen."), SOURCE
    )
    answer = client.recall(
        "who cooks ramen?",
        scope="company",
        weights=RecallWeights(),
        verify_full=True,
        session_id="sdk-session",
    )
    assert answer.facts
    best = answer.facts[0].fact
    assert best.entity == entity("cook")
    verified([scored.fact for scored in answer.facts])
    assert answer.tokens_used == sum(scored.token_estimate for scored in answer.facts)
    assert answer.chain_proof is not None
    verify_fact_chain_proof(answer.chain_proof)


def test_recall_in_the_legacy_format(client: StigmemClient) -> None:
    client.assert_fact(entity("legacy"), "memory:summary", text_value("Old zebra format."), SOURCE)
    answer = client.recall("zebra format", scope="company", legacy_format=True)
    assert [scored.fact.entity for scored in answer.facts][:1] == [entity("legacy")]


def test_subscribe_scope_delivers_and_stops(client: StigmemClient) -> None:
    client.assert_fact(entity("watched"), "memory:role", string_value("CFO"), SOURCE)
    batches: list[list[Fact]] = []
    stop = asyncio.Event()

    def take(batch: list[Fact]) -> None:
        batches.append(batch)
        stop.set()

    client.subscribe_scope("company", take, interval_s=0.01, stop_event=stop)
    assert verified(batches[0])


def test_federation_status_is_an_empty_list(client: StigmemClient) -> None:
    assert client.federation_status() == []


def test_errors_have_the_sdks_types(client: StigmemClient, node: NodeProcess) -> None:
    with pytest.raises(StigmemNotFoundError):
        client.get("0b7c3a5e-0000-4000-8000-000000000000")
    with StigmemClient(node.url, api_key="y" * 40) as stranger, pytest.raises(StigmemAuthError):
        stranger.query()


def test_the_async_client_does_the_same(node: NodeProcess) -> None:
    asyncio.run(_drive_async(node.url))


async def _drive_async(url: str) -> None:
    async with AsyncStigmemClient(url, api_key=KEY) as client:
        assert (await client.node_info()).auth == "required"
        stated = await client.assert_fact(
            entity("async"), "memory:summary", text_value("Ida paints lighthouses."), SOURCE
        )
        rival = await client.assert_fact(
            entity("async"), "memory:summary", text_value("Ida paints barns."), SOURCE
        )
        verified([stated, rival, await client.get(stated.id)])
        page = await client.query(entity=entity("async"), include_contradicted=True)
        assert len(verified(page.facts)) == page.total == 2
        conflicts = await client.list_conflicts(status="unresolved")
        (conflict,) = [
            each
            for each in conflicts.conflicts
            if {each.fact_a.id, each.fact_b.id} == {stated.id, rival.id}
        ]
        await client.resolve_conflict(conflict.conflict_id, winning_fact_id=stated.id)
        answer = await client.recall("who paints lighthouses", scope="company", verify_full=True)
        assert verified([scored.fact for scored in answer.facts])[0].id == stated.id
        assert answer.chain_proof is not None
        verify_fact_chain_proof(answer.chain_proof)
        legacy = await client.recall("lighthouses", scope="company", legacy_format=True)
        assert legacy.facts
        stop = asyncio.Event()
        async for batch in client.subscribe_scope(
            "company", lambda facts: None, interval_s=0.01, stop_event=stop
        ):
            assert verified(batch)
            stop.set()
        marker = await client.retract(entity("async"), "memory:summary", "company", SOURCE)
        assert marker.confidence == 0.0
        assert await client.federation_status() == []
