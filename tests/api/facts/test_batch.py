"""Batches: order, per-item answers, and all or nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.facts.batch import BatchAnswer
from tests.worlds.live import FACT_NOT_FOUND, LiveNode, fact

PATH = "/v1/facts/batch"
SOURCE = fact()["source"]


def item(n: int, **fields: Any) -> dict[str, Any]:
    return fact(relation=f"memory:r{n}", **fields)


def test_items_are_answered_in_order_with_their_status(live: LiveNode) -> None:
    known = live.state(relation="memory:known")
    items = [
        item(0),
        item(1, colour="red"),
        {"op": "retract", "id": known["id"]},
        {"op": "retract", "id": "none"},
        item(2, confidence=2),
        item(0),
        item(3, op="assert"),
        7,
        item(4, interpret_as="instruction"),
    ]
    answer = live.call("POST", PATH, json=items)
    assert answer.status_code == 200
    body = answer.json()
    convert(body, BatchAnswer)
    results = body["results"]
    statuses = [result["status"] for result in results]
    assert statuses == [201, 422, 200, 404, 422, 201, 201, 422, 403]
    assert results[0]["fact"]["relation"] == "memory:r0"
    assert results[1]["error"]["detail"][0]["loc"] == ["body", 1, "colour"]
    assert (results[2]["id"], results[2]["fact"]["confidence"]) == (known["id"], 0.0)
    assert results[3]["error"] == FACT_NOT_FOUND[1]
    assert results[4]["error"]["detail"][0]["loc"] == ["body", 4, "confidence"]
    assert results[5]["id"] == results[0]["id"]
    assert body["position"] == live.node.log.head().position
    assert live.call("GET", f"/v1/facts/{results[6]['id']}").status_code == 200


def test_an_atomic_batch_with_a_bad_item_writes_nothing(live: LiveNode) -> None:
    head = live.node.log.head().position
    for bad in ({"op": "retract", "id": "none"}, item(1, confidence=2)):
        answer = live.call("POST", PATH, params={"atomic": "true"}, json=[item(0), bad, item(2)])
        assert answer.status_code == 422
        body = answer.json()
        assert body["detail"]["code"] == "atomic_batch_refused"
        assert [result["status"] for result in body["results"]][1] in (404, 422)
        assert body["results"][0]["error"]["detail"]["code"] == "not_written"
    assert live.node.log.head().position == head
    assert live.call("GET", "/v1/facts").json()["total"] == 0


def test_a_valid_atomic_batch_is_written(live: LiveNode) -> None:
    answer = live.call("POST", PATH, params={"atomic": "true"}, json=[item(n) for n in range(50)])
    assert [result["status"] for result in answer.json()["results"]] == [201] * 50
    assert live.call("GET", "/v1/facts").json()["total"] == 50


def test_lines_are_as_good_as_an_array(live: LiveNode) -> None:
    lines = "\n".join(json.dumps(item(n, v="a\u2028b")) for n in range(3)) + "\n\n"
    headers = {"Content-Type": "application/x-ndjson"}
    answer = live.call("POST", PATH, content=lines.encode(), headers=headers)
    assert [result["status"] for result in answer.json()["results"]] == [201] * 3
    broken = live.call("POST", PATH, content=b'{"a":1}\n{', headers=headers)
    assert (broken.status_code, broken.json()["detail"]["code"]) == (400, "malformed_json")


def test_a_batch_has_at_most_ten_thousand_items(live: LiveNode) -> None:
    answer = live.call("POST", PATH, json=[0] * 10_001)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["type"] == "too_long"
    assert live.call("POST", PATH, json={}).status_code == 422
    assert live.call("POST", PATH, json=[]).json()["results"] == []


def test_an_equal_fact_is_stated_again_where_the_item_says_so(live: LiveNode) -> None:
    items = [item(0), item(0), item(0, again=True), item(0, again=False)]
    results = live.call("POST", PATH, json=items).json()["results"]
    assert [each["status"] for each in results] == [201] * 4
    first, equal, fresh, after = [each["id"] for each in results]
    assert (equal, after) == (first, fresh)
    assert fresh != first


def test_a_batch_is_idempotent_by_key(live: LiveNode) -> None:
    headers = {"Idempotency-Key": "batch-1"}
    known = live.state(relation="memory:known")
    items = [
        item(0),
        item(1, confidence=0.0, v="retracted"),
        {"op": "retract", "id": "none"},
        {"op": "retract", "id": known["id"]},
        fact(relation="memory:known", v="next"),
    ]
    first = live.call("POST", PATH, json=items, headers=headers).json()
    head = live.node.log.head().position
    again = live.call("POST", PATH, json=items, headers=headers).json()
    for name in ("id", "status", "position"):
        expected = [each[name] for each in first["results"]]
        assert [each[name] for each in again["results"]] == expected
    assert live.node.log.head().position == head


@pytest.mark.parametrize("atomic", [False, True])
def test_a_repeated_batch_answers_each_item_as_first_whatever_the_others_may_now(
    serve: Callable[..., LiveNode], atomic: bool
) -> None:
    live = serve(auth_required=True)
    owner, member = (
        live.key_of("owner"),
        live.mint("read", "write", entity="agent:t", sources=[SOURCE]),
    )
    garden = {"slug": "g", "name": "g", "scope": "company"}
    assert live.call("POST", "/v1/gardens", key=owner, json=garden).status_code == 201
    joined = {"entity_uri": "agent:t", "role": "writer"}
    live.call("POST", "/v1/gardens/g/members", key=owner, json=joined)
    live.state(key=member, v="known")
    others = live.state(key=owner, source="agent:owner", v="not yours")
    items = [
        fact(v="in the garden", garden_id="g"),
        fact(v="known"),
        fact(v="new", relation="memory:new"),
        *([] if atomic else [{"op": "retract", "id": others["id"]}, fact(entity="")]),
    ]

    def told() -> list[tuple[int, str | None]]:
        path = f"{PATH}?atomic=true" if atomic else PATH
        headers = {"Idempotency-Key": "one"}
        answer = live.call("POST", path, key=member, json=items, headers=headers)
        assert answer.status_code == 200, answer.text
        return [(each["status"], each["id"]) for each in answer.json()["results"]]

    first = told()
    assert [status for status, _ in first] == [201, 201, 201, *([] if atomic else [403, 422])]
    assert told() == first
    head = live.node.log.head().position
    live.call("DELETE", "/v1/gardens/g/members/agent:t", key=owner)
    assert told() == [(404, None), *first[1:]]
    assert live.node.log.head().position == head + 1


def test_a_repeated_retraction_answers_by_present_rights(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    owner, member = live.key_of("owner"), live.key_of("member")
    live.call("POST", "/v1/gardens", key=owner, json={"slug": "g", "name": "g"})
    joined = {"entity_uri": "agent:member", "role": "writer"}
    live.call("POST", "/v1/gardens/g/members", key=owner, json=joined)
    told = live.state(key=member, source="agent:member", garden_id="g")

    def ended() -> tuple[int, bool]:
        gone, headers = [{"op": "retract", "id": told["id"]}], {"Idempotency-Key": "end"}
        answer = live.call("POST", PATH, key=member, json=gone, headers=headers)
        return answer.json()["results"][0]["status"], told["entity"] in answer.text

    assert ended() == ended() == (200, True)
    live.call("DELETE", "/v1/gardens/g/members/agent:member", key=owner)
    assert ended() == (404, False)


def test_a_batch_sees_its_own_earlier_items(live: LiveNode) -> None:
    results = live.call("POST", PATH, json=[item(0, v="A"), item(0, v="B"), item(0, v="A")]).json()
    assert len({result["id"] for result in results["results"]}) == 3


def test_a_batch_takes_no_unknown_parameters(live: LiveNode) -> None:
    answer = live.call("POST", PATH, params={"atomc": "true"}, json=[])
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["query", "atomc"]


def test_a_line_that_is_not_json_is_named(live: LiveNode) -> None:
    lines = json.dumps(fact()).encode() + b"\n\nnonsense\n"
    answer = live.call(
        "POST", "/v1/facts/batch", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 400
    assert answer.json()["detail"]["message"].startswith("line 3 is not JSON: ")
