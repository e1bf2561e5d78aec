"""Consolidation: rules fire on their cadence, read every episode once, and lose none."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node import consolidator
from engramlog.api.node.node import Node
from engramlog.api.node.tasks import consolidation_schedule
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import ConsolidationRan
from engramlog.projections.moment import parse_instant
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.memory_commands import ApplyDeltas, Consolidate
from tests.worlds.live import LiveNode
from tests.worlds.memory_requests import apply, delta, facts, objects, put
from tests.worlds.waiting import until

COSTLY = {
    "id": "m",
    "when": [{"field": "content", "op": "regex", "value": r"\w*x\w*y\w*z"}],
    "then": {"emit": "add", "fact": {"predicate": "said", "object": "it"}},
}


def say(live: LiveNode, id: str, user: str = "Alice", **metadata: Any) -> None:
    body = {
        "user": user,
        "session": "S1",
        "agent": "rag",
        "content": f"content of {id}",
        "id": id,
        "metadata": metadata,
    }
    answer = live.call("POST", "/v1/episodes", json=body)
    assert answer.status_code == 201, answer.text


def lives(live: LiveNode, id: str, where: str, user: str = "Alice") -> None:
    say(live, id, user, subject="self", predicate="lives_in", object=where)


def rule(live: LiveNode, name: str = "classifier", **fields: Any) -> dict[str, Any]:
    document = {"cadence": {"every": 1_000_000}, **fields}
    answer = live.call("PUT", f"/v1/consolidation/rules/{name}", json=document, key=admin(live))
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def admin(live: LiveNode) -> str:
    return live.key_of("operator", "read", "write", "admin")


def run(live: LiveNode, name: str = "classifier", **fields: Any) -> dict[str, Any]:
    answer = live.call("POST", f"/v1/consolidation/rules/{name}/run", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ran(live: LiveNode) -> list[ConsolidationRan]:
    events = live.node.log.read(0, 100_000)
    return [e.payload for e in events if isinstance(e.payload, ConsolidationRan)]


def wait_for_runs(live: LiveNode, count: int) -> list[ConsolidationRan]:
    until(lambda: len(ran(live)) >= count)
    return ran(live)


# -- cadence ------------------------------------------------------------------------------


def test_a_rule_of_every_hundred_fires_at_the_hundredth_with_a_hundred_deltas(
    live: LiveNode,
) -> None:
    rule(live, cadence="every: 100 episodes")
    batch = [
        {"user": "Alice", "session": "S", "agent": "rag", "content": f"{n}", "id": f"ep-{n}"}
        for n in range(100)
    ]
    live.call("POST", "/v1/episodes/batch", json={"episodes": batch[:99]})
    live.run(live.app_scheduler().tick())
    assert ran(live) == []
    live.call("POST", "/v1/episodes/batch", json={"episodes": batch[99:]})
    (fire,) = wait_for_runs(live, 1)
    assert (fire.trigger, fire.episodes, fire.applied) == ("every", 100, 100)
    live.run(live.app_scheduler().tick())
    assert len(ran(live)) == 1
    page = live.call("GET", "/v1/deltas", params={"user": "Alice", "limit": 1000}).json()
    assert {each["rule_id"] for each in page["deltas"]} == {"classifier"}
    assert {e for each in page["deltas"] for e in each["source_episode_ids"]} == {
        f"ep-{n}" for n in range(100)
    }


def test_streaming_reads_each_episode_once(live: LiveNode) -> None:
    rule(live, cadence={"every": 1})
    for number in range(3):
        say(live, f"ep-{number}")
    fires = wait_for_runs(live, 3)
    assert [fire.episodes for fire in fires] == [1, 1, 1]


def test_a_timetable_fires_once_for_all_it_missed(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(parse_instant("2026-03-01T00:00:00Z"))
    live = serve(clock=clock, consolidation_enabled=False)
    rule(live, cadence={"cron": "0 3 * * *"})
    rule(live, "strict", cadence={"cron": "0 3 * * *", "missed": "skip"})
    lives(live, "ep-1", "berlin")
    scheduler = live.app_scheduler()
    live.run(scheduler.tick())
    assert ran(live) == []
    clock.set(parse_instant("2026-03-04T12:00:00Z"))
    live.run(scheduler.tick())
    live.run(scheduler.tick())
    (fire,) = ran(live)
    assert (fire.rule_id, fire.scheduled_us) == (
        "classifier",
        parse_instant("2026-03-04T03:00:00Z"),
    )
    clock.set(parse_instant("2026-03-05T03:00:30Z"))
    live.run(scheduler.tick())
    assert sorted(fire.rule_id for fire in ran(live)) == ["classifier", "classifier", "strict"]
    assert objects(live) == ["berlin"]


def test_a_run_survives_a_restart_and_does_not_repeat(tmp_path: Path) -> None:
    clock = FixedClock(parse_instant("2026-03-01T02:59:00Z"))
    live = LiveNode(tmp_path / "node", clock=clock)
    rule(live, cadence={"cron": "0 3 * * *"})
    lives(live, "ep-1", "berlin")
    live.close()
    clock.set(parse_instant("2026-03-01T09:00:00Z"))  # the node slept through it
    for _ in range(2):
        live = LiveNode(tmp_path / "node", clock=clock)
        live.run(live.app_scheduler().tick())
        assert [fire.scheduled_us for fire in ran(live)] == [parse_instant("2026-03-01T03:00:00Z")]
        live.close()


def test_due_rules_run_before_the_node_stops(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "node")
    rule(live, cadence={"every": 2})
    lives(live, "ep-1", "berlin")
    lives(live, "ep-2", "munich")
    live.close()
    node = Node.open(tmp_path / "node")
    runs = [e for e in node.log.read(0, 1000) if isinstance(e.payload, ConsolidationRan)]
    node.close()
    assert len(runs) == 1


# -- the classifier -----------------------------------------------------------------------


def test_a_stop_does_not_wait_for_costly_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation_schedule, "STOP_SECONDS", 0.1)
    live = LiveNode(tmp_path / "node")
    for number in range(8):
        put(live, id=f"slow {number}", content="x" * 4_096)
    rule(live, cadence={"every": 8}, matchers=[COSTLY])
    live.close()
    live = LiveNode(tmp_path / "node", consolidation_enabled=False)
    try:
        assert ran(live) == []
    finally:
        live.close()


def test_distinct_keys_are_added_and_every_lineage_resolves(live: LiveNode) -> None:
    rule(live)
    for number in range(5):
        say(live, f"ep-{number}", subject=f"s{number}", predicate="is", object="x")
    assert run(live)["kinds"] == {"add": 5, "update": 0, "delete": 0, "noop": 0}
    sources = [e for fact in facts(live) for e in fact["lineage"][0]["source_episode_ids"]]
    assert sorted(sources) == [f"ep-{number}" for number in range(5)]
    for episode in sources:
        assert live.call("GET", f"/v1/episodes/{episode}").status_code == 200


@pytest.mark.parametrize("passes", [1, 2])
def test_a_later_word_replaces_the_earlier_in_one_pass_or_two(live: LiveNode, passes: int) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    kinds = [] if passes == 1 else [run(live)["kinds"]]
    lives(live, "ep-2", "munich")
    report = run(live)
    kinds.append(report["kinds"])
    assert [sum(k[name] for k in kinds) for name in ("add", "update")] == [1, 1]
    assert report["deltas"][-1]["replaces"] == ["ep-1"]
    (fact,) = facts(live)
    assert fact["payload"]["object"] == "munich"
    assert fact["lineage"][0]["source_episode_ids"] == ["ep-2"]


def test_intents_update_delete_and_note(live: LiveNode) -> None:
    rule(live)
    apply(live, delta("add", id="fact-old", predicate="lives_in", object="berlin"))
    say(live, "ep-1", intent="update", replaces=["fact-old"], subject="self",
        predicate="lives_in", object="munich")  # fmt: skip
    report = run(live)
    assert report["kinds"]["update"] == 1
    assert objects(live) == ["munich"]
    say(live, "ep-2", intent="noop")
    assert run(live)["kinds"]["noop"] == 1
    assert objects(live) == ["munich"]
    say(live, "ep-3", intent="delete", replaces=["ep-1"])
    assert run(live)["kinds"]["delete"] == 1
    assert objects(live) == []


def test_after_add_and_delete_the_next_is_an_add(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    say(live, "ep-2", intent="delete", replaces=["ep-1"])
    lives(live, "ep-3", "munich")
    report = run(live)
    assert [each["kind"] for each in report["deltas"]] == ["add", "delete", "add"]
    assert objects(live) == ["munich"]


def test_a_fact_retracted_by_hand_stays_retracted(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    run(live)
    apply(live, delta("delete", replaces=["ep-1"]))
    assert run(live)["applied"] == 0
    again = run(live, from_position=1)
    assert (again["episodes"], again["known"], again["applied"]) == (1, 1, 0)
    assert objects(live) == []


def test_words_erased_while_a_run_reads_them_become_no_fact(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(live)
    live.state(entity="user:ann")
    lives(live, "ep-1", "Atlantis", user="user:ann")
    lives(live, "ep-2", "Graz", user="Bo")
    emit = consolidator.emit

    def erase_then_emit(*given: Any) -> Any:
        live.node.write(EraseFacts(erasure_id="e-1", entity="user:ann"))
        monkeypatch.undo()
        return emit(*given)

    monkeypatch.setattr(consolidator, "emit", erase_then_emit)
    assert run(live)["raced"]
    assert run(live)["applied"] == 1
    assert objects(live, user="user:ann") == []
    assert objects(live, user="Bo") == ["Graz"]


def test_of_two_runs_that_read_the_same_episodes_one_writes(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(live)
    lives(live, "ep-1", "Graz")
    emit, head = consolidator.emit, live.node.log.head().position
    another = Consolidate(
        apply=ApplyDeltas(scope="local", proposals=()),
        run=ConsolidationRan("classifier", "run-of-another-node", 0, head, at_us=0),
        expected=0,
    )

    def run_then_emit(*given: Any) -> Any:
        live.node.write(another)
        return emit(*given)

    monkeypatch.setattr(consolidator, "emit", run_then_emit)
    assert run(live)["raced"]
    assert [each.run_id for each in ran(live)] == ["run-of-another-node"]
    assert objects(live) == []


def test_users_do_not_replace_each_others_facts(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-a", "berlin", user="Alice")
    lives(live, "ep-b", "munich", user="Bob")
    assert run(live)["kinds"]["add"] == 2
    assert objects(live) == ["berlin"]
    assert objects(live, user="Bob") == ["munich"]


def test_one_bad_episode_is_set_aside_and_the_others_continue(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    say(live, "bad", subject="self", predicate="lives_in", object=["a", "list"])
    say(live, "worse", intent="explode")
    say(live, "ep-2", subject="self", predicate="drinks", object="tea")
    report = run(live)
    assert (report["applied"], len(report["quarantined"])) == (2, 2)
    assert objects(live) == ["berlin", "tea"]
    status = live.call("GET", "/v1/consolidation/status").json()["rules"][0]
    assert {each["id"] for each in status["quarantined"]} == {"bad", "worse"}
    assert status["pending"] == 0


def test_a_dry_run_shows_a_runs_result_and_writes_nothing(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    lives(live, "ep-2", "munich")
    before = live.node.log.head().position
    planned = run(live, dry_run=True)
    assert live.node.log.head().position == before
    done = run(live)
    strip = ("delta_id", "kind", "source_episode_ids", "promotion_ts")
    assert [[each[name] for name in strip] for each in planned["deltas"]] == [
        [each[name] for name in strip] for each in done["deltas"]
    ]


def test_a_changed_rule_can_read_again_and_settles_on_the_same_facts(live: LiveNode) -> None:
    rule(live)
    lives(live, "ep-1", "berlin")
    lives(live, "ep-2", "munich")
    run(live)
    rule(live, single_valued=["other"])
    again = run(live, from_position=1)
    assert again["known"] == 0
    assert objects(live) == ["munich"]


# -- matchers and salience ----------------------------------------------------------------


def test_matchers_make_facts_from_statements(live: LiveNode) -> None:
    lives_in = {
        "id": "lives-in",
        "when": [{"field": "content", "op": "regex", "value": r"I live in (?P<town>\w+)"}],
        "then": {
            "emit": "add",
            "fact": {"subject": "self", "predicate": "lives_in", "object": "{group.town}"},
            "confidence": 0.8,
        },
    }
    rule(live, matchers=[lives_in])
    for number, text in enumerate(("I live in Graz, you know", "nice weather")):
        body = {"user": "Alice", "session": "S", "agent": "rag", "content": text}
        live.call("POST", "/v1/episodes", json={**body, "id": f"ep-{number}"})
    assert run(live)["kinds"] == {"add": 1, "update": 0, "delete": 0, "noop": 1}
    (fact,) = facts(live)
    assert (fact["payload"]["object"], fact["confidence"]) == ("Graz", 0.8)


def test_salience_gates_consolidation(live: LiveNode) -> None:
    now = live.node.clock.now_us() // 1_000_000
    stamps = {"fresh": now, "day": now - 86_400, "month": now - 30 * 86_400}
    for name, at in stamps.items():
        body = {"user": "Alice", "session": "S", "agent": "rag", "content": name, "id": name}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        live.call("POST", "/v1/episodes", json={**body, "timestamp": stamp})
    live.call("POST", "/v1/episodes/accesses", json={"episodes": ["month"]})
    rule(live, "none", salience={"threshold": 1.01})
    assert run(live, "none", dry_run=True)["gated"] == 3
    rule(live, "all", salience={"threshold": 0})
    assert run(live, "all", dry_run=True)["gated"] == 0
    # add: recency × (0.5 + 0.5·tanh(a/10)) × 0.5; one access today, none elsewhere:
    # fresh 0.25, day 0.25/e = 0.092, month 0.5·(0.5 + 0.5·tanh(0.1)) = 0.275
    rule(live, "some", salience={"threshold": 0.2})
    report = run(live, "some", dry_run=True)
    assert [each["source_episode_ids"] for each in report["deltas"]] == [["fresh"], ["month"]]
    # mul, the seed's formula: an episode without any rule's match scores 0
    rule(live, "seed", salience={"threshold": 0.01, "frequency": "mul"})
    assert run(live, "seed", dry_run=True)["gated"] == 3


# -- rules as documents -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, []),
        ({"cadence": {}}, ["cadence"]),
        ({"cadence": {"every": 0}}, ["cadence"]),
        ({"cadence": {"every": 1, "cron": "* * * * *"}}, ["cadence"]),
        ({"cadence": {"cron": "61 * * * *"}}, ["cadence"]),
        ({"cadence": {"cron": "0 3 * * *", "tz": "Mars/Base"}}, ["cadence"]),
        ({"cadence": {"every": 1}, "sql": "DROP"}, []),
        ({"cadence": {"every": 1}, "salience": {"tau_seconds": 0}}, ["salience", "tau_seconds"]),
        (
            {"cadence": {"every": 1}, "matchers": [
                {"id": "m", "when": [{"field": "nope"}], "then": {"emit": "noop"}}]},
            ["matchers", 0, "when", 0, "field"],
        ),
        (
            {"cadence": {"every": 1}, "matchers": [
                {"id": "m", "when": [{"field": "content", "op": "regex", "value": "(a+)+b"}],
                 "then": {"emit": "noop"}}]},
            ["matchers", 0, "when", 0, "value"],
        ),
    ],
)  # fmt: skip
def test_an_invalid_rule_is_never_stored(
    refusing: LiveNode, document: dict[str, Any], where: list[str | int]
) -> None:
    answer = refusing.call("PUT", "/v1/consolidation/rules/r", json=document, key=admin(refusing))
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", *where]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_shows_only_words_that_its_caller_may_read(
    serve: Callable[..., LiveNode], dry_run: bool
) -> None:
    live = serve(auth_required=True)
    ann, operator = live.key_of("ann"), admin(live)
    body = {"session": "S", "agent": "rag", "content": "a secret"}
    for user in ("Bo", "user:gone"):
        body["user"] = user
        assert live.call("POST", "/v1/episodes", json=body, key=ann).status_code == 201
    body |= {"user": "user:gone", "metadata": {"intent": "delete"}}  # unusable
    assert live.call("POST", "/v1/episodes", json=body, key=ann).status_code == 201
    document = {"cadence": {"every": 1000}}
    live.call("PUT", "/v1/consolidation/rules/r", json=document, key=operator)
    stone = live.call("POST", "/v1/tombstones", json={"entity_uri": "user:gone"}, key=operator)
    assert stone.status_code == 201, stone.text

    def told(key: str) -> Any:
        asked = {"dry_run": dry_run, "from_position": 1}
        return live.call("POST", "/v1/consolidation/rules/r/run", json=asked, key=key)

    writer = live.mint("write", entity="agent:writer")
    cleared = live.mint("read", "write", entity="agent:low", max_classification=0)
    assert told(writer).status_code == 403
    if dry_run:
        assert told(cleared).json()["deltas"] == []
    made = told(ann).json()
    assert [each["user"] for each in made["deltas"]] == ["Bo"]
    assert made["quarantined"] == []


def test_rules_are_versioned_documents_with_a_past(live: LiveNode) -> None:
    first = rule(live)
    then = live.node.log.head().position
    assert rule(live)["version"] == first["version"]
    assert live.node.log.head().position == then
    rule(live, source="agent:memory")
    past = live.call(
        "GET", "/v1/consolidation/rules/classifier", params={"as_of": f"position:{then}"}
    ).json()
    assert past["version"] == first["version"]
    assert "source" not in past["document"]
    path = "/v1/consolidation/rules/classifier"
    assert live.call("DELETE", path, key=admin(live)).status_code == 204
    assert live.call("GET", path).status_code == 404
    assert live.call("POST", f"{path}/run", json={}).status_code == 404


def test_admins_set_rules_and_readers_of_their_scope_see_them(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    rule(live, scope="team")
    local = live.mint("read", "write", entity="agent:local", scopes=["local"])
    team = live.mint("read", entity="agent:team", scopes=["team"])
    path = "/v1/consolidation/rules/classifier"
    assert live.call("GET", path, key=local).status_code == 404
    assert live.call("GET", "/v1/consolidation/status", key=local).json()["rules"] == []
    assert live.call("GET", path, key=team).status_code == 200
    assert live.call("PUT", path, key=local, json={"cadence": {"every": 1}}).status_code == 403
    assert live.call("POST", f"{path}/run", key=local, json={}).status_code == 404
    assert live.call("POST", f"{path}/run", key=team, json={}).status_code == 403


def test_the_recorder_of_the_episode_is_the_source_of_a_rules_facts(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    rule(live)
    key = live.mint("read", "write", entity="agent:rag", sources=[])
    body = {"user": "Alice", "session": "S", "agent": "rag", "content": "hello", "id": "ep-1"}
    live.call("POST", "/v1/episodes", json=body, key=key)
    path = "/v1/consolidation/rules/classifier/run"
    report = live.call("POST", path, json={}, key=admin(live)).json()
    record = live.call("GET", f"/v1/facts/{report['deltas'][0]['fact_id']}", key=key).json()
    assert record["source"] == "agent:rag"


def test_an_episode_that_a_pattern_cannot_search_in_time_is_set_aside(live: LiveNode) -> None:
    rule(live, matchers=[COSTLY])
    put(live, id="slow", content="x" * 4_096)
    put(live, id="good", content="xyz")
    report = run(live)
    assert [each["id"] for each in report["quarantined"]] == ["slow"]
    assert "processor time" in report["quarantined"][0]["reason"]
    assert objects(live) == ["it"]
