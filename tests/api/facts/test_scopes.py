"""Lint and synthesis of a scope."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.facts.scopes import LintReport, Synthesis
from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode

ALL = ["contradiction", "stale", "orphan", "broken_ref", "namespacing"]


def lint(live: LiveNode, *checks: str, key: str | None = None, **more: Any) -> dict[str, Any]:
    body = {"scope": "company", **({"checks": list(checks)} if checks else {}), **more}
    answer = live.call("POST", "/v1/lint", key=key, json=body)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    convert(report, LintReport)
    return report


def synthesis(live: LiveNode, *, key: str | None = None, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", "/v1/scopes/company/synthesize", key=key, params=params)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), Synthesis)
    return answer.json()


def found(report: dict[str, Any]) -> list[tuple[str, str, str, str | None, int]]:
    return [
        (each["check"], each["severity"], each["entity"], each["relation"], len(each["fact_ids"]))
        for each in report["findings"]
    ]


def test_a_clean_scope_has_no_findings(live: LiveNode) -> None:
    live.state()
    report = lint(live)
    assert list(report)[:5] == ["findings", "checked_at", "scope", "checks_run", "fact_count"]
    assert (report["findings"], report["scope"], report["checks_run"], report["fact_count"]) == (
        [], "company", ALL, 1,
    )  # fmt: skip


def test_a_contradiction_is_an_error_with_its_two_facts(live: LiveNode) -> None:
    one, other = live.state(v="CEO"), live.state(v="CTO")
    report = lint(live, "contradiction")
    assert found(report) == [("contradiction", "error", one["entity"], "memory:role", 2)]
    assert report["findings"][0]["fact_ids"] == [other["id"], one["id"]]
    conflict = live.call("GET", "/v1/conflicts").json()["conflicts"][0]["conflict_id"]
    live.call("POST", f"/v1/conflicts/{conflict}/resolve", json={"winning_fact_id": one["id"]})
    assert lint(live, "contradiction")["findings"] == []
    then = f"position:{other['position']}"
    assert len(lint(live, "contradiction", as_of=then)["findings"]) == 1


def test_a_finding_quotes_long_values_in_part(live: LiveNode) -> None:
    live.state(v="C" * 5_000)
    live.state(v="short")
    detail = lint(live, "contradiction")["findings"][0]["detail"]
    assert detail == f"'short' (newer) against '{'C' * 199}…'"


def test_validity_that_has_ended_or_soon_will_is_stale(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(1_800_000_000_000_000)  # 2027-01-15T08:00:00Z
    live = serve(clock=clock)
    live.state(entity="user:soon", valid_until="2027-01-15T08:10:00Z")
    live.state(entity="user:late", valid_until="2027-02-15T08:00:00Z")
    assert lint(live, "stale")["findings"] == []
    ahead = found(lint(live, "stale", stale_lookahead_s=600))
    assert ahead == [("stale", "info", "user:soon", "memory:role", 1)]
    assert lint(live, "stale", stale_lookahead_s=599)["findings"] == []
    clock.advance(600_000_000)
    report = lint(live, "stale")
    assert found(report) == [("stale", "warning", "user:soon", "memory:role", 1)]
    assert report["fact_count"] == 1


def test_an_entity_without_live_facts_is_an_orphan(live: LiveNode) -> None:
    kept = live.state(entity="user:kept")
    gone = live.state(entity="user:gone")
    live.state(entity="user:gone", v="retracted", confidence=0.0)
    live.call(
        "POST", f"/v1/facts/{live.state(entity='user:kept', relation='memory:x')['id']}/retract"
    )
    report = lint(live, "orphan")
    assert found(report) == [("orphan", "info", "user:gone", None, 2)]
    assert gone["id"] in report["findings"][0]["fact_ids"]
    assert lint(live, "orphan", entity="user:kept")["findings"] == []
    assert kept["entity"] == "user:kept"


def test_a_ref_to_nothing_is_broken(live: LiveNode) -> None:
    target = live.state(entity="user:there")
    live.state(entity="user:a", relation="rel:knows", type="ref", v="user:there")
    live.state(entity="user:a", relation="rel:likes", type="ref", v="user:nowhere")
    assert found(lint(live, "broken_ref")) == [("broken_ref", "warning", "user:a", "rel:likes", 1)]
    live.call("POST", f"/v1/facts/{target['id']}/retract", json={})
    assert len(lint(live, "broken_ref")["findings"]) == 2
    assert len(lint(live, "broken_ref", relation="rel:knows")["findings"]) == 1


def test_a_relation_without_a_namespace_warns_once_per_key(live: LiveNode) -> None:
    live.state(entity="user:a", relation="role", source="agent:one")
    live.state(entity="user:a", relation="role", source="agent:two")
    live.state(entity="user:b", relation="memory:role")
    assert found(lint(live, "namespacing")) == [("namespacing", "warning", "user:a", "role", 2)]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"scope": "galaxy"}, 400),
        ({"scope": "company", "checks": ["spelling"]}, 422),
        ({"scope": "company", "stale_lookahead_s": -1}, 422),
        ({"scope": "company", "entity": ""}, 422),
    ],
)
def test_a_lint_with_wrong_fields_is_refused(
    refusing: LiveNode, body: dict[str, Any], status: int
) -> None:
    assert refusing.call("POST", "/v1/lint", json=body).status_code == status


def test_lint_skips_and_does_not_count_unreadable_facts(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    wide = live.mint("read", "write", entity="stigmem://t/agent/a")
    narrow = live.mint("read", entity="agent:n", scopes=["public"])
    live.state(key=wide, relation="bare", v="1")
    live.state(key=wide, relation="bare", v="2")
    live.state(key=wide, entity="user:p", scope="public", relation="rel:at", type="ref",
               v="stigmem://t.example/user/alice")  # fmt: skip
    hidden = lint(live, key=narrow)
    assert (hidden["findings"], hidden["fact_count"]) == ([], 0)
    empty = synthesis(live, key=narrow)
    assert (empty["facts"], empty["total_count"], empty["contradiction_count"]) == ([], 0, 0)
    assert (empty["mean_confidence"], empty["freshest_timestamp"]) == (0.0, None)
    # the narrow caller sees no facts about alice, the wide one does
    for key, broken in ((narrow, 1), (wide, 0)):
        report = lint(live, "broken_ref", key=key, scope="public")
        assert len(report["findings"]) == broken


def test_a_scope_in_numbers(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(1_800_000_000_000_000)
    live = serve(clock=clock)
    live.state(entity="user:a", confidence=0.5, valid_until="2027-01-15T08:00:01Z")
    clock.advance(2_000_000)
    first = live.state(entity="user:b", v="one", confidence=0.8)
    last = live.state(entity="user:b", v="two", confidence=0.6)
    clock.advance(3_000_000)
    body = synthesis(live)
    assert list(body)[:9] == [
        "scope", "fact_count", "facts", "contradiction_count", "mean_confidence",
        "freshest_timestamp", "oldest_timestamp", "expired_fact_count", "synthesized_at",
    ]  # fmt: skip
    assert [each["id"] for each in body["facts"]] == [first["id"], last["id"]]
    assert body["facts"][1] == {
        "id": last["id"], "entity": "user:b", "relation": "memory:role",
        "value": {"type": "string", "v": "two"}, "confidence": 0.6,
        "timestamp": last["timestamp"], "valid_until": None, "is_expired": False,
        "age_seconds": 3.0, "contradicted": True, "source": "stigmem://t/agent/a",
    }  # fmt: skip
    assert (body["contradiction_count"], body["mean_confidence"]) == (2, 0.7)
    assert (body["expired_fact_count"], body["fact_count"], body["total_count"]) == (1, 2, 2)
    assert body["synthesized_at"] == "2027-01-15T08:00:05.000000+00:00"
    whole = synthesis(live, include_expired=True, limit=1)
    assert (whole["fact_count"], whole["total_count"]) == (1, 3)
    # (0.5 + 0.8 + 0.6) / 3
    assert whole["mean_confidence"] == 0.633333
    assert whole["oldest_timestamp"] == "2027-01-15T08:00:00.000000+00:00"
    assert [each["is_expired"] for each in synthesis(live, include_expired=True)["facts"]] == [
        False, False, True,
    ]  # fmt: skip
    conflict = live.call("GET", "/v1/conflicts").json()["conflicts"][0]["conflict_id"]
    live.call("POST", f"/v1/conflicts/{conflict}/resolve", json={"winning_fact_id": first["id"]})
    assert synthesis(live)["contradiction_count"] == 0
    then = synthesis(live, as_of=f"position:{last['position']}")
    assert then["contradiction_count"] == 2


@pytest.mark.parametrize(
    ("path", "status"),
    [("galaxy/synthesize", 400), ("company/synthesize?limit=0", 422),
     ("company/synthesize?limit=1001", 422)],
)  # fmt: skip
def test_a_synthesis_with_wrong_parameters_is_refused(
    live: LiveNode, path: str, status: int
) -> None:
    assert live.call("GET", f"/v1/scopes/{path}").status_code == status
