"""Quarantine gardens: pending facts, their reviewers, and the outcomes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.garden_requests import add_member, create_garden, status_and_body
from tests.worlds.live import LiveNode


@pytest.fixture
def node(serve: Callable[..., LiveNode]) -> LiveNode:
    """A quarantine ``wait`` (ann admin, mo moderator, wes writer, rea reader) and ``ops``."""
    live = serve(auth_required=True, explain_permission="read")
    ann = live.key_of("ann")
    create_garden(live, ann, "wait", quarantine=True)
    create_garden(live, ann, "ops")
    for name, role in (("mo", "quarantine:moderator"), ("wes", "writer"), ("rea", "reader")):
        add_member(live, ann, name, role, "wait")
    return live


def waiting(node: LiveNode, **fields: Any) -> dict[str, Any]:
    return node.state(key=node.key_of("wes"), garden_id="wait", **fields)


def test_a_quarantined_fact_waits_and_is_its_members_alone(node: LiveNode) -> None:
    stated = waiting(node, v="a rumour about atlas")
    garden = node.call("GET", "/v1/gardens/wait", key=node.key_of("mo")).json()
    assert (stated["quarantine_status"], stated["quarantine_garden_id"]) == (
        "pending",
        garden["id"],
    )
    for name in ("ann", "mo", "rea"):
        seen = node.call("GET", f"/v1/facts/{stated['id']}", key=node.key_of(name)).json()
        assert seen["quarantine_status"] == "pending"
        listed = node.call("GET", "/v1/quarantine", key=node.key_of(name)).json()
        assert (listed["total"], listed["items"][0]["fact_id"]) == (1, stated["id"])
    out = node.key_of("out")
    assert node.call("GET", f"/v1/facts/{stated['id']}", key=out).status_code == 404
    assert node.call("GET", "/v1/quarantine", key=out).json() == {"items": [], "total": 0}


@pytest.mark.parametrize("where", ["params", "json"])
def test_a_review_names_its_garden_and_reason_in_the_query_or_the_body(
    node: LiveNode, where: str
) -> None:
    """A garden that is overlooked would publish the fact."""
    mo = node.key_of("mo")
    first, second = waiting(node, v="atlas"), waiting(node, v="zeus")
    said = {where: {"target_garden_id": "absent", "reason": "checked"}}
    answer = node.call("POST", f"/v1/quarantine/{first['id']}/admit", key=mo, **said)
    assert answer.headers["X-Error-Code"] == "target_garden_not_found"
    answer = node.call("POST", f"/v1/quarantine/{second['id']}/reject", key=mo, **said)
    assert answer.status_code == 200
    listed = node.call("GET", "/v1/quarantine", key=mo).json()["items"]
    reviews = {item["fact_id"]: item["quarantine_reason"] for item in listed}
    assert reviews == {first["id"]: None, second["id"]: "checked"}


def test_recall_trusts_a_quarantined_fact_a_fifth(node: LiveNode) -> None:
    ann = node.key_of("ann")
    waiting(node, v="atlas", entity="user:x")
    node.state(key=ann, v="atlas", entity="user:y")
    body = {"query": "atlas", "scope": "company", "profile": "stigmem", "explain": True}
    found = node.call("POST", "/v1/recall", key=ann, json=body).json()
    by_entity = {item["entity"]: item for item in found["results"]}
    assert by_entity["user:x"]["explain"]["factors"]["garden_tier"] == 0.2
    assert by_entity["user:y"]["explain"]["factors"]["garden_tier"] == 1.0
    assert by_entity["user:x"]["quarantine_status"] == "pending"


def test_an_admitted_fact_is_outside_with_the_same_content(node: LiveNode) -> None:
    interval = {"valid_from": "2026-01-01T00:00:00Z", "valid_until": "2090-01-01T00:00:00Z"}
    stated = waiting(node, v="atlas ships", confidence=0.8, **interval)
    mo = node.key_of("mo")
    params = {"reason": "checked"}
    answer = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=mo, params=params)
    done = answer.json()
    assert list(done)[:5] == ["fact_id", "action", "target_garden_id", "acted_by", "acted_at"]
    assert (done["fact_id"], done["action"]) == (stated["id"], "admitted")
    assert (done["target_garden_id"], done["acted_by"]) == (None, "agent:mo")
    out = node.key_of("out")
    new = node.call("GET", f"/v1/facts/{done['admitted_fact_id']}", key=out).json()
    for name in ("cid", "source", "value", "confidence", "entity", "relation", "scope", *interval):
        assert new[name] == stated[name]
    assert (new["garden_id"], new["quarantine_status"]) == (None, None)
    assert new["quarantine_garden_id"] is None
    old = node.call("GET", f"/v1/facts/{stated['id']}", key=mo).json()
    assert (old["confidence"], old["quarantine_status"]) == (0.0, "promoted")
    assert node.call("GET", f"/v1/facts/{stated['id']}", key=out).status_code == 404
    again = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=mo)
    assert status_and_body(again) == (409, {"detail": "fact_not_quarantine_pending"})
    for status in ("promoted", "admitted"):
        params = {"quarantine_status": status}
        item = node.call("GET", "/v1/quarantine", key=mo, params=params).json()["items"][0]
        assert (item["quarantine_reason"], item["quarantine_acted_by"]) == ("checked", "agent:mo")


def test_a_fact_moves_to_a_garden_that_its_moderator_writes_in(node: LiveNode) -> None:
    mo, ann = node.key_of("mo"), node.key_of("ann")
    stated = waiting(node)
    body = {"fact_id": stated["id"], "target_garden_id": "ops", "reason": "ok"}
    hidden = node.call("POST", "/v1/gardens/wait/promote", key=mo, json=body)
    assert status_and_body(hidden) == (404, {"detail": "target garden not found"})
    add_member(node, ann, "mo", "reader", "ops")
    assert node.call("POST", "/v1/gardens/wait/promote", key=mo, json=body).status_code == 403
    done = node.call("POST", "/v1/gardens/wait/promote", key=ann, json=body).json()
    assert done["action"] == "promoted"
    new = node.call("GET", f"/v1/facts/{done['admitted_fact_id']}", key=ann).json()
    assert new["garden_id"] == done["target_garden_id"]


def test_a_fact_moves_from_one_quarantine_to_no_other(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann, "other", quarantine=True)
    body = {"fact_id": waiting(node)["id"], "target_garden_id": "other"}
    answer = node.call("POST", "/v1/gardens/wait/promote", key=ann, json=body)
    assert answer.json()["detail"]["code"] == "target_is_quarantine"
    assert node.call("GET", "/v1/quarantine", key=ann).json()["total"] == 1


def test_a_moderator_judges_nothing_above_its_ceiling(node: LiveNode) -> None:
    stated = waiting(node)
    low = node.mint("read", "write", entity="agent:mo", max_classification=0, scopes=["company"])
    answer = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=low)
    assert status_and_body(answer) == (404, {"detail": "quarantined fact not found"})


def test_a_rejected_fact_no_longer_holds(node: LiveNode) -> None:
    mo, stated = node.key_of("mo"), waiting(node)
    body = {"fact_id": stated["id"], "reason": "hearsay"}
    done = node.call("POST", "/v1/gardens/wait/reject", key=mo, json=body).json()
    assert (done["fact_id"], done["action"], done["acted_by"]) == (
        stated["id"],
        "rejected",
        "agent:mo",
    )
    old = node.call("GET", f"/v1/facts/{stated['id']}", key=mo).json()
    assert (old["confidence"], old["quarantine_status"]) == (0.0, "rejected")
    at = {"as_of": f"position:{stated['position']}"}
    then = node.call("GET", f"/v1/facts/{stated['id']}", key=mo, params=at).json()
    assert (then["confidence"], then["quarantine_status"]) == (1.0, "pending")


def test_only_moderators_and_admins_judge(node: LiveNode) -> None:
    stated = waiting(node)
    detail = "quarantine:moderator or admin role required to promote/reject facts"
    for name in ("wes", "rea"):
        key = node.key_of(name)
        answer = node.call("POST", f"/v1/quarantine/{stated['id']}/reject", key=key)
        assert status_and_body(answer) == (403, {"detail": detail})
    out = node.key_of("out")
    answer = node.call("POST", f"/v1/quarantine/{stated['id']}/reject", key=out)
    assert status_and_body(answer) == (404, {"detail": "quarantined fact not found"})


def test_only_pending_facts_of_this_quarantine_can_be_reviewed(node: LiveNode) -> None:
    ann = node.key_of("ann")
    plain = node.state(key=ann, garden_id="ops")
    body = {"fact_id": plain["id"]}
    wrong = node.call("POST", "/v1/gardens/ops/promote", key=ann, json=body)
    assert status_and_body(wrong) == (
        422,
        {"detail": "this endpoint is only valid for quarantine gardens"},
    )
    assert node.call("POST", "/v1/gardens/wait/promote", key=ann, json=body).status_code == 404
    for fact in (plain, node.state(key=ann)):
        answer = node.call("POST", f"/v1/quarantine/{fact['id']}/admit", key=ann)
        assert status_and_body(answer) == (404, {"detail": "quarantined fact not found"})
    stated = waiting(node)
    create_garden(node, ann, "other", quarantine=True)
    for verb in ("promote", "reject"):
        path, body = f"/v1/gardens/other/{verb}", {"fact_id": stated["id"]}
        elsewhere = node.call("POST", path, key=ann, json=body)
        assert status_and_body(elsewhere) == (404, {"detail": "quarantined fact not found"})
    assert node.call("GET", "/v1/quarantine", key=ann).json()["total"] == 1
    node.call("POST", f"/v1/facts/{stated['id']}/retract", key=node.key_of("wes"), json={})
    answer = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=ann)
    assert status_and_body(answer) == (409, {"detail": "fact_not_quarantine_pending"})
    assert node.call("GET", "/v1/quarantine", key=ann).json()["total"] == 0


def test_a_quarantine_with_pending_facts_cannot_be_deleted(node: LiveNode) -> None:
    ann, stated = node.key_of("ann"), waiting(node)
    refused = node.call("DELETE", "/v1/gardens/wait", key=ann)
    assert status_and_body(refused) == (409, {"detail": "quarantine_has_pending_facts"})
    node.call("POST", f"/v1/quarantine/{stated['id']}/reject", key=ann)
    assert node.call("DELETE", "/v1/gardens/wait", key=ann).status_code == 204


def test_only_callers_who_may_write_an_instruction_admit_one(node: LiveNode) -> None:
    wes = node.mint("read", "write", "instruction:write", entity="agent:wes")
    stated = node.state(key=wes, garden_id="wait", interpret_as="instruction")
    refused = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=node.key_of("mo"))
    assert refused.status_code == 403
    assert refused.json()["detail"]["code"] == "instruction_write_required"
    may = node.mint("read", "write", "instruction:write", entity="agent:mo")
    admitted = node.call("POST", f"/v1/quarantine/{stated['id']}/admit", key=may)
    assert admitted.status_code == 200


def test_pages_of_the_quarantine_count_everything(node: LiveNode) -> None:
    made_ids = [waiting(node, relation=f"memory:r{n}")["id"] for n in range(5)]
    mo = node.key_of("mo")
    page = node.call("GET", "/v1/quarantine", key=mo, params={"limit": 2, "offset": 1}).json()
    assert page["total"] == 5
    assert [item["fact_id"] for item in page["items"]] == [made_ids[3], made_ids[2]]
