"""Gardens and their members over HTTP: who may do what, in the protocol's words."""

from collections.abc import Callable

import pytest

from tests.worlds.garden_requests import add_member, create_garden, status_and_body
from tests.worlds.live import LiveNode, fact
from tests.worlds.memory_requests import put

ROLES = ("admin", "writer", "reader", "quarantine:moderator")
NOT_FOUND = (404, {"detail": "garden not found"})


@pytest.fixture
def node(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(auth_required=True)


def test_the_creator_is_the_first_admin(node: LiveNode) -> None:
    key = node.key_of("ann")
    garden = create_garden(node, key, "  OPS ", description="on call")
    assert (garden["slug"], garden["scope"], garden["quarantine"]) == ("ops", "company", False)
    assert garden["garden_id"].endswith("/garden/ops")
    assert [(m["entity_uri"], m["role"]) for m in garden["members"]] == [("agent:ann", "admin")]
    for name in ("ops", garden["id"], garden["garden_id"].replace("/", "%2F")):
        assert node.call("GET", f"/v1/gardens/{name}", key=key).json() == garden
    assert node.call("GET", "/v1/gardens", key=key).json() == [garden]
    taken = node.call("POST", "/v1/gardens", key=key, json={"slug": "ops", "name": "x"})
    assert status_and_body(taken) == (409, {"detail": "slug already exists"})


@pytest.mark.parametrize("slug", ["", "-a", "a_b", "a" * 64, "ö"])
def test_a_slug_has_a_form(node: LiveNode, slug: str) -> None:
    key = node.key_of("ann")
    answer = node.call("POST", "/v1/gardens", key=key, json={"slug": slug, "name": "x"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "slug"]
    assert answer.json()["detail"][0]["msg"] == r"slug must match ^[a-z0-9][a-z0-9\-]{0,62}$"


def test_without_authentication_everybody_is_one_member(live: LiveNode) -> None:
    garden = live.call("POST", "/v1/gardens", json={"slug": "ops", "name": "Ops"}).json()
    assert garden["created_by"] == "anon:trusted"
    stated = live.state(garden_id="ops")
    assert stated["garden_id"] == garden["id"]
    assert live.call("GET", f"/v1/facts/{stated['id']}").status_code == 200
    assert live.call("GET", "/v1/facts").json()["total"] == 1


def test_members_write_by_role(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)

    def refusal(role: str) -> tuple[int, dict[str, str]]:
        return 403, {"detail": f"write permission required — you are a {role} in this garden"}

    for role in ROLES:
        name = role.replace(":", "-")
        add_member(node, ann, name, role)
        key = node.key_of(name)
        answer = node.call("POST", "/v1/facts", key=key, json=fact(garden_id="ops", v=role))
        if role in ("admin", "writer"):
            assert answer.status_code == 201, answer.text
        else:
            assert status_and_body(answer) == refusal(role)
        assert node.call("GET", "/v1/facts", key=key).status_code == 200
    reader_key = node.key_of("reader")
    for _ in range(2):  # a_repeated_request_gets_the_same_refusal
        answer = node.call(
            "POST",
            "/v1/facts",
            key=reader_key,
            json=fact(garden_id="ops"),
            headers={"Idempotency-Key": "again"},
        )
        assert status_and_body(answer) == refusal("reader")
    stranger = node.key_of("stranger")
    answer = node.call("POST", "/v1/facts", key=stranger, json=fact(garden_id="ops"))
    assert status_and_body(answer) == NOT_FOUND


def test_the_scope_of_a_fact_is_its_gardens(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    wrong = node.call("POST", "/v1/facts", key=ann, json=fact(garden_id="ops", scope="local"))
    detail = "scope mismatch: garden scope is 'company' but fact scope is 'local'"
    assert status_and_body(wrong) == (422, {"detail": detail})
    both = [fact(garden_id="ops"), fact(garden_id="ops", scope="local"), fact(garden_id="none")]
    batch = node.call("POST", "/v1/facts/batch", key=ann, json=both).json()["results"]
    assert [item["status"] for item in batch] == [201, 422, 404]


def test_members_join_change_roles_and_leave(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    add_member(node, ann, "bo", "reader")
    path = "/v1/gardens/ops/members"
    again = node.call("POST", path, key=ann, json={"entity_uri": "agent:bo", "role": "writer"})
    detail = "entity is already a member with role 'reader'; use PATCH to change role"
    assert status_and_body(again) == (409, {"detail": detail})
    before = node.call("GET", path, key=ann).json()[1]
    changed = node.call("PATCH", f"{path}/agent:bo", key=ann, json={"role": "writer"}).json()
    assert changed == {**before, "role": "writer"}
    absent = node.call("PATCH", f"{path}/agent:zed", key=ann, json={"role": "writer"})
    assert status_and_body(absent) == (404, {"detail": "member not found"})
    bo = node.key_of("bo")
    refused = node.call("POST", path, key=bo, json={"entity_uri": "agent:cy"})
    assert status_and_body(refused) == (403, {"detail": "garden admin permission required"})
    assert node.call("DELETE", f"{path}/agent:bo", key=ann).status_code == 204
    assert status_and_body(node.call("GET", path, key=bo)) == NOT_FOUND
    bad = node.call("POST", path, key=ann, json={"entity_uri": "agent:cy", "role": "owner"})
    assert bad.status_code == 422


def test_the_last_admin_cannot_leave(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    add_member(node, ann, "bo", "writer")
    path = "/v1/gardens/ops/members/agent:ann"
    detail = "cannot remove or demote the last admin; promote another member first"
    assert status_and_body(node.call("DELETE", path, key=ann)) == (403, {"detail": detail})
    demoted = node.call("PATCH", path, key=ann, json={"role": "reader"})
    assert status_and_body(demoted) == (403, {"detail": detail})
    bo = "/v1/gardens/ops/members/agent:bo"
    assert node.call("PATCH", bo, key=ann, json={"role": "admin"}).status_code == 200
    assert node.call("DELETE", path, key=ann).status_code == 204


def test_an_admin_of_the_node_administers_and_does_not_read(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    stated = node.state(key=ann, garden_id="ops")
    root = node.key_of("root", "read", "write", "admin")
    assert len(node.call("GET", "/v1/gardens", key=root).json()) == 1
    assert node.call("GET", "/v1/gardens/ops/members", key=root).status_code == 200
    member = (403, {"detail": "not a member of this garden"})
    assert (
        status_and_body(node.call("GET", "/v1/facts", key=root, params={"garden_id": "ops"}))
        == member
    )
    written = node.call("POST", "/v1/facts", key=root, json=fact(garden_id="ops"))
    assert status_and_body(written) == member
    assert node.call("GET", f"/v1/facts/{stated['id']}", key=root).status_code == 404
    add_member(node, root, "root", "reader")
    assert node.call("GET", f"/v1/facts/{stated['id']}", key=root).status_code == 200
    added = node.call("GET", "/v1/gardens/ops/members", key=ann).json()
    assert [m["entity_uri"] for m in added] == ["agent:ann", "agent:root"]


def test_a_deleted_garden_takes_its_facts_out_of_sight(node: LiveNode) -> None:
    ann, bo = node.key_of("ann"), node.key_of("bo")
    old = create_garden(node, ann)
    add_member(node, ann, "bo", "writer")
    stated = node.state(key=ann, garden_id="ops")
    refused = node.call("DELETE", "/v1/gardens/ops", key=bo)
    assert status_and_body(refused) == (403, {"detail": "garden admin permission required"})
    assert node.call("DELETE", "/v1/gardens/ops", key=ann).status_code == 204
    for key in (ann, bo):
        assert node.call("GET", f"/v1/facts/{stated['id']}", key=key).status_code == 404
        assert node.call("GET", "/v1/facts", key=key).json()["total"] == 0
        assert status_and_body(node.call("GET", "/v1/gardens/ops", key=key)) == NOT_FOUND
    new = create_garden(node, ann)
    assert new["id"] != old["id"]
    assert node.call("GET", "/v1/facts", key=ann).json()["total"] == 0


def test_present_rights_apply_to_the_past(node: LiveNode) -> None:
    ann, bo = node.key_of("ann"), node.key_of("bo")
    create_garden(node, ann)
    stated = node.state(key=ann, garden_id="ops", v="the atlas ledger")
    at = {"as_of": f"position:{stated['position']}"}
    path = f"/v1/facts/{stated['id']}"
    recalled = {"query": "atlas", "scope": "company", **at}
    assert node.call("GET", path, key=bo, params=at).status_code == 404
    add_member(node, ann, "bo", "reader")  # later than the requested moment
    assert node.call("GET", path, key=bo, params=at).status_code == 200
    assert node.call("POST", "/v1/recall", key=bo, json=recalled).json()["total_scored"] == 1
    gone = node.call("DELETE", "/v1/gardens/ops/members/agent:bo", key=ann)
    assert gone.status_code == 204
    assert node.call("GET", path, key=bo, params=at).status_code == 404
    assert node.call("POST", "/v1/recall", key=bo, json=recalled).json()["total_scored"] == 0


def test_facts_contradict_each_other_within_a_garden_alone(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    create_garden(node, ann, "lab")
    open_fact = node.state(key=ann, v="CEO")
    for garden in ("ops", "lab"):
        assert not node.state(key=ann, v="CTO", garden_id=garden)["contradicted"]
    page = node.call("GET", "/v1/facts", key=ann).json()
    assert page["total"] == 3
    assert not any(each["contradicted"] for each in page["facts"])
    assert node.state(key=ann, v="CFO", garden_id="lab")["contradicted"]
    found = node.call("GET", "/v1/conflicts", key=ann).json()["conflicts"]
    assert len(found) == 1
    assert found[0]["fact_a"]["garden_id"] == found[0]["fact_b"]["garden_id"] is not None
    winner = {"winning_fact_id": found[0]["fact_b"]["id"]}
    path = f"/v1/conflicts/{found[0]['conflict_id']}/resolve"
    bo = node.key_of("bo")
    assert node.call("POST", path, key=bo, json=winner).status_code == 404
    add_member(node, ann, "bo", "reader", "lab")
    assert node.call("POST", path, key=bo, json=winner).status_code == 403
    settled = node.call("POST", path, key=ann, json=winner).json()
    note = node.call("GET", f"/v1/facts/{settled['resolution_fact_id']}", key=ann).json()
    assert note["garden_id"] == found[0]["fact_a"]["garden_id"]
    assert node.call("GET", f"/v1/facts/{open_fact['id']}", key=ann).status_code == 200


def test_the_same_two_values_are_a_conflict_in_each_garden_and_outside(node: LiveNode) -> None:
    ann = node.key_of("ann")
    gardens = [None, *(create_garden(node, ann, slug)["id"] for slug in ("ops", "lab"))]
    for garden in gardens:
        for value in ("CEO", "CTO"):
            node.state(key=ann, v=value, garden_id=garden)
    found = node.call("GET", "/v1/conflicts", key=ann).json()["conflicts"]
    sides = [(each["fact_a"]["garden_id"], each["fact_b"]["garden_id"]) for each in found]
    assert sides == [(garden, garden) for garden in reversed(gardens)]


def test_a_former_writer_changes_no_attributes_of_its_facts(node: LiveNode) -> None:
    ann, bo = node.key_of("ann"), node.key_of("bo")
    create_garden(node, ann)
    add_member(node, ann, "bo", "writer")
    path = f"/v1/facts/{node.state(key=bo, garden_id='ops')['id']}/attributes"
    assert node.call("PATCH", path, key=bo, json={"relevance": 10}).status_code == 200
    member = "/v1/gardens/ops/members/agent:bo"
    assert node.call("PATCH", member, key=ann, json={"role": "reader"}).is_success
    assert node.call("PATCH", path, key=bo, json={"relevance": 20}).status_code == 403
    assert node.call("DELETE", member, key=ann).is_success
    assert node.call("PATCH", path, key=bo, json={"relevance": 20}).status_code == 404


def test_a_denial_in_a_garden_ends_the_gardens_fact(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    outside = node.state(key=ann, v="CEO")
    inside = node.state(key=ann, v="CEO", garden_id="ops")
    assert outside["id"] != inside["id"]
    assert outside["cid"] == inside["cid"]
    node.state(key=ann, v="retracted", confidence=0.0, garden_id="ops")
    listed = node.call("GET", "/v1/facts", key=ann).json()["facts"]
    assert [each["id"] for each in listed] == [outside["id"]]
    bo = node.key_of("bo")
    add_member(node, ann, "bo", "reader")
    again = node.state(key=ann, v="CFO", garden_id="ops")
    refused = node.call("POST", f"/v1/facts/{again['id']}/retract", key=bo, json={})
    assert refused.status_code == 403


def test_lists_and_recalls_stay_within_a_named_garden(node: LiveNode) -> None:
    ann = node.key_of("ann")
    garden = create_garden(node, ann)
    node.state(key=ann, v="atlas outside")
    inside = node.state(key=ann, relation="memory:plan", v="atlas inside", garden_id="ops")
    for name in ("ops", "OPS ", garden["id"], garden["garden_id"]):
        page = node.call("GET", "/v1/facts", key=ann, params={"garden_id": name}).json()
        assert [each["id"] for each in page["facts"]] == [inside["id"]]
        asked = {"query": "atlas", "garden_id": name}
        found = node.call("POST", "/v1/recall", key=ann, json=asked).json()
        assert [item["fact"]["id"] for item in found["facts"]] == [inside["id"]]
        asked["token_budget"] = "500"
        found = node.call("GET", "/v1/recall", key=ann, params=asked).json()
        assert [item["fact"]["id"] for item in found["facts"]] == [inside["id"]]
    foreign = "stigmem://elsewhere.example/garden/ops"
    answer = node.call("POST", "/v1/recall", key=ann, json={"query": "x", "garden_id": foreign})
    assert status_and_body(answer) == NOT_FOUND


def test_an_export_has_the_facts_and_episodes_of_the_callers_gardens(node: LiveNode) -> None:
    ann, bo = node.key_of("ann"), node.key_of("bo")
    create_garden(node, ann)
    for garden, where in ((None, "outside"), ("ops", "inside")):
        node.state(key=ann, v=f"a fact {where}", garden_id=garden)
        put(node, key=ann, content=f"words {where}", scope="company", garden_id=garden)
    told_to = {key: node.call("GET", "/v1/export", key=key).text for key in (ann, bo)}
    for said in ("a fact", "words"):
        assert f"{said} outside" in told_to[ann]
        assert f"{said} inside" in told_to[ann]
        assert f"{said} outside" in told_to[bo]
        assert f"{said} inside" not in told_to[bo]


def test_a_sweep_reaches_only_gardens_that_the_caller_writes_in(node: LiveNode) -> None:
    ann, bo, cy = node.key_of("ann"), node.key_of("bo"), node.key_of("cy")
    create_garden(node, ann)
    add_member(node, ann, "bo", "reader")
    stated = node.state(key=ann, garden_id="ops")
    node.state(key=ann)
    sweep = {"scope": "company", "ttl_seconds": 0}
    for key in (bo, cy):
        node.state(key=key, relation=f"memory:{key[:12]}")
        assert node.call("POST", "/v1/decay/sweep", key=key, params=sweep).json()["decayed"] > 0
        kept = node.call("GET", f"/v1/facts/{stated['id']}", key=ann).json()
        assert kept["confidence"] == 1.0
    assert node.call("POST", "/v1/decay/sweep", key=ann, params=sweep).json()["decayed"] == 1
    gone = node.call("GET", f"/v1/facts/{stated['id']}", key=ann).json()
    assert gone["confidence"] == 0.0


def test_garden_facts_have_their_own_stream(node: LiveNode) -> None:
    ann = node.key_of("ann")
    garden = create_garden(node, ann)
    node.state(key=ann)
    stated = node.state(key=ann, garden_id="ops", v="a")
    node.state(key=ann, garden_id="ops", v="b")
    node.call("POST", f"/v1/facts/{stated['id']}/retract", key=ann, json={})
    streams = {
        name.split("/", 2)[2]: head.stream_seq
        for name, head in node.node.log.stream_heads().items()
    }
    assert streams[f"garden/{garden['id']}"] == 3
    assert streams["scope/company"] == 1


def test_a_rebuild_finds_gardens_members_and_reviews_again(node: LiveNode) -> None:
    ann = node.key_of("ann")
    create_garden(node, ann)
    create_garden(node, ann, "wait", quarantine=True)
    add_member(node, ann, "bo", "writer")
    node.call("PATCH", "/v1/gardens/ops/members/agent:bo", key=ann, json={"role": "reader"})
    waiting = node.state(key=ann, garden_id="wait")
    node.state(key=ann, garden_id="ops", v="x")
    node.call("POST", f"/v1/quarantine/{waiting['id']}/admit", key=ann)
    before = node.node.reader.digests()
    assert node.node.rebuild().compared
    after = node.node.reader.digests()
    assert (after.local, after.tables) == (before.local, before.tables)
    assert node.call("GET", "/v1/gardens/ops", key=node.key_of("bo")).status_code == 200
