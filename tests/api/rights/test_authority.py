"""Who may end a fact, hide it or weaken it: the table of ``docs/ending-facts.md``, row by row."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

ANN, MAX = "agent:ann", "agent:max"
USER = "user:x"


class World:
    """A node where ANN stated a fact, and MAX, who may write as ANN, did not."""

    def __init__(self, node: LiveNode) -> None:
        self.node = node
        self.ann = node.mint("read", "write", entity=ANN, sources=None)
        self.max = node.mint("read", "write", entity=MAX, sources=None)
        self.admin = node.mint("read", "write", "admin", entity="agent:root", sources=None)
        self.both = node.mint("read", "write", entity="agent:desk", sources=[ANN, MAX])

    def post(self, path: str, key: str | None, body: object, **params: Any) -> Any:
        return self.node.call("POST", path, key=key, json=body, params=params)

    def say(self, key: str | None, source: str, v: str = "CEO", **fields: Any) -> dict[str, Any]:
        return self.node.state(key=key, entity=USER, source=source, v=v, **fields)

    def deny(self, key: str | None, source: str, v: str = "retracted", **fields: Any) -> Any:
        return self.say(key, source, v, confidence=0.0, **fields)

    def listed(self, **params: Any) -> list[str]:
        found = self.node.call(
            "GET", "/v1/facts", key=self.ann, params={"entity": USER, "limit": 500, **params}
        )
        return [each["value"]["v"] for each in found.json()["facts"]]

    def recalled(self, query: str = "CEO") -> list[dict[str, Any]]:
        answer = self.post("/v1/recall", self.ann, {"query": query, "scope": "company"}).json()
        return [each["fact"] for each in answer["facts"]]

    def retract(self, key: str | None, fact_id: str) -> Any:
        return self.post(f"/v1/facts/{fact_id}/retract", key, {})

    def conflicts(self, key: str, status: str = "unresolved") -> list[dict[str, Any]]:
        found = self.node.call("GET", "/v1/conflicts", key=key, params={"status": status})
        return found.json()["conflicts"]

    def resolve(self, key: str, conflict: dict[str, Any], winner: str) -> Any:
        path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
        return self.post(path, key, {"winning_fact_id": winner})


@pytest.fixture
def world(serve: Callable[..., LiveNode]) -> World:
    return World(serve(auth_required=True))


def forbidden(answer: Any) -> bool:
    return bool(answer.status_code == 403 and answer.json()["detail"]["code"] == "source_forbidden")


# -- records of confidence 0 ----------------------------------------------------------------


@pytest.mark.parametrize("v", ["CEO", "retracted"])
def test_another_source_denies_and_ends_nothing(world: World, v: str) -> None:
    said = world.say(world.ann, ANN)
    marker = world.deny(world.max, MAX, v)
    assert marker["confidence"] == 0.0
    assert world.listed() == ["CEO"]
    stands = world.node.call("GET", f"/v1/facts/{said['id']}", key=world.ann).json()
    assert (stands["confidence"], stands["contradicted"]) == (1.0, True)
    assert [(each["id"], each["contradicted"]) for each in world.recalled()] == [(said["id"], True)]
    (conflict,) = world.conflicts(world.ann)
    assert (conflict["fact_a"]["id"], conflict["fact_b"]["id"]) == (marker["id"], said["id"])


def test_many_denials_weigh_as_one(world: World) -> None:
    world.say(world.ann, ANN)

    def score() -> float:
        answer = world.post("/v1/recall", world.ann, {"query": "CEO", "scope": "company"})
        return float(answer.json()["facts"][0]["score"])

    whole = score()
    world.deny(world.max, MAX)
    denied = score()
    for _ in range(5):
        world.deny(world.max, MAX)
    assert denied == pytest.approx(0.85 * whole, rel=0.02)
    assert score() == pytest.approx(denied, rel=0.02)


def test_a_denial_does_not_cover_another_value(world: World) -> None:
    said = world.say(world.ann, ANN)
    world.deny(world.max, MAX, "CTO")
    stands = world.node.call("GET", f"/v1/facts/{said['id']}", key=world.ann).json()
    assert not stands["contradicted"]
    assert not world.conflicts(world.ann)


@pytest.mark.parametrize("v", ["CEO", "CTO", "retracted"])
def test_a_source_ends_its_own(world: World, v: str) -> None:
    world.say(world.ann, ANN)
    world.deny(world.ann, ANN, v)
    assert world.listed() == []
    assert not world.conflicts(world.ann)


def test_of_a_set_valued_relation_a_source_ends_the_equal_value(world: World) -> None:
    for v in ("a", "b"):
        world.say(world.ann, ANN, v, relation="rel:likes")
    world.deny(world.ann, ANN, "a", relation="rel:likes")
    assert world.listed() == ["b"]
    world.deny(world.ann, ANN, relation="rel:likes")
    assert world.listed() == []


@pytest.mark.parametrize("how", ["says it again", "retracts the denial", "the target ends"])
def test_a_denial_ends(world: World, how: str) -> None:
    said = world.say(world.ann, ANN)
    marker = world.deny(world.max, MAX)
    if how == "says it again":
        world.say(world.max, MAX)
    elif how == "retracts the denial":
        assert forbidden(world.retract(world.ann, marker["id"]))
        assert world.retract(world.max, marker["id"]).status_code == 200
        assert world.retract(world.max, marker["id"]).status_code == 409
    else:
        assert world.retract(world.ann, said["id"]).status_code == 200
    assert not world.conflicts(world.ann)
    found = world.node.call("GET", f"/v1/facts/{said['id']}", key=world.ann).json()
    assert not found["contradicted"]


def test_a_denied_fact_stated_again_is_a_new_fact(world: World) -> None:
    said = world.say(world.ann, ANN)
    assert world.say(world.ann, ANN)["id"] == said["id"]
    world.deny(world.max, MAX)
    again = world.say(world.ann, ANN)
    assert again["id"] != said["id"]
    assert not again["contradicted"]
    assert world.say(world.ann, ANN)["id"] == again["id"]


def test_callers_who_may_end_the_loser_settle_a_denial(world: World) -> None:
    said = world.say(world.ann, ANN)
    marker = world.deny(world.max, MAX)
    (conflict,) = world.conflicts(world.ann)
    assert forbidden(world.resolve(world.max, conflict, marker["id"]))
    assert forbidden(world.resolve(world.ann, conflict, said["id"]))
    assert world.resolve(world.both, conflict, marker["id"]).status_code == 200
    assert world.resolve(world.both, conflict, marker["id"]).status_code == 409
    assert world.listed() == world.recalled() == []
    (settled,) = world.conflicts(world.ann, "resolved")
    assert settled["winning_fact_id"] == marker["id"]


def test_a_denial_can_lose(world: World) -> None:
    said = world.say(world.ann, ANN)
    world.deny(world.max, MAX)
    (conflict,) = world.conflicts(world.admin)
    assert world.resolve(world.admin, conflict, said["id"]).status_code == 200
    assert [(each["id"], each["contradicted"]) for each in world.recalled()] == [
        (said["id"], False)
    ]


def test_a_new_value_settles_a_denial(world: World) -> None:
    world.say(world.ann, ANN)
    world.deny(world.max, MAX)
    (conflict,) = world.conflicts(world.ann)
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    body = {"new_value": {"type": "string", "v": "CFO"}}
    assert forbidden(world.post(path, world.max, body))
    assert world.post(path, world.both, body).status_code == 200
    assert world.listed() == ["CFO"]


# -- by id -----------------------------------------------------------------------------------


def test_retracting_by_id_needs_the_right_to_the_source(world: World) -> None:
    for key in (world.ann, world.both, world.admin, CONTROL_TOKEN):
        said = world.say(world.ann, ANN)
        assert forbidden(world.retract(world.max, said["id"]))
        assert world.listed() == ["CEO"]
        assert world.retract(key, said["id"]).status_code == 200
        assert world.listed() == []


def test_an_unreadable_fact_is_absent(world: World) -> None:
    narrow = world.node.mint("read", "write", entity=MAX, sources=None, scopes=["public"])
    said = world.say(world.ann, ANN)
    absent = world.retract(narrow, "018bcfe5-6800-7000-8000-000000000001")
    hidden = world.retract(narrow, said["id"])
    assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
    secret = world.say(world.ann, ANN, "S", scope="team", attributes={"classification": 2})
    hidden = world.retract(world.max, secret["id"])
    assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
    assert world.retract(world.ann, secret["id"]).status_code == 200


def test_a_batch_has_the_same_rule(world: World) -> None:
    said = world.say(world.ann, ANN)
    items = [{"op": "retract", "id": said["id"]}]
    (result,) = world.post("/v1/facts/batch", world.max, items).json()["results"]
    assert (result["status"], result["error"]["detail"]["code"]) == (403, "source_forbidden")
    (result,) = world.post("/v1/facts/batch", world.ann, items).json()["results"]
    assert result["status"] == 200


def test_in_a_garden_its_moderators_end(world: World) -> None:
    made = world.post("/v1/gardens", world.admin, {"slug": "g", "name": "G", "scope": "company"})
    assert made.status_code == 201, made.text
    for member, role in ((ANN, "writer"), (MAX, "writer"), ("agent:mod", "admin")):
        added = world.post(
            "/v1/gardens/g/members", world.admin, {"entity_uri": member, "role": role}
        )
        assert added.status_code == 201, added.text
    moderator = world.node.mint("read", "write", entity="agent:mod", sources=None)
    said = world.say(world.ann, ANN, garden_id="g")
    assert forbidden(world.retract(world.max, said["id"]))
    assert world.retract(moderator, said["id"]).status_code == 200


def test_without_authentication_routes_by_id_are_the_operators(live: LiveNode) -> None:
    said = live.state(source=ANN)
    live.state(source=MAX, v="retracted", confidence=0.0)
    shown = live.call("GET", "/v1/facts", params={"entity": said["entity"]}).json()
    assert [each["id"] for each in shown["facts"]] == [said["id"]]
    assert live.call("POST", f"/v1/facts/{said['id']}/retract", json={}).status_code == 200


# -- every other command -----------------------------------------------------------------------


def test_resolving_ends_the_loser(world: World) -> None:
    world.say(world.ann, ANN)
    mine = world.say(world.max, MAX, "CTO")
    (conflict,) = world.conflicts(world.ann)
    assert forbidden(world.resolve(world.max, conflict, mine["id"]))
    assert sorted(world.listed()) == ["CEO", "CTO"]
    assert world.resolve(world.ann, conflict, mine["id"]).status_code == 200
    assert world.listed() == ["CTO"]
    assert [each["value"]["v"] for each in world.recalled("CEO CTO")] == ["CTO"]


def test_merging_and_attributes_take_ones_own(world: World) -> None:
    one, other = (world.say(world.ann, ANN, v, relation="rel:m") for v in ("a b c", "a b d"))
    assert forbidden(world.post("/v1/memories/merge", world.max, {"ids": [one["id"], other["id"]]}))
    path = f"/v1/facts/{one['id']}/attributes"
    body = {"relevance": -20}
    assert forbidden(world.node.call("PATCH", path, key=world.max, json=body))
    assert world.node.call("PATCH", path, key=world.ann, json=body).status_code == 200


def test_feedback_against_a_fact_needs_its_recall(world: World) -> None:
    said = world.say(world.ann, ANN)
    body = {"rejected": [said["id"]]}
    assert forbidden(world.post("/v1/recall/feedback", world.max, body))
    assert world.post("/v1/recall/feedback", world.max, {"cited": [said["id"]]}).status_code == 200
    asked = world.post("/v1/recall", world.max, {"query": "CEO", "scope": "company"}).json()
    told = {**body, "receipt_id": asked["receipt_id"]}
    rights = ("read", "write", "audit.read")
    auditor = world.node.mint(*rights, entity="agent:auditor", sources=[])
    assert forbidden(world.post("/v1/recall/feedback", auditor, told)), "it did not recall it"
    assert world.post("/v1/recall/feedback", world.max, told).status_code == 200
    assert world.post("/v1/recall/feedback", world.ann, body).status_code == 200


def test_decay_by_limits_of_ones_own_ends_every_source(world: World) -> None:
    world.say(world.ann, ANN)
    limits = {"ttl_seconds": 0}
    assert forbidden(world.post("/v1/decay/sweep", world.max, limits))
    assert world.post("/v1/decay/sweep", world.max, {**limits, "dry_run": True}).status_code == 200
    policy = {"mode": "retract", "ttl_s": 1}
    path = "/v1/decay/policies/p"
    assert forbidden(world.node.call("PUT", path, key=world.max, json=policy))
    assert world.node.call("PUT", path, key=world.admin, json=policy).status_code == 200
    assert forbidden(world.node.call("DELETE", path, key=world.max))
    assert world.post("/v1/decay/sweep", world.max, {}).status_code == 200
    assert world.post("/v1/decay/sweep", world.admin, limits).status_code == 200


def test_names_and_several_values_are_for_those_who_may_end_everything(world: World) -> None:
    world.say(world.ann, ANN)
    alias = {"raw_uri": USER, "canonical_uri": "user:elsewhere"}
    assert forbidden(world.post("/v1/aliases", world.max, alias))
    assert world.post("/v1/aliases", world.admin, alias).status_code == 201
    assert forbidden(world.node.call("DELETE", f"/v1/aliases/{USER}", key=world.max))
    relations = {"relations": ["memory:role"]}
    path = "/v1/relations/set-valued"
    assert forbidden(world.node.call("PUT", path, key=world.max, json=relations))
    assert world.node.call("PUT", path, key=world.admin, json=relations).status_code == 200


ADMINS = [
    ("PUT", "/v1/trust/sources", {"source": ANN, "trust": 0.0}),
    ("POST", "/v1/tombstones", {"entity_uri": USER, "scope": "all"}),
    ("POST", "/v1/erasures", {"entity": USER}),
    ("PUT", "/v1/consolidation/rules/r", {"cadence": {"every": 1}}),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMINS)
def test_only_admins_may_hide_for_all(
    world: World, method: str, path: str, body: dict[str, Any]
) -> None:
    world.say(world.ann, ANN)
    assert world.node.call(method, path, key=world.max, json=body).status_code == 403
    assert world.listed() == ["CEO"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_delta_replaces_only_facts_that_its_actor_may_end(world: World, strict: bool) -> None:
    def apply(key: str, name: str, object: str, replaces: str | None = None) -> Any:
        payload = {"id": name, "subject": "self", "predicate": "lives_in", "object": object}
        delta: dict[str, Any] = {
            "kind": "add" if replaces is None else "update",
            "rule_id": "by-hand",
            "source_episode_ids": ["ep-1"],
            "promotion_ts": "2026-01-01T00:00:00Z",
            "confidence": 1.0,
            "fact_payload": payload,
        }
        if replaces is not None:
            delta["replaces"] = [replaces]
        body = {"user": "mara", "agent": "rag", "scope": "company", "strict": strict}
        return world.post("/v1/deltas", key, {**body, "deltas": [delta]})

    assert apply(world.ann, "home", "Graz").status_code == 200
    refused = apply(world.max, "new", "Linz", "home")
    if strict:
        assert forbidden(refused)
    else:
        (result,) = refused.json()["results"]
        assert result["status"] == "rejected"
        assert result["warnings"][0].startswith("source_forbidden")
    assert apply(world.ann, "new", "Wien", "home").json()["results"][0]["status"] == "applied"


def test_a_caller_states_facts_as_itself(world: World) -> None:
    body = fact(entity=USER, source=ANN, confidence=0.0)
    assert forbidden(world.post("/v1/facts", world.max, body))
