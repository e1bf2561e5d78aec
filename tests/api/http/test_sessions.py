"""The feedback-loop rule: a session writes facts that it read only with provenance."""

from collections.abc import Callable
from typing import Any

import pytest

from engramlog.api.http.state.sessions import Sessions
from tests.worlds.live import LiveNode, fact

HEADERS = {"Stigmem-Session": "sess-1"}
ENTITY = "stigmem://t.example/user/alice"


def write(node: LiveNode, session: str | None = "sess-1", **options: Any) -> int:
    key = options.pop("key", None)
    headers = {} if session is None else {"Stigmem-Session": session}
    body = fact(**{"relation": "memory:derived", "v": "x", **options})
    return node.call("POST", "/v1/facts", key=key, json=body, headers=headers).status_code


READS: dict[str, Callable[[LiveNode, dict[str, Any]], tuple[str, str, Any]]] = {
    "list": lambda node, made: ("GET", "/v1/facts", None),
    "get": lambda node, made: ("GET", f"/v1/facts/{made['id']}", None),
    "get by content": lambda node, made: ("GET", f"/v1/facts/{made['cid']}", None),
    "provenance": lambda node, made: ("GET", f"/v1/facts/{made['id']}/provenance", None),
    "recall": lambda node, made: ("POST", "/v1/recall", {"query": "CEO", "scope": "company"}),
    "recall by get": lambda node, made: (
        "GET", "/v1/recall?query=CEO&token_budget=500&scope=company", None,
    ),
    "card": lambda node, made: ("GET", f"/v1/cards/{ENTITY}?scope=company", None),
    "neighbors": lambda node, made: (
        "GET", f"/v1/graph/neighbors?entity={ENTITY}&scope=company", None,
    ),
    "lint": lambda node, made: ("POST", "/v1/lint", {"scope": "company"}),
    "synthesize": lambda node, made: ("GET", "/v1/scopes/company/synthesize", None),
    "conflicts": lambda node, made: ("GET", "/v1/conflicts", None),
    "state": lambda node, made: ("GET", "/v1/time-travel/state", None),
    "diff": lambda node, made: ("GET", "/v1/time-travel/diff?from=position:1", None),
    "life": lambda node, made: ("GET", f"/v1/time-travel/facts/{made['id']}", None),
    "audit": lambda node, made: ("GET", "/v1/audit", None),
    "audit export": lambda node, made: ("GET", "/v1/audit/export", None),
    "audit of a fact": lambda node, made: ("GET", f"/v1/audit/facts/{made['id']}", None),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_every_way_of_reading_counts(live: LiveNode, name: str) -> None:
    made = live.state(entity=ENTITY)
    live.state(entity=ENTITY, v="CTO", source="stigmem://t/agent/b")
    live.state(entity=ENTITY, relation="rel:knows", type="ref", v="user:bo")
    assert write(live, scope="company") == 201  # before any read
    method, path, body = READS[name](live, made)
    read = live.call(method, path, json=body, headers=HEADERS)
    assert read.status_code == 200, read.text
    assert write(live, v="after") == 403
    assert write(live, v="after", scope="public") == 201
    assert write(live, "sess-2", v="after") == 201
    assert write(live, None, v="and without a session") == 201
    too_long = live.call(method, path, json=body, headers={"Stigmem-Session": "s" * 129})
    assert (too_long.status_code, too_long.json()["detail"]["code"]) == (400, "session_id_too_long")


def test_provenance_must_be_of_the_scope_and_readable(live: LiveNode) -> None:
    inside, outside = live.state(), live.state(scope="public")
    live.call("GET", "/v1/facts", headers=HEADERS)
    summary = {"write_mode": "summarize_with_provenance"}
    assert write(live, **summary) == 403
    assert write(live, **summary, derived_from=[{"hash": outside["cid"]}]) == 403
    assert write(live, **summary, derived_from=[{"hash": "0" * 64}]) == 403
    assert write(live, derived_from=[{"hash": inside["cid"]}]) == 403  # the mode is missing
    assert write(live, **summary, derived_from=[{"hash": inside["cid"]}]) == 201


def test_each_item_of_a_batch_is_judged(live: LiveNode) -> None:
    live.state()
    live.call("GET", "/v1/facts", headers=HEADERS)
    items = [{"op": "assert", **fact(v=v, scope=v)} for v in ("company", "public")]
    results = live.call("POST", "/v1/facts/batch", json=items, headers=HEADERS).json()["results"]
    assert [result["status"] for result in results] == [403, 201]
    assert results[0]["error"]["detail"]["code"] == "feedback_loop_provenance_required"


def test_a_session_is_its_users(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True)
    ann, bob = node.key_of("ann"), node.key_of("bob")
    node.state(key=ann)
    node.call("GET", "/v1/facts", key=ann, headers=HEADERS)
    assert write(node, key=ann) == 403
    assert write(node, key=bob) == 201


def test_an_empty_answer_shows_nothing(live: LiveNode) -> None:
    live.call("GET", "/v1/facts", headers=HEADERS)
    live.call("POST", "/v1/recall", json={"query": "x", "scope": "company"}, headers=HEADERS)
    assert write(live) == 201


def test_the_least_recently_used_sessions_are_dropped_first() -> None:
    sessions = Sessions(sessions_max=2)
    for name in ("a", "b"):
        sessions.note_read("agent:x", name, ["team"])
    sessions.note_read("agent:x", "a", ["local"])
    sessions.note_read("agent:x", "c", ["team"])
    assert sessions.has_read("agent:x", "a", "team")
    assert sessions.has_read("agent:x", "a", "local")
    assert not sessions.has_read("agent:x", "b", "team")
