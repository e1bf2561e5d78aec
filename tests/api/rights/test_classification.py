"""Classification: who reads which facts, by every route, now and in the past."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.facts.facts import AttributesTaken
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact
from tests.worlds.portable import exported, read_back

ENTITY = "stigmem://t.example/user/alice"


@pytest.fixture
def owner(live: LiveNode) -> str:
    return live.mint("read", "write", entity="agent:owner", sources=[])


@pytest.fixture
def other(live: LiveNode) -> str:
    return live.mint("read", "write", entity="agent:other", sources=[])


def state(live: LiveNode, level: int, key: str, name: str = "owner", **fields: Any) -> str:
    body = {"source": f"agent:{name}", "scope": "team", "v": f"level {level}", **fields}
    return str(live.state(key=key, attributes={"classification": level}, **body)["id"])


def listed(live: LiveNode, key: str, **query: Any) -> set[str]:
    answer = live.call("GET", "/v1/facts", params={"include_contradicted": True, **query}, key=key)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == len(answer.json()["facts"])
    return {each["id"] for each in answer.json()["facts"]}


def recalled(live: LiveNode, key: str, **more: Any) -> set[str]:
    body = {"query": "alice level", "scope": "team", "include_contradicted": True, **more}
    answer = live.call("POST", "/v1/recall", json=body, key=key)
    assert answer.status_code == 200, answer.text
    return {each["fact"]["id"] for each in answer.json()["facts"]}


def patch(live: LiveNode, name: str, key: str, **changes: Any) -> Any:
    return live.call("PATCH", f"/v1/facts/{name}/attributes", json=changes, key=key)


def settled(live: LiveNode, key: str, winner: str) -> str:
    """The note of the only dispute's settlement."""
    (dispute,) = live.call("GET", "/v1/conflicts", key=key).json()["conflicts"]
    path = f"/v1/conflicts/{dispute['conflict_id']}/resolve"
    answer = live.call("POST", path, key=key, json={"winning_fact_id": winner})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["resolution_fact_id"])


def test_each_level_is_for_its_readers(live: LiveNode, owner: str, other: str) -> None:
    ids = [state(live, level, owner) for level in range(4)]
    for key, least in ((other, {*ids[:2]}), (owner, {*ids[:3]}), (CONTROL_TOKEN, {*ids[:3]})):
        assert listed(live, key) == least
        assert recalled(live, key) == least
    statuses = {
        key: [live.call("GET", f"/v1/facts/{each}", key=key).status_code for each in ids]
        for key in (owner, other)
    }
    assert statuses == {owner: [200] * 4, other: [200, 200, 404, 404]}


BY_ID = (
    ("GET", "/v1/facts/{}"),
    ("GET", "/v1/facts/{}/provenance"),
    ("POST", "/v1/facts/{}/verify-cid"),
    ("GET", "/v1/time-travel/facts/{}"),
    ("GET", "/v1/audit/facts/{}"),
)


@pytest.mark.parametrize(("method", "path"), BY_ID)
def test_a_secret_is_shown_by_its_id_to_its_source_alone(
    live: LiveNode, owner: str, other: str, method: str, path: str
) -> None:
    narrow = live.mint("read", entity="agent:owner", sources=[], max_classification=1)
    named = path.format(state(live, 3, owner))
    answers = [live.call(method, named, key=key).status_code for key in (owner, narrow, other)]
    assert answers == [200, 404, 404]


def test_a_question_may_ask_for_less_but_never_for_secrets(
    live: LiveNode, owner: str, other: str
) -> None:
    ids = [state(live, level, owner) for level in range(4)]
    for ceiling, seen in ((0, 1), (1, 2), (2, 3), (3, 3)):
        assert recalled(live, owner, max_classification=ceiling) == {*ids[:seen]}
    assert recalled(live, other, max_classification=3) == {*ids[:2]}
    bad = {"query": "x", "max_classification": 4}
    assert live.call("POST", "/v1/recall", json=bad, key=owner).status_code == 422


def test_thirty_confidential_facts_of_others_do_not_crowd_out_ones_own(
    live: LiveNode, owner: str, other: str
) -> None:
    mine = state(live, 2, owner, v="alice level of old")
    for number in range(30):
        state(live, 2, other, "other", v=f"alice level {number}", relation=f"memory:n{number}")
    assert recalled(live, owner, limit=3) == {mine}


def test_a_keys_ceiling_bounds_all_it_reads_and_passes_on(live: LiveNode, owner: str) -> None:
    ids = [state(live, level, owner) for level in range(3)]
    narrow = live.mint("read", "write", "admin", entity="agent:narrow", max_classification=0)
    assert listed(live, narrow) == {ids[0]}
    assert recalled(live, narrow, max_classification=2) == {ids[0]}
    assert live.call("GET", f"/v1/facts/{ids[1]}", key=narrow).status_code == 404
    body = {"raw_key": "k" * 40, "entity_uri": "agent:child", "permissions": ["read"]}
    made = live.call("POST", "/v1/auth/keys", json=body, key=narrow)
    assert made.json()["max_classification"] == 0
    bad = {**body, "raw_key": "j" * 40, "max_classification": 3}
    assert live.call("POST", "/v1/auth/keys", json=bad, key=narrow).status_code == 422
    asked = {"subject": "agent:narrow", "verb": "read", "object": "scope:team", "ttl_s": 60}
    answer = live.call("POST", "/v1/capabilities", json=asked, key=narrow)
    assert answer.status_code in (403, 422), answer.text


def test_a_key_neither_repeats_nor_ends_what_lies_above_its_ceiling(live: LiveNode) -> None:
    wide = live.mint("read", "write", entity="agent:owner", sources=[])
    narrow = live.mint("read", "write", entity="agent:owner", sources=[], max_classification=0,
                       scopes=["company"])  # fmt: skip
    said = {"source": "agent:owner", "scope": "company", "v": "tea"}
    above = live.state(key=wide, **said)
    again = live.state(key=narrow, **said)
    assert again["id"] != above["id"]
    live.state(key=narrow, **said, confidence=0.0)
    assert live.call("GET", f"/v1/facts/{above['id']}", key=wide).json()["confidence"] == 1.0


def test_reclassifying_hides_a_fact_from_the_past_as_well(
    live: LiveNode, owner: str, other: str
) -> None:
    name = state(live, 1, owner)
    before = f"position:{live.node.log.head().position}"
    assert listed(live, other, as_of=before) == recalled(live, other, as_of=before) == {name}
    answer = patch(live, name, owner, classification=2)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), AttributesTaken)
    assert answer.json()["fact"]["attributes"]["classification"] == 2
    for query in ({}, {"as_of": before}):
        assert listed(live, other, **query) == recalled(live, other, **query) == set()
        assert listed(live, owner, **query) == recalled(live, owner, **query) == {name}
    assert "attributes" in live.call("GET", f"/v1/facts/{name}", key=owner).json()
    then = live.call("GET", f"/v1/facts/{name}", params={"as_of": before}, key=owner).json()
    assert "attributes" not in then


def test_a_fork_of_the_past_hides_facts_classified_since(
    live: LiveNode, owner: str, other: str
) -> None:
    name = state(live, 1, owner)
    before = f"position:{live.node.log.head().position}"
    patch(live, name, owner, classification=2)
    word = {"entity": ENTITY, "relation": "memory:if", "scope": "team"}
    supposed = {**word, "value": {"type": "string", "v": "alice level if"}}
    body = {"as_of": before, "recall": {"query": "alice level", "scope": "team"}}
    for key, seen in ((other, False), (owner, True)):
        source = "agent:owner" if key == owner else "agent:other"
        asked = {**body, "suppose": [{"op": "assert", "source": source, **supposed}]}
        answer = live.call("POST", "/v1/time-travel/fork", json=asked, key=key)
        assert answer.status_code == 200, answer.text
        assert (name in answer.text) is seen


def test_only_an_admin_lowers_and_only_the_source_sets(
    live: LiveNode, owner: str, other: str
) -> None:
    name = state(live, 2, owner)
    low = patch(live, name, owner, classification=1)
    assert (low.status_code, low.json()["detail"]["code"]) == (403, "attribute_forbidden")
    lent = patch(live, name, owner, trust=2)
    assert (lent.status_code, lent.json()["detail"]["code"]) == (403, "attribute_forbidden")
    assert patch(live, name, other, topic="x").status_code == 404
    shown = state(live, 1, owner, relation="memory:shown")
    denied = patch(live, shown, other, topic="x")
    assert (denied.status_code, denied.json()["detail"]["code"]) == (403, "source_forbidden")
    lowered = patch(live, name, CONTROL_TOKEN, classification=0, trust=3)
    assert lowered.status_code == 200, lowered.text
    assert listed(live, other) == {name, shown}
    again = patch(live, name, CONTROL_TOKEN, classification=0)
    assert again.json()["position"] is None
    for body in ({}, {"original": "x"}, {"classification": 4}, {"relevance": 5}):
        assert patch(live, name, owner, **body).status_code == 422, body


def test_setting_one_attribute_leaves_the_others(live: LiveNode, owner: str) -> None:
    given = {"topic": "work", "original": "eredeti", "emotion_tags": ["joy"]}
    name = live.state(source="agent:owner", key=owner, attributes=given)["id"]
    answer = patch(live, name, owner, relevance=10, emotion_score=-4)
    attributes = answer.json()["fact"]["attributes"]
    expected = {"topic": "work", "original": "eredeti", "emotion_tags": ["joy"], "relevance": 10,
                "emotion_score": -4, "tier": "core"}  # fmt: skip
    assert {name: attributes[name] for name in expected} == expected
    back = patch(live, name, owner, tier="general")
    assert back.json()["fact"]["attributes"]["tier"] == "general"


def test_no_card_contains_facts_that_some_of_its_readers_may_not_read(
    live: LiveNode, owner: str, other: str
) -> None:
    state(live, 1, owner, relation="memory:open", v="the open word")
    state(live, 2, owner, relation="memory:shut", v="the hidden word")
    state(live, 0, owner, relation="memory:wide", v="the public word")
    narrow = live.mint("read", entity="agent:narrow", max_classification=0)
    for key in (owner, other, narrow, owner, narrow):
        answer = live.call("GET", f"/v1/cards/{ENTITY}", params={"scope": "team"}, key=key)
        assert answer.status_code == 200, answer.text
        assert "hidden word" not in answer.text
        assert ("open word" in answer.text) is (key != narrow)
        assert "public word" in answer.text


def test_a_hidden_rival_contradicts_nothing_for_callers_who_may_not_read_it(
    live: LiveNode, owner: str, other: str
) -> None:
    state(live, 2, owner, v="one")
    body = fact(source="agent:other", scope="team", v="two")
    written = live.call("POST", "/v1/facts", json=body, key=other).json()
    assert written["contradicted"] is False
    assert live.call("GET", f"/v1/facts/{written['id']}", key=other).json()["contradicted"] is False
    assert live.call("GET", f"/v1/facts/{written['id']}", key=owner).json()["contradicted"] is True
    assert live.call("GET", "/v1/conflicts", key=other).json()["conflicts"] == []
    assert len(live.call("GET", "/v1/conflicts", key=owner).json()["conflicts"]) == 1


def test_audits_and_statements_omit_it(live: LiveNode, owner: str) -> None:
    name = state(live, 2, owner, v="the hidden word")
    state(live, 1, owner, relation="memory:open", v="the open word")
    patch(live, name, owner, topic="quiet")
    live.call("POST", f"/v1/facts/{name}/retract", json={"reason": "hush"}, key=owner)
    admin = live.mint("read", "write", "admin", "audit.read", entity="agent:auditor")
    sql = {"sql": "SELECT * FROM events ORDER BY position"}
    for method, path, body in (
        ("GET", "/v1/audit", None),
        ("GET", "/v1/audit/export?format=csv", None),
        ("GET", f"/v1/audit/facts/{name}", None),
        ("GET", "/v1/admin/audit", None),
        ("POST", "/v1/time-travel/sql", sql),
        ("GET", f"/v1/time-travel/facts/{name}", None),
        ("GET", "/v1/time-travel/diff?from=position:1", None),
        ("GET", "/v1/time-travel/state", None),
        ("GET", "/v1/scopes/team/synthesize", None),
    ):
        answer = live.call(method, path, json=body, key=admin)
        assert "hidden word" not in answer.text, path
        assert "quiet" not in answer.text, path
        assert "hush" not in answer.text, path
        assert answer.status_code == (404 if name in path else 200), (path, answer.text)


def test_a_caller_cannot_end_a_fact_that_it_may_not_read(
    live: LiveNode, owner: str, other: str
) -> None:
    name = state(live, 2, owner)
    assert live.call("POST", f"/v1/facts/{name}/retract", json={}, key=other).status_code == 404
    feedback = {"cited": [name]}
    assert live.call("POST", "/v1/recall/feedback", json=feedback, key=other).status_code == 404
    secret = state(live, 3, owner, relation="memory:secret")
    done = live.call("POST", f"/v1/facts/{secret}/retract", json={}, key=owner)
    assert done.status_code == 200, done.text


def test_a_side_above_the_caller_takes_no_part_in_a_settlement(
    live: LiveNode, owner: str, other: str
) -> None:
    kept = state(live, 1, other, "other", v="a merger")
    state(live, 1, other, "other", v="no merger")
    secret = state(live, 2, owner, v="a takeover")
    settled(live, other, winner=kept)
    open_ones = "/v1/conflicts?status=unresolved"
    assert live.call("GET", open_ones, key=other).json()["conflicts"] == []
    (left,) = live.call("GET", open_ones, key=owner).json()["conflicts"]
    assert {left["fact_a"]["id"], left["fact_b"]["id"]} == {kept, secret}


@pytest.mark.parametrize("wins", [True, False])
def test_the_note_of_a_settlement_is_for_the_readers_of_both_sides(
    live: LiveNode, owner: str, other: str, wins: bool
) -> None:
    secret = state(live, 2, owner, v="a merger")
    plain = state(live, 1, owner, v="no merger")
    note = settled(live, owner, winner=secret if wins else plain)
    everything = {"include_retracted": True}
    assert listed(live, owner, **everything) == {secret, plain, note}
    assert listed(live, other, **everything) == {plain}


@pytest.mark.parametrize("wins", [True, False])
def test_reclassifying_hides_the_notes_of_settlements_as_well(
    live: LiveNode, tmp_path: Path, wins: bool
) -> None:
    owner = live.mint("read", "write", entity="agent:owner", sources=["agent:two"])
    other = live.mint("read", "write", entity="agent:other", sources=[])
    kept = state(live, 1, owner, v="a merger")
    rival = state(live, 1, owner, "two", v="no merger")
    note = settled(live, owner, winner=kept if wins else rival)
    everything = {"include_retracted": True}
    assert listed(live, other, **everything) == {kept, rival, note}
    path, once = f"/v1/facts/{kept}/attributes", {"Idempotency-Key": "once"}
    secret, again = (
        live.call("PATCH", path, key=owner, json={"classification": 2}, headers=once)
        for _ in range(2)
    )
    assert secret.status_code == again.status_code == 200, again.text
    for moment in ({}, {"as_of": f"position:{secret.json()['position'] - 1}"}):
        assert listed(live, other, **everything, **moment) == {rival}
    assert note in listed(live, owner, **everything)
    with read_back(exported(live.node), tmp_path / "copy") as (copy, report):
        assert report.failed == 0
        with copy.reader.pool.connection() as db:
            levels = db.execute("SELECT attributes FROM fact_attributes").fetchall()
        assert len(levels) >= 2, "those of the fact and of its note"
