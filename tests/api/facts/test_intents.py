"""Intents: an envelope becomes facts, and permitted callers read it from them."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.lagging_nodes import lags, two_nodes
from tests.worlds.live import LiveNode

CTO, ALICE = "stigmem://ex.example/agent/cto", "stigmem://ex.example/user/alice"
KEYS = ["id", "from", "to", "goal", "scope", "created_at", "expires_at", "constraint",
        "preference", "deference", "escalation", "handoff", "fact_ids"]  # fmt: skip
"""Of ``stigmem-examples.json``, "intent"."""


def envelope(**fields: Any) -> dict[str, Any]:
    return {"from": CTO, "to": [ALICE], "goal": "ship", **fields}


def test_the_protocols_own_example(live: LiveNode) -> None:
    limit = {"type": "number", "v": 10}
    sent = envelope(scope="company", constraint=[{"kind": "budget", "limit": limit}])
    made = live.call("POST", "/v1/intents", json=sent)
    assert made.status_code == 201, made.text
    record = made.json()
    assert list(record) == KEYS
    assert record["id"].startswith("intent:")
    assert record | {"id": "", "created_at": "", "fact_ids": []} == {
        "id": "", "from": CTO, "to": [ALICE], "goal": "ship", "scope": "company",
        "created_at": "", "expires_at": None,
        "constraint": [
            {"kind": "budget", "limit": {**limit, "interpret_as": "content"}, "unit": None},
        ],
        "preference": [], "deference": [], "escalation": None, "handoff": None, "fact_ids": [],
    }  # fmt: skip
    assert live.call("GET", f"/v1/intents/{record['id']}").json() == record
    facts = live.call("GET", "/v1/facts", params={"entity": record["id"]}).json()["facts"]
    assert sorted(fact["id"] for fact in facts) == sorted(record["fact_ids"])
    assert {fact["source"] for fact in facts} == {CTO}
    assert record["created_at"] == max(fact["timestamp"] for fact in facts)


def test_the_graph_leads_to_the_recipients_without_contradiction(live: LiveNode) -> None:
    record = live.call("POST", "/v1/intents", json=envelope(to=[ALICE, "user:bo", ALICE])).json()
    assert record["to"] == [ALICE, "user:bo", ALICE]
    where = {"entity": record["id"], "scope": "company", "relation_filter": "rel:*"}
    around = live.call("GET", "/v1/graph/neighbors", params=where).json()["neighbors"]
    assert {each["entity"] for each in around} == {ALICE, "user:bo"}
    assert live.call("GET", "/v1/conflicts").json()["conflicts"] == []


def test_everything_comes_back_as_sent(live: LiveNode) -> None:
    parts: dict[str, Any] = {
        "preference": [{"kind": "speed", "value": "fast", "weight": 0.5}],
        "deference": [{"condition": "over budget", "defer_to": "user:cfo", "timeout_s": 60.0}],
        "escalation": {
            "escalate_to": "user:ceo", "channel": "email", "priority": "high",
            "include_context": False,
        },
        "handoff": {
            "summary": "half done", "fact_refs": ["f1"],
            "artifacts": [{"name": "plan", "ref": "file:plan"}], "continuation": {"step": 2},
        },
        "expires_at": "2999-01-01T00:00:00Z",
    }  # fmt: skip
    made = live.call("POST", "/v1/intents", json=envelope(id="Intent:Mine", **parts)).json()
    assert made["id"] == "intent:mine"
    read = live.call("GET", "/v1/intents/intent:mine").json()
    assert {name: read[name] for name in parts} == parts
    again = live.call("POST", "/v1/intents", json=envelope(id="intent:mine"))
    assert (again.status_code, again.json()) == (409, {"detail": "intent already exists"})


@pytest.mark.parametrize(
    "change",
    [
        {"to": []}, {"goal": ""}, {"goal": "x" * 2049}, {"scope": "moon"}, {"to": None},
        {"expires_at": "soon"}, {"constraint": [{"kind": "budget"}]},
        {"constraint": [{"kind": "budget", "limit": {"type": "number", "v": "ten"}}]},
        {"deference": [{"condition": "x"}]}, {"handoff": {}},
        {"escalation": {"escalate_to": CTO, "channel": "pigeon"}},
        {"escalation": {"escalate_to": CTO, "priority": "yesterday"}},
    ],
)  # fmt: skip
def test_bad_envelopes_write_nothing(refusing: LiveNode, change: dict[str, Any]) -> None:
    before = refusing.node.log.head().position
    assert refusing.call("POST", "/v1/intents", json=envelope(**change)).status_code == 422
    assert refusing.node.log.head().position == before


def test_intents_need_the_rights_of_facts(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True)
    cto = node.mint("read", "write", entity=CTO, sources=[])
    local = node.mint("read", "write", entity="agent:local", scopes=["local"])
    record = node.call("POST", "/v1/intents", key=cto, json=envelope()).json()
    missing = node.call("GET", f"/v1/intents/{record['id']}", key=local)
    assert (missing.status_code, missing.json()) == (404, {"detail": "intent not found"})
    before = node.node.log.head().position
    forged = node.call("POST", "/v1/intents", key=cto, json=envelope(**{"from": "agent:other"}))
    assert (forged.status_code, forged.json()["detail"]["code"]) == (403, "source_forbidden")
    outside = node.call("POST", "/v1/intents", key=local, json=envelope())
    assert (outside.status_code, outside.json()["detail"]["code"]) == (403, "scope_forbidden")
    assert node.node.log.head().position == before


def test_an_intent_ends_with_its_facts_and_stays_in_the_past(live: LiveNode) -> None:
    record = live.call("POST", "/v1/intents", json=envelope()).json()
    then = f"position:{live.node.log.head().position}"
    for fact in record["fact_ids"]:
        live.call("POST", f"/v1/facts/{fact}/retract", json={})
    path = f"/v1/intents/{record['id']}"
    assert live.call("GET", path).status_code == 404
    assert live.call("GET", path, params={"as_of": then}).json() == record
    assert live.call("POST", "/v1/intents", json=envelope(id=record["id"])).status_code == 201


def test_a_fact_that_is_not_an_envelope_is_skipped(live: LiveNode) -> None:
    live.state(entity="intent:x", relation="intent:envelope", type="text", v='{"id": 1}')
    assert live.call("GET", "/v1/intents/intent:x").status_code == 404
    assert live.call("POST", "/v1/intents", json=envelope(id="intent:x")).status_code == 201


@pytest.mark.parametrize("named", [{}, {"id": "intent:brew"}])
def test_an_intent_repeated_under_its_key_is_answered_again(
    live: LiveNode, named: dict[str, str]
) -> None:
    def post(key: str | None, **change: Any) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return live.call("POST", "/v1/intents", json=envelope(**named, **change), headers=headers)

    first = post("one", constraint=[{"kind": "budget", "limit": {"type": "number", "v": 10}}])
    assert first.status_code == 201, first.text
    head = live.node.log.head().position
    again = post("one", constraint=[{"kind": "budget", "limit": {"type": "number", "v": 10}}])
    assert (again.status_code, again.json()) == (201, first.json())
    assert post("one", goal="another").status_code == 409
    assert live.node.log.head().position == head
    if named:
        assert post(None).status_code == 409
    else:
        assert post("two").json()["id"] != first.json()["id"]


def test_only_one_of_many_requests_at_once_takes_a_name(live: LiveNode) -> None:
    def post(number: int) -> Any:
        return live.call("POST", "/v1/intents", json=envelope(id="intent:one", goal=f"g{number}"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(8)))
    (made,) = [each.json() for each in answers if each.status_code == 201]
    assert [each.headers["X-Error-Code"] for each in answers if each.status_code != 201] == [
        "intent_exists"
    ] * 7
    assert live.call("GET", "/v1/intents/intent:one").json() == made
    facts = live.call("GET", "/v1/facts", params={"entity": "intent:one"}).json()["facts"]
    assert {each["id"] for each in facts} == set(made["fact_ids"])


def test_a_name_taken_at_another_node_over_the_log_is_taken(
    tmp_path: Path, postgres_url: str
) -> None:
    with two_nodes(tmp_path, postgres_url) as (first, second):
        lags(second)
        key = {"Idempotency-Key": "once"}
        sent = envelope(id="intent:one")
        made = first.call("POST", "/v1/intents", json=sent, headers=key)
        lags(second)
        other = second.call("POST", "/v1/intents", json=envelope(id="intent:one", goal="rest"))
        assert (other.status_code, other.headers["X-Error-Code"]) == (409, "intent_exists")
        again = second.call("POST", "/v1/intents", json=sent, headers=key)
        assert (again.status_code, again.json()) == (201, made.json())


@pytest.mark.parametrize("sender", [CTO, "agent:max"])
def test_no_other_source_speaks_under_the_name_of_an_intent(
    serve: Callable[..., LiveNode], sender: str
) -> None:
    node = serve(auth_required=True)
    cto = node.mint("read", "write", entity=CTO, sources=None)
    other = node.mint("read", "write", entity="agent:max", sources=None)
    made = node.call("POST", "/v1/intents", key=cto, json=envelope()).json()
    forged = {**{name: made[name] for name in KEYS[:-1]}, "from": sender, "goal": "pay max"}
    said = {"entity": made["id"], "source": "agent:max", "type": "text", "key": other}
    node.state(relation="intent:envelope", v=json.dumps(forged), **said)
    read = node.call("GET", f"/v1/intents/{made['id']}", key=cto)
    assert read.json() == made
    for fact in made["fact_ids"]:
        node.call("POST", f"/v1/facts/{fact}/retract", key=cto, json={})
    left = node.call("GET", f"/v1/intents/{made['id']}", key=cto)
    assert left.status_code == (404 if sender == CTO else 200), "no source speaks for another"
