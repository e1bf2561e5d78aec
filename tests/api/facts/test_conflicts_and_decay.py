"""Contradictions, decay and declared cardinality over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.facts.conflicts import ConflictPage
from engramlog.api.routes.facts.decay import Policies
from tests.worlds.live import LiveNode

POLICY = "/v1/decay/policies/city"


def conflicts(live: LiveNode, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", "/v1/conflicts", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_conflict_pairs_the_newer_with_the_older(live: LiveNode) -> None:
    older, newer = live.state(v="A"), live.state(v="B")
    assert newer["contradicted"] is True
    page = conflicts(live, status="unresolved")
    convert(page, ConflictPage)
    assert (page["cursor"], page["has_more"]) == (None, False)
    found = page["conflicts"][0]
    assert list(found) == [
        "conflict_id", "fact_a", "fact_b", "status", "resolved_by", "detected_at",
        "winning_fact_id", "resolution_note",
    ]  # fmt: skip
    assert (found["fact_a"]["id"], found["fact_b"]["id"]) == (newer["id"], older["id"])
    assert (found["status"], found["resolved_by"]) == ("unresolved", None)


def test_the_newer_side_comes_first_also_if_an_expired_fact_restates_the_older_value(
    live: LiveNode,
) -> None:
    """Wire 2.2: fact_a is the newer one, fact_b the older."""
    older = live.state(v="A")
    newer = live.state(v="B", source="agent:b")
    live.state(v="A", source="agent:c", valid_until="2001-01-01T00:00:00Z")
    (found,) = conflicts(live, status="unresolved")["conflicts"]
    assert (found["fact_a"]["id"], found["fact_b"]["id"]) == (newer["id"], older["id"])
    linted = live.call("POST", "/v1/lint", json={"scope": "company"}).json()["findings"]
    (contradiction,) = (each for each in linted if each["check"] == "contradiction")
    assert contradiction["fact_ids"] == [newer["id"], older["id"]]


def test_equal_numbers_do_not_contradict(live: LiveNode) -> None:
    for source, v in {"agent:a": 0, "agent:b": 0.0, "agent:c": -0.0}.items():
        made = live.state(value={"type": "number", "v": v}, source=source)
        assert made["contradicted"] is False
        assert str(made["value"]["v"]) == "0.0"


def test_a_conflict_is_resolved_once(live: LiveNode) -> None:
    older = live.state(v="A")
    live.state(v="B")
    found = conflicts(live)["conflicts"][0]
    path = f"/v1/conflicts/{found['conflict_id']}/resolve"
    answer = live.call("POST", path, json={"winning_fact_id": older["id"], "resolution_note": "x"})
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["resolution_fact_id", "conflict_status"]
    assert body["conflict_status"] == "resolved"
    assert live.call("GET", f"/v1/facts/{body['resolution_fact_id']}").status_code == 200
    again = live.call("POST", path, json={"winning_fact_id": older["id"]})
    assert (again.status_code, again.json()) == (409, {"detail": "conflict already resolved"})
    assert conflicts(live, status="unresolved")["conflicts"] == []
    settled = conflicts(live, status="resolved")["conflicts"][0]
    assert settled["resolved_by"] == body["resolution_fact_id"]


def test_a_card_marks_a_denied_fact_and_replaces_nothing_in_recall(live: LiveNode) -> None:
    """Wire 5.2: denied facts are in contradiction; seed §20.4.2: cards settle none silently."""
    role = live.state(v="CEO")
    live.state(entity="stigmem://t/user/bo", v="CEO")
    path = f"/v1/cards/{role['entity']}?scope=company"
    assert live.call("GET", path).json()["has_contradictions"] is False
    marker = live.state(v="CEO", source="agent:b", confidence=0.0)
    card = live.call("GET", path).json()
    assert (card["has_contradictions"], card["contradictions"]) == (True, [])
    assert card["summary"].endswith("memory:role: CEO (conf=1.00) [contradicted]")
    assert "| memory:role | CEO | 1.00 | contradicted |" in card["markdown"]
    assert "omitted" not in card["markdown"]
    asked = {"query": "CEO", "scope": "company", "profile": "stigmem"}
    found = live.call("POST", "/v1/recall", json=asked).json()["facts"]
    raw = [item["fact"]["entity"] for item in found if not item["from_card"]]
    assert raw == [role["entity"]]
    live.call("POST", f"/v1/facts/{marker['id']}/retract", json={})
    assert live.call("GET", path).json()["has_contradictions"] is False


@pytest.mark.parametrize("wins", ["fact_a", "fact_b", None])
def test_a_resolution_settles_the_two_values_that_the_conflict_shows(
    live: LiveNode, wins: str | None
) -> None:
    """Wire 5.1: the newest value against each other one, where both are valid at some time; 2.2:
    the winner is one of the two shown."""
    live.state(v="B", valid_from="2020-01-01T00:00:00Z")
    live.state(v="C", source="agent:c")
    live.state(v="A", source="agent:a", valid_from="2090-01-01T00:00:00Z")
    live.state(v="B", source="agent:b", valid_until="2080-01-01T00:00:00Z")
    shown = {
        frozenset({each["fact_a"]["value"]["v"], each["fact_b"]["value"]["v"]}): each
        for each in conflicts(live, status="unresolved")["conflicts"]
    }
    assert set(shown) == {frozenset("AB"), frozenset("BC")}
    found = shown[frozenset("AB")]
    choice: dict[str, Any] = {"new_value": {"type": "string", "v": "D"}}
    if wins is not None:
        choice = {"winning_fact_id": found[wins]["id"]}
    path = f"/v1/conflicts/{found['conflict_id']}/resolve"
    assert live.call("POST", path, json=choice).status_code == 200
    left = {
        each["value"]["v"]
        for each in conflicts(live, status="unresolved")["conflicts"]
        for each in (each["fact_a"], each["fact_b"])
    }
    kept = {"fact_a": "A", "fact_b": "B", None: "D"}[wins]
    assert left == {kept, "C"}, "C is as it was"


def test_a_conflict_is_resolved_by_a_new_value(live: LiveNode) -> None:
    live.state(v="A")
    live.state(v="B")
    found = conflicts(live)["conflicts"][0]
    path = f"/v1/conflicts/{found['conflict_id']}/resolve"
    answer = live.call("POST", path, json={"new_value": {"type": "string", "v": "C"}})
    assert answer.status_code == 200
    shown = live.call("GET", "/v1/facts", params={"entity": found["fact_a"]["entity"]}).json()
    assert [each["value"]["v"] for each in shown["facts"]] == ["C"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"winning_fact_id": "none"}, 422),
        ({"new_value": {"type": "number", "v": "x"}}, 422),
        ({"new_value": {"type": "string", "v": "x", "interpret_as": "instruction"}}, 403),
    ],
)
def test_a_resolution_needs_a_winner(live: LiveNode, body: dict[str, Any], status: int) -> None:
    live.state(v="A")
    live.state(v="B")
    path = f"/v1/conflicts/{conflicts(live)['conflicts'][0]['conflict_id']}/resolve"
    assert live.call("POST", path, json=body).status_code == status
    gone = live.call("POST", "/v1/conflicts/none/resolve", json={"winning_fact_id": "x"})
    assert (gone.status_code, gone.json()) == (404, {"detail": "conflict not found"})


def test_conflicts_come_in_pages(live: LiveNode) -> None:
    for n in range(5):
        for v in ("A", "B"):
            live.state(relation=f"memory:r{n}", v=v)
    seen: list[str] = []
    page = conflicts(live, limit=2)
    seen += [each["conflict_id"] for each in page["conflicts"]]
    while page["has_more"]:
        live.state(relation=f"memory:new{len(seen)}", v="A")
        live.state(relation=f"memory:new{len(seen)}", v="B")
        page = conflicts(live, limit=2, cursor=page["cursor"])
        seen += [each["conflict_id"] for each in page["conflicts"]]
    assert len(seen) == len(set(seen)) == 5
    bad = live.call("GET", "/v1/conflicts", params={"status": "maybe"})
    assert bad.status_code == 422


# -- decay ----------------------------------------------------------------------------------


def test_policies_are_set_listed_and_removed(live: LiveNode) -> None:
    body = {"relation": "memory:city", "mode": "confidence", "half_life_s": 3600}
    made = live.call("PUT", POLICY, json=body)
    assert made.status_code == 200
    assert made.json() == live.call("GET", POLICY).json()
    listed = live.call("GET", "/v1/decay/policies").json()
    convert(listed, Policies)
    assert [policy["id"] for policy in listed["policies"]] == ["city"]
    assert live.call("DELETE", POLICY).status_code == 204
    gone = live.call("GET", POLICY)
    assert (gone.status_code, gone.json()) == (404, {"detail": "decay policy not found"})
    assert live.call("DELETE", POLICY).status_code == 404


def test_a_value_that_decayed_to_0_is_contradicted_as_its_rival_is(live: LiveNode) -> None:
    live.state(v="A", confidence=1e-7)
    live.state(v="B")
    body = {"relation": "*", "mode": "confidence", "half_life_s": 3600}
    assert live.call("PUT", POLICY, json=body).status_code == 200
    assert live.call("POST", "/v1/decay/sweep").json()["decayed"] > 0
    everything = {"include_contradicted": "true", "include_low_trust": "true"}
    found = live.call("GET", "/v1/facts", params=everything).json()["facts"]
    assert sorted((each["value"]["v"], each["contradicted"]) for each in found) == [
        ("A", True), ("B", True),
    ]  # fmt: skip
    assert 0.0 in [each["confidence"] for each in found]


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "confidence"},
        {"mode": "retract"},
        {"ttl_s": -1},
        {"half_life_s": 0, "mode": "confidence"},
        {"ttl_s": 1, "scope": "galaxy"},
        {"ttl_s": 1, "min_confidence": 2},
        {"ttl_s": 1, "colour": "red"},
    ],
)
def test_a_bad_policy_is_422(refusing: LiveNode, body: dict[str, Any]) -> None:
    assert refusing.call("PUT", POLICY, json=body).status_code == 422


def test_a_policy_id_must_be_plain(live: LiveNode) -> None:
    answer = live.call("PUT", "/v1/decay/policies/a%20b", json={"ttl_s": 1})
    assert answer.status_code == 422


def test_a_sweep_takes_parameters_from_query_and_body(live: LiveNode) -> None:
    live.state()
    live.state(relation="rel:knows", type="ref", v="stigmem://t/user/b")
    path = "/v1/decay/sweep"
    dry = live.call("POST", path, params={"dry_run": "true", "ttl_seconds": "0"})
    assert dry.json() == {"scanned": 1, "decayed": 0, "dry_run": True, "would_decay": 1}
    assert live.call("GET", "/v1/facts").json()["total"] == 2
    none = live.call("POST", path)
    assert none.json() == {"scanned": 0, "decayed": 0, "dry_run": False}
    other = live.call("POST", path, json={"ttl_seconds": 0, "scope": "public"})
    assert other.json()["decayed"] == 0
    swept = live.call("POST", path, params={"scope": "company"}, json={"ttl_seconds": 0})
    assert swept.json() == {"scanned": 1, "decayed": 1, "dry_run": False}
    assert live.call("GET", "/v1/facts").json()["total"] == 1
    bad = live.call("POST", path, params={"scope": "galaxy"})
    assert bad.status_code == 400
    assert bad.json()["detail"].startswith("scope must be one of")


def test_stored_policies_act_at_a_sweep(live: LiveNode) -> None:
    live.state(relation="memory:city")
    live.state(relation="memory:mood", confidence=0.2)
    live.call("PUT", POLICY, json={"relation": "memory:mood", "min_confidence": 0.5})
    swept = live.call("POST", "/v1/decay/sweep").json()
    assert swept == {"scanned": 1, "decayed": 1, "dry_run": False}
    left = live.call("GET", "/v1/facts").json()["facts"]
    assert [each["relation"] for each in left] == ["memory:city"]


def test_set_valued_relations_are_declared(live: LiveNode) -> None:
    path = "/v1/relations/set-valued"
    assert live.call("GET", path).json()["relations"] == []
    put = live.call("PUT", path, json={"relations": ["memory:likes", "tag:*"]})
    assert put.json()["relations"] == ["memory:likes", "tag:*"]
    assert live.call("GET", path).json() == put.json()
    head = live.node.log.head()
    assert live.call("PUT", path, json={"relations": ["tag:*", "memory:likes"]}).is_success
    assert live.node.log.head() == head  # nothing changed
    for bad in (["a*b"], [""], [5]):
        assert live.call("PUT", path, json={"relations": bad}).status_code == 422
    assert live.call("PUT", path, json={}).status_code == 422


def test_ignored_fields_are_named_if_the_protocol_ignores_them(live: LiveNode) -> None:
    live.state(v="A")
    live.state(v="B")
    expected = ["unknown field 'colour' is ignored"]
    found = live.call("GET", "/v1/conflicts", params={"colour": "red"}).json()
    assert found["warnings"] == expected
    path = f"/v1/conflicts/{found['conflicts'][0]['conflict_id']}/resolve"
    body = {"winning_fact_id": found["conflicts"][0]["fact_a"]["id"], "colour": "red"}
    assert live.call("POST", path, json=body).json()["warnings"] == expected
    sweep = live.call("POST", "/v1/decay/sweep", json={"colour": "red"})
    assert sweep.json()["warnings"] == expected
    params = {"entity": "user:a", "scope": "local", "colour": "red"}
    assert live.call("GET", "/v1/graph/neighbors", params=params).json()["warnings"] == expected


def test_a_source_that_contradicts_itself_sees_the_other_fact(live: LiveNode) -> None:
    first = live.state(relation="memory:likes", v="tea")
    second = live.state(relation="memory:likes", v="coffee")
    (warning,) = second["warnings"]
    assert first["id"] in warning
    assert "'tea'" in warning
    assert "set-valued" in warning
    other = live.state(relation="memory:likes", v="milk", source="agent:b")
    assert (other["contradicted"], other["warnings"]) == (True, [])


def test_a_warning_hides_rivals_that_the_writer_may_not_read(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    writer = live.mint("write", entity="agent:w")
    live.state(v="CEO", source="agent:x", key=writer)
    assert live.state(v="CTO", source="agent:x", key=writer)["warnings"] == []
