"""Single cases of hidden data: settlements, receipts, cycles, repetitions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

ENTITY = "stigmem://t.example/user/alice"


@pytest.fixture
def owner(live: LiveNode) -> str:
    return live.mint("read", "write", "audit.read", entity="agent:owner")


@pytest.fixture
def other(live: LiveNode) -> str:
    return live.mint("read", "write", "audit.read", entity="agent:other")


def stated(live: LiveNode, key: str, v: str, name: str, level: int = 1, **more: Any) -> dict:
    fields = {"scope": "team", "source": f"agent:{name}", "v": v, **more}
    attributes = {"attributes": {"classification": level}} if level != 1 else {}
    return live.state(key=key, **fields, **attributes)


def open_pairs(live: LiveNode, key: str) -> list[set[str]]:
    answer = live.call("GET", "/v1/conflicts", key=key, params={"status": "unresolved"})
    return [{each["fact_a"]["id"], each["fact_b"]["id"]} for each in answer.json()["conflicts"]]


def test_a_confidential_fact_in_the_middle_suppresses_no_pair(
    live: LiveNode, owner: str, other: str
) -> None:
    first = stated(live, other, "one", "other")["id"]
    middle = stated(live, owner, "two", "owner", 2)["id"]
    last = stated(live, other, "three", "other")["id"]
    assert open_pairs(live, other) == [{first, last}]
    assert {frozenset(pair) for pair in open_pairs(live, owner)} == {
        frozenset({first, last}),
        frozenset({middle, last}),
    }


def test_the_visible_sides_are_the_settled_ones(live: LiveNode, owner: str, other: str) -> None:
    first = stated(live, other, "one", "other")["id"]
    stated(live, owner, "two", "owner", 2)
    last = stated(live, other, "three", "other")["id"]
    shown = live.call("GET", "/v1/conflicts", key=other).json()["conflicts"][0]
    path = f"/v1/conflicts/{shown['conflict_id']}/resolve"
    done = live.call("POST", path, key=other, json={"winning_fact_id": last})
    assert done.status_code == 200, done.text
    assert open_pairs(live, other) == []
    again = live.call("POST", path, key=other, json={"winning_fact_id": last})
    assert (again.status_code, again.json()["detail"]) == (409, "conflict already resolved")
    settled = live.call("GET", "/v1/conflicts", key=other, params={"status": "resolved"})
    assert settled.json()["conflicts"][0]["winning_fact_id"] == last
    assert live.call("GET", f"/v1/facts/{first}", key=other).json()["contradicted"] is True


def settled_by_owner(live: LiveNode, owner: str, winner: str) -> str:
    """The note of the owner's only dispute, settled in favour of ``winner``."""
    (dispute,) = live.call("GET", "/v1/conflicts", key=owner).json()["conflicts"]
    path = f"/v1/conflicts/{dispute['conflict_id']}/resolve"
    done = live.call("POST", path, key=owner, json={"winning_fact_id": winner})
    assert done.status_code == 200, done.text
    return str(done.json()["resolution_fact_id"])


@pytest.mark.parametrize("open_wins", [True, False])
def test_a_settlement_is_for_those_who_may_read_both_sides(
    live: LiveNode, owner: str, other: str, open_wins: bool
) -> None:
    watch = {"target": "team", "on_change": "wake", "delivery_address": "agent:me"}
    names = {
        key: live.call("POST", "/v1/subscriptions", key=key, json=watch).json()["id"]
        for key in (owner, other)
    }
    told = stated(live, other, "one", "other")["id"]
    kept = stated(live, owner, "two", "owner", 2)["id"]
    note = settled_by_owner(live, owner, told if open_wins else kept)
    statuses = [
        live.call("GET", f"/v1/facts/{note}", key=key).status_code for key in (owner, other)
    ]
    assert statuses == [200, 404]
    for key, knows in ((owner, True), (other, False)):
        path = f"/v1/subscriptions/{names[key]}/events"
        events = live.call("GET", path, key=key).json()["events"]
        assert any(each["event_type"] == "contradiction_resolved" for each in events) is knows
        life = live.call("GET", f"/v1/time-travel/facts/{told}", key=key).json()["events"]
        assert any(each["kind"] == "conflict_resolved" for each in life) is knows
        sql = {"sql": "SELECT count(*) FROM resolutions"}
        rows = live.call("POST", "/v1/time-travel/sql", key=key, json=sql).json()["rows"]
        assert rows == [[int(knows)]]
        journal = live.call("GET", "/v1/admin/audit", key=key, params={"limit": 500}).json()
        assert (note in str(journal)) is knows


def test_an_event_about_several_facts_names_the_readable_ones(
    live: LiveNode, owner: str, other: str
) -> None:
    told = stated(live, owner, "one", "owner")["id"]
    kept = stated(live, owner, "two", "owner", 2)["id"]
    ended = stated(live, owner, "retracted", "owner", confidence=0.0)["id"]
    sql = {"sql": "SELECT fact_ids, detail FROM events WHERE kind = 'fact_retracted'"}
    for key, named in ((owner, [told, kept]), (other, [told])):
        rows = live.call("POST", "/v1/time-travel/sql", key=key, json=sql).json()["rows"]
        assert [set(rows[0][0])] == [{*named, ended}]
        assert (kept in rows[0][1]) is (kept in named)


def test_a_chain_ends_at_an_event_that_the_reader_may_not_know_of(
    live: LiveNode, owner: str, other: str
) -> None:
    """An event whose cause is hidden looks like one without a cause, on every route."""
    told = stated(live, owner, "one", "owner")
    marker = stated(live, owner, "retracted", "owner", confidence=0.0)["id"]
    before = seen_of_chain(live, other, told)
    assert before["causes"] == [marker] == before["named"]
    changed = live.call(
        "PATCH", f"/v1/facts/{marker}/attributes", key=owner, json={"classification": 2}
    )
    assert changed.status_code == 200, changed.text
    assert seen_of_chain(live, owner, told) == before
    alone = seen_of_chain(live, other, told)
    assert alone == {"causes": [], "alone": True, "beside": [], "named": []}


def seen_of_chain(live: LiveNode, key: str, told: dict[str, Any]) -> dict[str, Any]:
    """What a caller sees of what led to the end of a fact; ``named``: ids of causes by all routes,
    each of which has to say the same."""
    page = live.call("GET", "/v1/log", key=key, params={"kind": "fact_retracted"}).json()
    [ended] = page["events"]
    shown = live.call("GET", f"/v1/log/{ended['position']}", key=key).json()
    fact = live.call("GET", f"/v1/time-travel/facts/{told['id']}", key=key).json()
    entity = live.call("GET", f"/v1/time-travel/entities/{told['entity']}", key=key).json()
    touches = [
        each["causation_id"]
        for life in (fact, entity)
        for each in life["events"]
        if each["kind"] == "fact_retracted"
    ]
    sql = {"sql": "SELECT causation_id FROM events WHERE kind = 'fact_retracted'"}
    [[by_sql]] = live.call("POST", "/v1/time-travel/sql", key=key, json=sql).json()["rows"]
    named = {ended["causation_id"], shown["event"]["causation_id"], by_sql, *touches}
    assert len(touches) == 2
    assert len(named) == 1, named
    return {
        "causes": [each["event_id"] for each in shown["causes"]],
        "alone": shown["correlation_id"] == ended["event_id"],
        "beside": [each["event_id"] for each in shown["related"]],
        "named": [each for each in named if each is not None],
    }


def test_a_denial_shows_to_those_alone_who_may_read_it(
    live: LiveNode, owner: str, other: str
) -> None:
    told = stated(live, other, "one", "other")
    stated(live, owner, "one", "owner", 2, confidence=0.0)
    path = f"/v1/facts/{told['id']}"
    for key, shows in ((owner, True), (other, False)):
        found = live.call("GET", path, key=key).json()
        assert found["contradicted"] is shows
        assert bool(live.call("GET", "/v1/conflicts", key=key).json()["conflicts"]) is shows
        answer = live.call("GET", "/v1/admin/audit", key=key, params={"limit": 200})
        assert answer.status_code == 200, answer.text
        assert ("fact_denied" in answer.text) is shows
        sql = {"sql": "SELECT kind FROM events WHERE kind = 'fact_denied'"}
        rows = live.call("POST", "/v1/time-travel/sql", key=key, json=sql).json()["rows"]
        assert bool(rows) is shows
        path_of_life = f"/v1/time-travel/entities/{told['entity']}"
        told_of = live.call("GET", path_of_life, key=key)
        assert told_of.status_code == 200, told_of.text
        assert ("fact_denied" in told_of.text) is shows
    body = {"entity": told["entity"], "relation": told["relation"], "value": told["value"]}
    again = {**body, "scope": told["scope"], "source": told["source"]}
    answer = live.call("POST", "/v1/facts", key=other, json=again)
    assert answer.json()["id"] == told["id"], "what they may not read is no news to them"


def test_a_cycle_through_unreadable_facts_is_accepted(
    live: LiveNode, owner: str, other: str
) -> None:
    mine = stated(live, other, "mine", "other")
    link: dict[str, Any] = {"derived_from": [{"hash": mine["cid"]}]}
    kept = stated(live, owner, "kept", "owner", 2, relation="memory:other", **link)
    body = {
        "entity": mine["entity"],
        "relation": mine["relation"],
        "value": mine["value"],
        "scope": "team",
        "derived_from": [{"hash": kept["cid"]}],
    }
    answer = live.call("POST", "/v1/facts", key=other, json={**body, "source": "agent:other"})
    assert answer.status_code == 201, answer.text
    fact = answer.json()["id"]
    walked = live.call("GET", f"/v1/facts/{fact}/provenance", key=owner, params={"depth": 5})
    assert walked.status_code == 200, walked.text
    seen = stated(live, owner, "seen", "owner", relation="memory:seen", **link)
    body["derived_from"] = [{"hash": seen["cid"]}]
    refused = live.call("POST", "/v1/facts", key=other, json={**body, "source": "agent:other"})
    assert refused.status_code == 400, "a cycle that the writer can see"


def test_a_caller_without_rights_learns_nothing_of_rivals(live: LiveNode, owner: str) -> None:
    mute = live.mint("write", entity="agent:mute")
    theirs = stated(live, owner, "one", "owner")["id"]
    said = stated(live, mute, "two", "mute")
    assert said["contradicted"] is False
    again = stated(live, mute, "two", "mute")
    assert again["id"] == said["id"], "what was said in one's own name is known"
    for path, body in (("retract", {}), ("attributes", {"topic": "x"})):
        method = "PATCH" if path == "attributes" else "POST"
        answer = live.call(method, f"/v1/facts/{theirs}/{path}", key=mute, json=body)
        assert answer.status_code == 404, answer.text


def test_a_record_tells_a_caller_without_rights_of_no_rival(live: LiveNode, owner: str) -> None:
    mute = live.mint("write", entity="agent:mute")
    said = stated(live, mute, "two", "mute")
    stated(live, owner, "one", "owner")
    path = f"/v1/facts/{said['id']}"
    body = {key: said[key] for key in ("entity", "relation", "value", "source", "scope")}
    answers = [
        live.call("POST", "/v1/facts", key=mute, json=body),
        live.call("POST", "/v1/facts/batch", key=mute, json=[body]),
        live.call("PATCH", f"{path}/attributes", key=mute, json={"topic": "x"}),
        live.call("POST", "/v1/facts", key=owner, json=body | {"source": "agent:owner"}),
    ]
    records = [each.json() for each in answers]
    records[1:3] = records[1]["results"][0]["fact"], records[2]["fact"]
    assert [each["contradicted"] for each in records] == [False, False, False, True]


@pytest.mark.parametrize("path", ["/v1/facts/{}/retract", "/v1/facts/batch"])
def test_a_used_key_tells_no_unreadable_fact_from_an_absent_one(
    live: LiveNode, owner: str, other: str, path: str
) -> None:
    """A key that was used before is refused for both alike."""
    mute, used = live.mint("write", entity="agent:mute"), {"Idempotency-Key": "used"}
    confidential = stated(live, owner, "one", "owner", level=2)["id"]
    for key, theirs in ((other, confidential), (mute, stated(live, owner, "two", "owner")["id"])):
        answer = live.call("POST", "/v1/facts", key=key, json=fact(source="agent:x"), headers=used)
        assert answer.status_code == 201, answer.text
        answers: list[tuple[int, str]] = []
        for name in (theirs, "00000000-0000-7000-8000-000000000000"):
            body: Any = [{"op": "retract", "id": name}] if "batch" in path else {}
            for headers in (used, {}):
                asked = live.call("POST", path.format(name), key=key, json=body, headers=headers)
                answers.append((asked.status_code, asked.text))
        assert answers[:2] == answers[2:]


def test_an_intents_name_tells_a_caller_without_rights_of_no_other(
    live: LiveNode, owner: str
) -> None:
    mute = live.mint("write", entity="agent:mute")
    body = {"id": "intent:venue", "to": ["agent:b"], "goal": "book it"}
    theirs = live.call("POST", "/v1/intents", key=owner, json=body | {"from": "agent:owner"})
    assert theirs.status_code == 201, theirs.text
    mine = body | {"from": "agent:mute", "goal": "sell it"}
    said = live.call("POST", "/v1/intents", key=mute, json=mine)
    assert (said.status_code, said.json()["goal"]) == (201, "sell it"), said.text
    again = live.call("POST", "/v1/intents", key=mute, json=mine)
    assert again.status_code == 409, "what was said in one's own name is known"
    kept = live.call("GET", "/v1/intents/intent:venue", key=owner).json()
    assert (kept["from"], kept["goal"]) == ("agent:owner", "book it")


def test_sql_shows_internal_memories_to_no_key_for_public_facts_alone(
    live: LiveNode, owner: str
) -> None:
    spoken = {"user": "ann", "agent": "rag", "scope": "team"}
    episode = spoken | {"session": "s", "content": "tea"}
    lineage = {"source_episode_ids": ["e"], "promotion_ts": "2026-01-01T00:00:00Z"}
    noop = lineage | {"kind": "noop", "rule_id": "r", "confidence": 1.0}
    absent = noop | {"kind": "delete", "replaces": ["gone"]}
    for path, body in (
        ("/v1/episodes", episode),
        ("/v1/deltas", spoken | {"deltas": [noop]}),
        ("/v1/deltas", spoken | {"deltas": [absent]}),
    ):
        assert live.call("POST", path, key=owner, json=body).status_code in (200, 201, 409)
    kinds = ("delta_applied", "delta_rejected", "episode_recorded")
    sql = {"sql": f"SELECT kind FROM events WHERE kind IN {kinds} ORDER BY kind"}
    for level, shown in ((1, kinds), (0, ())):
        permissions = ("read", "audit.read", "admin")
        key = live.mint(*permissions, entity=f"agent:a{level}", max_classification=level)
        rows = live.call("POST", "/v1/time-travel/sql", key=key, json=sql).json()["rows"]
        assert [kind for (kind,) in rows] == list(shown)


def test_receipts_of_questions_about_a_hidden_entity_are_hidden(live: LiveNode, owner: str) -> None:
    stated(live, owner, "one", "owner")
    asked = {"query": "alice", "scope": "team", "entity": ENTITY}
    about = live.call("POST", "/v1/recall", key=owner, json=asked).json()["receipt_id"]
    asked.pop("entity")
    plain = live.call("POST", "/v1/recall", key=owner, json=asked).json()["receipt_id"]
    stone = live.call("POST", "/v1/tombstones", key=CONTROL_TOKEN, json={"entity_uri": ENTITY})
    assert stone.status_code == 201, stone.text
    for key in (owner, CONTROL_TOKEN):
        listed = live.call("GET", "/v1/recall/receipts", key=key, params={"limit": 1}).json()
        assert [each["receipt_id"] for each in listed["receipts"]] == [plain]
        assert listed["cursor"] is None
        assert live.call("GET", f"/v1/recall/receipts/{about}", key=key).status_code == 404
        shown = live.call("GET", f"/v1/recall/receipts/{plain}", key=key)
        assert shown.json()["returned"] == []


def test_partly_visible_settlements_survive_a_restart(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "node", auth_required=True)
    try:
        other = live.mint("read", "write", entity="agent:other")
        owner = live.mint("read", "write", entity="agent:owner")
        stated(live, other, "one", "other")
        stated(live, owner, "two", "owner", 2)
        last = stated(live, other, "three", "other")["id"]
        shown = live.call("GET", "/v1/conflicts", key=other).json()["conflicts"][0]
        path = f"/v1/conflicts/{shown['conflict_id']}/resolve"
        done = live.call("POST", path, key=other, json={"winning_fact_id": last})
        note = done.json()["resolution_fact_id"]
        notes = live.node.reader.image.resolutions.notes()
        assert live.node.reader.slot_of(note) in notes
    finally:
        live.close()
    live = LiveNode(tmp_path / "node", auth_required=True)
    try:
        assert live.node.reader.image.resolutions.notes() == notes
    finally:
        live.close()


def test_an_erasure_shows_admins_no_more_of_a_garden_than_before(
    live: LiveNode, owner: str
) -> None:
    admin = live.mint("read", "admin", entity="agent:admin")
    live.call("POST", "/v1/gardens", key=owner, json={"slug": "ops", "name": "Ops"})
    place = {"key": owner, "source": "agent:owner", "garden_id": "ops"}
    winner, _ = (live.state(v=v, **place)["id"] for v in ("one", "two"))
    (dispute,) = live.call("GET", "/v1/conflicts", key=owner).json()["conflicts"]
    path = f"/v1/conflicts/{dispute['conflict_id']}/resolve"
    body = {"winning_fact_id": winner, "resolution_note": "a merger"}
    assert live.call("POST", path, key=owner, json=body).status_code == 200
    path = f"/v1/time-travel/facts/{winner}"
    assert live.call("GET", path, key=admin).status_code == 404
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json={"fact_ids": [winner]})
    assert erased.status_code == 202, erased.text
    for key, kinds in (
        (admin, ["fact_erased"]),
        (CONTROL_TOKEN, ["conflict_resolved", "fact_erased"]),
    ):
        life = live.call("GET", path, key=key)
        assert [each["kind"] for each in life.json()["events"]] == kinds
        assert ("a merger" in life.text) is (key == CONTROL_TOKEN)


def test_runs_of_a_rule_that_left_a_garden_stay_in_the_garden(
    live: LiveNode, owner: str, other: str
) -> None:
    admin = live.mint("read", "write", "admin", entity="agent:owner")
    live.call("POST", "/v1/gardens", key=owner, json={"slug": "ops", "name": "Ops"})
    said = {"session": "s", "agent": "rag", "user": "ann", "content": "a merger"}
    place = {"scope": "company", "garden_id": "ops", "timestamp": "2026-01-01T00:00:00Z"}
    assert live.call("POST", "/v1/episodes", key=owner, json={**said, **place}).status_code == 201
    rule = {"cadence": {"every": 1000}, "scope": "company"}
    path = "/v1/consolidation/rules/r"
    assert live.call("PUT", path, key=admin, json={**rule, "garden_id": "ops"}).status_code == 201
    assert live.call("POST", f"{path}/run", key=owner, json={}).json()["episodes"] == 1
    assert live.call("PUT", path, key=admin, json=rule).status_code == 200
    for key, count in ((owner, 1), (other, 0)):
        (status,) = live.call("GET", "/v1/consolidation/status", key=key).json()["rules"]
        assert (status["read"], len(status["runs"])) == (count, count)


def test_lint_does_not_tell_in_which_order_hidden_facts_came(
    serve: Callable[..., LiveNode],
) -> None:
    found: list[list[str]] = []
    for hidden in ("user:a", "user:b"):
        live = serve(auth_required=True)
        owner, other = (live.mint("read", "write", entity=f"agent:{n}") for n in ("owner", "other"))
        stated(live, owner, "kept", "owner", 2, entity=hidden, relation="role")
        for entity in ("user:b", "user:a"):
            stated(live, other, "told", "other", entity=entity, relation="role")
        body = {"scope": "team", "checks": ["namespacing"]}
        answer = live.call("POST", "/v1/lint", key=other, json=body).json()
        found.append([each["entity"] for each in answer["findings"]])
    assert found[0] == found[1] == ["user:b", "user:a"]
