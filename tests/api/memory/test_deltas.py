"""Deltas over HTTP: their facts, their refusals, and the lineage from a fact to its episodes."""

from collections.abc import Callable
from typing import Any

import pytest

from engramlog.projections.episodes.reading_deltas import memory_facts_at
from engramlog.projections.moment import LIVE
from tests.worlds.counted_work import sql_work
from tests.worlds.garden_requests import create_garden
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.memory_requests import apply, delta, facts, objects


def refusal(live: LiveNode, *deltas: dict[str, Any], **fields: Any) -> tuple[int, str]:
    answer = apply(live, *deltas, **fields)
    return answer.status_code, answer.json()["detail"]["reason"]


def test_a_life_of_deltas_leaves_one_fact_then_none(live: LiveNode) -> None:
    assert apply(live, delta("add", id="f-1")).json()["results"][0]["status"] == "applied"
    assert objects(live) == ["tea"]
    assert apply(live, delta("update", id="f-2", object="coffee", replaces=["f-1"])).is_success
    assert objects(live) == ["coffee"]
    assert apply(live, delta("noop")).is_success
    assert objects(live) == ["coffee"]
    assert apply(live, delta("delete", replaces=["f-2"])).is_success
    assert objects(live) == []


def test_a_noop_is_on_record(live: LiveNode) -> None:
    before = live.node.log.head().position
    apply(live, delta("noop"))
    assert live.node.log.head().position == before + 1
    (shown,) = live.call("GET", "/v1/deltas", params={"user": "Alice"}).json()["deltas"]
    assert (shown["kind"], shown["fact_id"], shown["rule_id"]) == ("noop", None, "by-hand")


def test_a_pinned_fact_comes_back_with_its_lineage(live: LiveNode) -> None:
    payload = {"id": "f-1", "subject": "self", "predicate": "age", "object": 41, "unit": "years"}
    apply(live, delta("add", payload=payload, sources=["ep-1", "ep-2"]), run_id="run-7", step=3)
    (fact,) = facts(live)
    assert fact["payload"] == payload
    assert fact["lineage"] == [
        {
            "rule_id": "by-hand",
            "source_episode_ids": ["ep-1", "ep-2"],
            "promotion_ts": "2026-01-01T00:00:00.000000+00:00",
            "run_id": "run-7",
        }
    ]
    assert fact["provenance"] == {
        "origin": "delta",
        "source": "by-hand",
        "run_id": "run-7",
        "step": "3",
        "confidence": "1.0",
        "timestamp": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize("value", ["a text", True, False, 7, 2.5, -3])
def test_objects_keep_their_type(live: LiveNode, value: Any) -> None:
    apply(live, delta("add", id="f-1", object=value))
    (found,) = objects(live)
    assert (found, type(found)) == (value, type(value))


def test_a_fact_leads_back_to_the_hashes_of_its_episodes(live: LiveNode) -> None:
    episode = live.call(
        "POST",
        "/v1/episodes",
        json={"user": "Alice", "session": "S", "agent": "rag", "content": "hi", "id": "ep-1"},
    ).json()
    result = apply(live, delta("add", id="f-1")).json()["results"][0]
    record = live.call("GET", f"/v1/facts/{result['fact_id']}").json()
    assert [parent["hash"] for parent in record["derived_from"]] == [f"sha256:{episode['hash']}"]
    shown = live.call("GET", "/v1/episodes/ep-1").json()["deltas"]
    assert [each["fact_id"] for each in shown] == [result["fact_id"]]
    by_fact = live.call("GET", "/v1/deltas", params={"fact_id": result["fact_id"]}).json()
    assert by_fact["deltas"][0]["source_episode_ids"] == ["ep-1"]


def test_the_same_delta_again_changes_nothing(live: LiveNode) -> None:
    first = apply(live, delta("add", id="f-1")).json()["results"][0]
    position = live.node.log.head().position
    again = apply(live, delta("add", id="f-1")).json()["results"][0]
    assert (again["status"], again["fact_id"]) == ("known", first["fact_id"])
    assert live.node.log.head().position == position


def test_pinning_equal_content_keeps_the_fact_and_other_content_supersedes_it(
    live: LiveNode,
) -> None:
    first = apply(live, delta("add", id="f-1")).json()["results"][0]
    later = apply(live, delta("add", id="f-1", at="2026-01-02T00:00:00Z")).json()["results"][0]
    assert later["fact_id"] == first["fact_id"]
    other = apply(live, delta("add", id="f-1", object="milk")).json()["results"][0]
    assert other["retracted"] == [first["fact_id"]]
    assert objects(live) == ["milk"]


# -- conflicts ----------------------------------------------------------------------------


def test_replacing_an_absent_fact_is_a_conflict_and_writes_only_its_rejection(
    live: LiveNode,
) -> None:
    before = live.node.log.head().position
    added, missing = delta("add", id="f-0"), delta("update", id="f-2", replaces=["nope"])
    answer = apply(live, added, missing)
    assert answer.status_code == 409
    detail = answer.json()["detail"]
    assert (detail["code"], detail["reason"], detail["delta"]) == ("fact_conflict", "missing", 1)
    events = live.node.log.read(before, 10)
    assert [event.kind for event in events] == ["delta_rejected"]
    assert facts(live) == []
    (shown,) = live.call("GET", "/v1/deltas", params={"status": "rejected"}).json()["deltas"]
    assert (shown["reason"], shown["replaces"]) == ("missing", ["nope"])


def test_every_reason_of_a_conflict(live: LiveNode) -> None:
    apply(live, delta("add", id="f-1"))
    apply(live, delta("add", id="gone"), delta("delete", replaces=["gone"]))
    apply(live, delta("add", id="hers"), user="Alice", agent="other")

    def update(*names: str, **fields: Any) -> dict[str, Any]:
        return delta("update", id=fields.pop("id", "f-9"), replaces=list(names), **fields)

    assert refusal(live, update("gone")) == (409, "already_retracted")
    assert refusal(live, update("hers")) == (409, "scope_mismatch")
    assert refusal(live, update("f-1", "f-1")) == (409, "duplicate_replaces")
    (same,) = [fact["fact_id"] for fact in facts(live, agent="rag")]
    assert refusal(live, update("f-1", same)) == (409, "duplicate_replaces")
    assert refusal(live, update("f-1", id="f-1")) == (409, "self_replace")
    assert refusal(live, update("f-1"), update("f-1", id="f-8")) == (409, "batch_overlap")
    assert refusal(live, update("f-1", expected_version=2)) == (409, "stale_version")
    rival = delta("add", id="f-7", object="coffee")
    assert refusal(live, rival, single_valued=["drinks"]) == (409, "contradiction")
    both = [delta("add", id=name, object=name, predicate="wears") for name in ("hat", "cap")]
    assert refusal(live, *both, single_valued=["wears"]) == (409, "contradiction")
    assert objects(live, agent="rag") == ["tea"]


def test_versions_count_by_name(live: LiveNode) -> None:
    apply(live, delta("add", id="f-1"))
    apply(live, delta("add", id="f-1", object="milk"))
    assert [fact["version"] for fact in facts(live)] == [2]
    assert apply(live, delta("delete", replaces=["f-1"], expected_version=2)).is_success


def test_a_lenient_batch_applies_the_possible_deltas(live: LiveNode) -> None:
    answer = apply(
        live,
        delta("update", id="f-2", replaces=["nope"]),
        delta("update", id="f-3", replaces=["f-3"]),
        delta("add", id="f-4", object="milk"),
        strict=False,
    )
    results = answer.json()["results"]
    assert [result["status"] for result in results] == ["applied", "rejected", "applied"]
    assert results[0]["warnings"][0].startswith("missing")
    assert objects(live) == ["tea", "milk"]


def test_facts_are_replaced_within_their_own_user_and_scope(live: LiveNode) -> None:
    apply(live, delta("add", id="f-1"), scope="team")
    assert refusal(live, delta("delete", replaces=["f-1"]), scope="local") == (409, "missing")
    assert refusal(live, delta("delete", replaces=["f-1"]), user="Bob", scope="team") == (
        409,
        "scope_mismatch",
    )


def test_facts_come_in_pages_of_one_scope(live: LiveNode) -> None:
    for n in range(5):
        apply(live, delta("add", id=f"f-{n}", object=str(n)), scope="team")
        apply(live, delta("add", id=f"f-{n}", object=f"other {n}"), scope="local")
    query: dict[str, Any] = {"user": "Alice", "scope": "team", "predicate": "drinks", "limit": 2}
    pages: list[list[str]] = []
    while True:
        page = live.call("GET", "/v1/deltas/facts", params=query).json()
        pages.append([fact["payload"]["object"] for fact in page["facts"]])
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
        apply(live, delta("add", id="late", object="late"), scope="team")
    assert pages == [["0", "1"], ["2", "3"], ["4"]], "as of the first page"
    other = {**query, "scope": "local"}
    assert live.call("GET", "/v1/deltas/facts", params=other).status_code == 400


# -- validation at both ends --------------------------------------------------------------


def test_a_delta_without_a_mandatory_field_is_refused(live: LiveNode) -> None:
    whole = delta("update", id="f-2", replaces=["f-1"])
    for field in ("source_episode_ids", "promotion_ts", "rule_id", "confidence", "replaces"):
        body = {name: value for name, value in whole.items() if name != field}
        answer = apply(live, body)
        assert answer.status_code == 422, field
        assert answer.json()["detail"][0]["loc"][-1] == field


@pytest.mark.parametrize(
    ("body", "violation"),
    [
        (delta("add", id="f-1", sources=[]), "source_episode_ids must be non-empty"),
        (delta("add", id="f-1", rule_id=""), "rule_id must be non-empty"),
        (delta("update", id="f-1", replaces=[]), "replaces must be non-empty for update/delete"),
        (delta("delete", replaces=[]), "replaces must be non-empty for update/delete"),
    ],
)
def test_an_invalid_delta_is_refused_with_its_violation(
    refusing: LiveNode, body: dict[str, Any], violation: str
) -> None:
    answer = apply(refusing, body)
    assert answer.status_code == 422
    (entry,) = answer.json()["detail"]
    assert (entry["msg"], entry["loc"]) == (violation, ["body", "deltas", 0])


@pytest.mark.parametrize("confidence", [5.0, -0.1, "0.5", None, True])
def test_confidence_is_a_share(live: LiveNode, confidence: Any) -> None:
    assert apply(live, delta("add", id="f-1", confidence=confidence)).status_code == 422


def test_a_payload_cannot_forge_provenance(live: LiveNode) -> None:
    for slot in ("_origin", "_source", "_run_id", "_step", "_confidence", "_timestamp"):
        payload = {"id": "f-1", "content": "x", slot: "forged"}
        answer = apply(live, delta("add", payload=payload))
        assert answer.status_code == 422, slot
        assert slot in answer.json()["detail"][0]["msg"]


# -- rights and the past ------------------------------------------------------------------


def test_facts_of_others_are_neither_read_nor_replaced(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    team = live.mint("read", "write", entity="agent:team", scopes=["team"])
    local = live.mint("read", "write", entity="agent:local", scopes=["local"])
    reader = live.mint("read", entity="agent:reader", scopes=["team"])
    assert apply(live, delta("add", id="f-1"), scope="team", key=team).is_success
    assert facts(live, key=local) == []
    assert live.call("GET", "/v1/deltas", key=local).json()["deltas"] == []
    assert len(facts(live, key=reader)) == 1
    assert apply(live, delta("add", id="f-2"), scope="team", key=local).status_code == 403
    assert apply(live, delta("add", id="f-2"), scope="team", key=reader).status_code == 403
    ended = delta("delete", replaces=["f-1"])
    assert refusal(live, ended, scope="local", key=local) == (409, "missing")


def test_facts_of_a_garden_are_its_members_alone(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    member, other = live.key_of("member"), live.key_of("other")
    garden = create_garden(live, member, scope="team")
    place = {"scope": "team", "garden_id": "ops"}
    answer = apply(live, delta("add", id="f-1"), key=member, **place)
    (done,) = answer.json()["results"]
    path = f"/v1/facts/{done['fact_id']}"
    assert live.call("GET", path, key=member).json()["garden_id"] == garden["id"]
    assert live.call("GET", path, key=other).status_code == 404
    assert objects(live, key=member, scope="team") == ["tea"]
    assert facts(live, key=other, scope="team") == []
    refused = apply(live, delta("add", id="f-2"), key=other, **place)
    assert refused.status_code == 404


def test_no_caller_states_in_the_name_of_another(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    key = live.mint("read", "write", entity="agent:a", sources=[])
    assert apply(live, delta("add", id="f-1"), source="agent:b", key=key).status_code == 403
    result = apply(live, delta("add", id="f-1"), key=key).json()["results"][0]
    record = live.call("GET", f"/v1/facts/{result['fact_id']}", key=key).json()
    assert record["source"] == "agent:a"


def test_the_past_shows_the_facts_of_then(live: LiveNode) -> None:
    apply(live, delta("add", id="f-1"))
    then = live.node.log.head().position
    apply(live, delta("update", id="f-2", object="coffee", replaces=["f-1"]))
    assert objects(live, as_of=f"position:{then}") == ["tea"]
    assert objects(live) == ["coffee"]
    past = live.call("GET", "/v1/deltas", params={"as_of": f"position:{then}"}).json()["deltas"]
    assert [each["name"] for each in past] == ["f-1"]


def test_triples_are_promoted_once_and_one_way(live: LiveNode) -> None:
    triple = {"subject": "acme", "predicate": "based_in", "object": "Graz", "confidence": 0.8}
    body = {"rule_id": "kg", "user": "Alice", "agent": "graph", "triples": [triple]}
    first = live.call("POST", "/v1/consolidation/triples", json=body).json()["results"][0]
    again = live.call("POST", "/v1/consolidation/triples", json=body).json()["results"][0]
    assert (first["status"], again["status"]) == ("applied", "known")
    assert again["fact_id"] == first["fact_id"]
    (fact,) = facts(live, predicate="based_in")
    assert fact["confidence"] == 0.8
    assert fact["lineage"][0]["triple_id"] == "acme|based_in|Graz"
    assert fact["lineage"][0]["agent_id"] == "graph"


def test_after_an_erased_delta_the_state_equals_a_rebuilds(live: LiveNode) -> None:
    assert apply(live, delta("add", id="f-1")).is_success
    assert apply(live, delta("update", id="f-2", object="coffee", replaces=["f-1"])).is_success
    with live.node.reader.pool.connection() as db:
        (found,) = db.execute("SELECT fact_id FROM memory_facts WHERE name='f-2'")
    body = {"fact_ids": [found[0]], "reason": "request", "wait": True}
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.status_code in (200, 201, 202), erased.text
    assert live.node.rebuild().compared
    with live.node.reader.pool.connection() as db:
        replaced = [row[0] for row in db.execute("SELECT replaced FROM memory_facts")]
    assert replaced == [LIVE]


def test_versions_are_counted_once_for_all_facts(live: LiveNode) -> None:
    """They were counted again for each fact: work with the square of a user's facts."""

    def work_of_list() -> int:
        with live.node.reader.pool.connection() as db:
            return sql_work(db, lambda db: memory_facts_at(db, LIVE - 1, user="Alice"))

    def add(first: int, last: int) -> None:
        payloads = [
            {"subject": "self", "predicate": "likes", "object": n} for n in range(first, last)
        ]
        assert apply(live, *(delta("add", payload=each) for each in payloads)).is_success

    add(0, 100)
    once = work_of_list()
    add(100, 200)
    assert work_of_list() < 2.5 * once
