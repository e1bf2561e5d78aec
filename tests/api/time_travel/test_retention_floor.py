"""How far back ``as_of`` may go, on every route that takes it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from engramlog.api.routes.table import ROUTES
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.moment import format_instant
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

DAY = 86_400 * 1_000_000
BEGIN = 1_700_000_000_000_000
FORK = "/v1/time-travel/fork"
ALICE = "stigmem://t.example/user/alice"


@pytest.fixture
def aged(serve: Callable[..., LiveNode]) -> tuple[LiveNode, str, str]:
    """A node that keeps ten days, with a fact of twenty days ago and one of today; their ids."""
    clock = FixedClock(BEGIN)
    live = serve(clock=clock, as_of_retention_days=10)
    old = live.state(v="old", relation="tag:old")
    live.call("POST", "/v1/recall", json={"query": "old", "scope": "company"})
    live.run(live.app_tracker().flush())
    clock.advance(20 * DAY)
    new = live.state(v="new", relation="tag:new")
    return live, old["id"], new["id"]


def reads(fact_id: str, at: str) -> list[tuple[str, str, dict[str, Any]]]:
    get = {"params": {"as_of": at}}
    asked = {"query": "old", "scope": "company"}
    supposed = [{"op": "assert", **fact(v="supposed")}]
    where = {"scope": "company", "as_of": at}
    return [
        ("GET", "/v1/facts", get),
        ("GET", f"/v1/facts/{fact_id}", get),
        ("GET", f"/v1/facts/{fact_id}/provenance", get),
        ("POST", "/v1/recall", {"json": {**asked, "as_of": at}}),
        ("GET", "/v1/recall", {"params": {**asked, "token_budget": 100, "as_of": at}}),
        ("GET", "/v1/graph/neighbors", {"params": {**where, "entity": ALICE}}),
        ("GET", f"/v1/cards/{ALICE}", {"params": where}),
        ("GET", "/v1/conflicts", get),
        ("POST", "/v1/lint", {"json": {"scope": "company", "as_of": at}}),
        ("GET", "/v1/scopes/company/synthesize", get),
        ("GET", "/v1/time-travel/state", get),
        ("GET", "/v1/time-travel/diff", {"params": {"from": at}}),
        ("GET", f"/v1/time-travel/facts/{fact_id}", get),
        ("GET", f"/v1/time-travel/entities/{ALICE}", get),
        ("POST", FORK, {"json": {"suppose": supposed, "recall": asked, "as_of": at}}),
        ("POST", "/v1/time-travel/sql", {"json": {"sql": "SELECT 1", "as_of": at}}),
        ("GET", "/v1/log", get),
        ("GET", "/v1/audit", get),
        ("GET", "/v1/audit/export", get),
        ("GET", f"/v1/audit/facts/{fact_id}", get),
        ("GET", "/v1/aliases", get),
        ("GET", "/v1/search", {"params": {"q": "old", "as_of": at}}),
        ("GET", "/v1/trust/sources", get),
        ("GET", "/v1/trust/policy", get),
        ("GET", "/v1/summaries", get),
        ("GET", "/v1/consolidation/status", get),
        ("GET", "/v1/consolidation/rules", get),
        ("GET", "/v1/entities/resolve", {"params": {"uri": ALICE, "as_of": at}}),
        ("GET", "/v1/episodes", {"params": {"user": "u", "as_of": at}}),
        ("GET", "/v1/deltas", {"params": {"user": "u", "as_of": at}}),
        ("GET", "/v1/deltas/facts", {"params": {"user": "u", "as_of": at}}),
    ]


def test_every_route_refuses_a_moment_before_the_floor(aged: tuple[LiveNode, str, str]) -> None:
    live, old, _ = aged
    floor = BEGIN + 10 * DAY
    for at in ("position:1", format_instant(floor - 1), f"{floor // 1000 - 1}.000"):
        for method, path, given in reads(old, at):
            answer = live.call(method, path, key=CONTROL_TOKEN, **given)
            said = (method, path, at, answer.text)
            assert answer.status_code == 400, said
            assert answer.json()["detail"]["code"] == "as_of_before_retention_floor", said


def test_moments_after_the_floor_work(aged: tuple[LiveNode, str, str]) -> None:
    live, old, new = aged
    floor = BEGIN + 10 * DAY
    head = live.node.log.head().position
    # Facts known at the floor are those written before it: the log keeps everything.
    for at, ids in (
        (format_instant(floor), {old}),
        (f"position:{head - 1}", {old}),
        (f"position:{head}", {old, new}),
    ):
        found = live.call("GET", "/v1/facts", params={"scope": "company", "as_of": at}).json()
        assert {each["id"] for each in found["facts"]} == ids, at
        for method, path, given in reads(old, at):
            assert live.call(method, path, key=CONTROL_TOKEN, **given).status_code == 200, path


def test_the_floor_also_applies_to_replays_of_receipts(aged: tuple[LiveNode, str, str]) -> None:
    live, _, _ = aged
    answer = live.call("POST", "/v1/recall", json={"query": "new", "scope": "company"})
    live.run(live.app_tracker().flush())
    receipts = live.call("GET", "/v1/recall/receipts").json()["receipts"]
    fresh = answer.json()["receipt_id"]
    (stale,) = [each["receipt_id"] for each in receipts if each["receipt_id"] != fresh]
    refused = live.call("POST", f"/v1/recall/receipts/{stale}/replay")
    assert refused.json()["detail"]["code"] == "as_of_before_retention_floor"
    assert live.call("POST", f"/v1/recall/receipts/{fresh}/replay").status_code == 200


def test_without_the_setting_the_beginning_is_readable(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(BEGIN)
    live = serve(clock=clock)
    live.call("POST", "/v1/facts", json=fact())
    clock.advance(36_500 * DAY)
    assert live.call("GET", "/v1/facts", params={"as_of": "position:0"}).status_code == 200


def test_every_route_with_a_moment_is_tested() -> None:
    """Routes of single episodes, rules and intents need an existing one."""
    apart = {"/v1/episodes/{}", "/v1/consolidation/rules/{}", "/v1/intents/{}", "/v1/intents"}
    asked = {
        (method, path.replace(ALICE, "{}").replace("some-fact", "{}").replace("/company/", "/{}/"))
        for method, path, _ in reads("some-fact", "position:1")
    }
    taking = {
        (route.method, re.sub(r"\{[^}]*\}", "{}", route.path))
        for route in ROUTES
        for model in (route.query, route.body)
        if model is not None and {"as_of", "from_"} & set(model.model_fields)
    }
    assert {each for each in taking if each[1] not in apart} == asked
