"""Forks: what would have been answered, without anything having happened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.live import CONTROL_TOKEN, LiveNode, fact

FORK = "/v1/time-travel/fork"
ALICE = "stigmem://t.example/user/alice"
QUESTION = {"query": "who is the chief of tea", "scope": "company", "min_confidence": 0.0}


def supposed(**fields: Any) -> dict[str, Any]:
    return {"op": "assert", **fact(**fields)}


def fork(live: LiveNode, *items: dict[str, Any], key: str | None = None, **body: Any) -> Any:
    body.setdefault("recall", QUESTION) if "state" not in body else None
    return live.call("POST", FORK, key=key, json={"suppose": list(items), **body})


def asked(live: LiveNode, *items: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = fork(live, *items, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_supposed_fact_is_found_and_leaves_nothing(live: LiveNode) -> None:
    old = live.state(v="keeper of tea", relation="memory:job")
    before = traces(live)
    found = asked(live, supposed(v="chief of tea", relation="memory:rank"))
    (made,) = found["supposed"]
    assert (made["op"], made["created"], made["events"]) == ("assert", True, 1)
    assert [each["fact"]["id"] for each in found["without"]["facts"]] == [old["id"]]
    assert [each["fact"]["id"] for each in found["with"]["facts"]] == [made["fact_id"], old["id"]]
    assert found["difference"] == {
        "added": [{"id": made["fact_id"], "rank": 1}],
        "removed": [],
        "moved": [{"id": old["id"], "before": 1, "after": 2}],
    }
    assert traces(live) == before
    assert live.call("GET", f"/v1/facts/{made['fact_id']}").status_code == 404
    assert live.app_tracker().pending == live.app_tracker().waiting == 0


def traces(live: LiveNode) -> Any:
    """Everything that a write could have changed."""
    node = live.node
    files = {
        str(path.relative_to(node.directory.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(node.directory.path.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", ".lock"))
    }
    return node.log.head(), node.log.stream_heads(), node.reader.digests(), files


def test_a_fork_of_the_past_knows_nothing_of_later(live: LiveNode) -> None:
    first = live.state(v="chief of coffee", relation="memory:rank")
    then = f"position:{live.node.log.head().position}"
    live.call("POST", f"/v1/facts/{first['id']}/retract", json={})
    live.state(v="chief of tea", relation="memory:rank")
    found = asked(live, supposed(v="keeper of coffee", relation="memory:job"), as_of=then)
    assert f"position:{found['moment']['position']}" == then
    assert [each["fact"]["id"] for each in found["without"]["facts"]] == [first["id"]]
    gone = asked(live, {"op": "retract", "id": first["id"]}, as_of=then)
    assert gone["with"]["facts"] == []
    assert gone["difference"]["removed"] == [{"id": first["id"], "rank": 1}]
    # Today it is retracted already.
    refused = fork(live, {"op": "retract", "id": first["id"]})
    real = live.call("POST", f"/v1/facts/{first['id']}/retract", json={})
    assert refused.status_code == real.status_code
    assert refused.json()["detail"]["error"] == real.json()["detail"]


def test_states_differ_by_what_is_supposed(live: LiveNode) -> None:
    one = live.state(v="chief", relation="memory:rank")
    other = live.state(v="nobody", relation="memory:rank", source="stigmem://t/agent/b")
    conflict = live.call("GET", "/v1/conflicts").json()["conflicts"][0]["conflict_id"]
    settle = {"op": "resolve", "conflict_id": conflict, "winning_fact_id": one["id"]}
    trust = {"op": "trust", "source": "stigmem://t/agent/b", "trust": 0.5}
    state = {"entity": ALICE, "relation": "memory:rank"}
    found = asked(live, settle, trust, state=state, key=CONTROL_TOKEN)
    changed = {each["id"]: each["fields"] for each in found["difference"]["changed"]}
    assert "contradicted" in changed[one["id"]]
    assert "source_trust" in changed[other["id"]]
    swept = asked(live, {"op": "sweep", "scope": "company", "ttl_seconds": 0}, state=state)
    assert sorted(swept["difference"]["removed"]) == sorted([one["id"], other["id"]])


def test_suppositions_follow_each_other(live: LiveNode) -> None:
    two = asked(
        live,
        supposed(v="chief of tea"),
        supposed(v="chief of coffee", source="stigmem://t/agent/b"),
        state={"entity": ALICE},
    )
    assert [each["contradicted"] for each in two["with"]["facts"]] == [True, True]


Serve = Callable[..., LiveNode]


def test_what_may_not_be_written_may_not_be_supposed(serve: Serve) -> None:
    live = serve(auth_required=True)
    writer = live.mint("read", "write", entity="agent:w", scopes=["company"], sources=["agent:w"])
    reader = live.mint("read", entity="agent:r")
    mine = supposed(source="agent:w")
    assert fork(live, mine, key=writer).status_code == 200
    assert fork(live, mine, key=reader).json()["detail"]["code"] == "supposition_refused"
    for item, status, code in (
        (supposed(source="agent:other"), 403, "source_forbidden"),
        (supposed(source="agent:w", scope="public"), 403, "scope_forbidden"),
        (supposed(source="agent:w", garden_id="secret"), 404, "garden not found"),
        ({"op": "trust", "source": "agent:w", "trust": 1.0}, 403, "admin permission required"),
        ({"op": "retract", "id": "00000000-0000-7000-8000-000000000000"}, 404, "fact not found"),
        ({"op": "resolve", "conflict_id": "none", "winning_fact_id": "x"}, 404, None),
        ({"op": "sweep", "scope": "public", "ttl_seconds": 0}, 403, "scope_forbidden"),
    ):
        answer = fork(live, mine, item, key=writer)
        detail = answer.json()["detail"]
        assert (answer.status_code, detail["code"], detail["index"]) == (
            status, "supposition_refused", 1,
        ), answer.text  # fmt: skip
        error = detail["error"]
        assert code in (None, error if isinstance(error, str) else error["code"]), answer.text


def test_a_fork_shows_nothing_that_its_caller_may_not_read(serve: Serve) -> None:
    live = serve(auth_required=True)
    owner = live.mint("read", "write", entity="agent:o")
    live.call("POST", "/v1/gardens", key=owner, json={"slug": "g", "name": "g", "scope": "company"})
    hidden = live.state(key=owner, v="chief of tea", garden_id="g")
    other = live.mint("read", "write", entity="agent:w")
    item = supposed(v="keeper of tea")
    told = fork(live, item, key=other).text
    assert hidden["id"] not in told
    assert hidden["id"] in fork(live, item, key=owner).text
    gone = fork(live, {"op": "retract", "id": hidden["id"]}, key=other)
    assert (gone.status_code, gone.json()["detail"]["error"]) == (404, "fact not found")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"suppose": []}, 422, None),
        ({"suppose": [supposed()]}, 422, None),
        ({"suppose": [supposed()], "recall": QUESTION, "state": {}}, 422, None),
        ({"suppose": [{"op": "wish"}], "state": {}}, 422, None),
        ({"suppose": [supposed(extra=1)], "state": {}}, 422, None),
        ({"suppose": [supposed()], "state": {}, "as_of": "position:999"}, 400, "as_of_future"),
        ({"suppose": [supposed()], "state": {"as_of": "position:1"}}, 422, None),
        ({"suppose": [supposed()], "state": {"cursor": "x"}}, 422, None),
        ({"suppose": [supposed()], "state": {}, "nonsense": 1}, 422, None),
    ],
)
def test_bad_forks_are_refused(
    live: LiveNode, body: dict[str, Any], status: int, code: str | None
) -> None:
    answer = live.call("POST", FORK, json=body)
    assert answer.status_code == status, answer.text
    if code is not None:
        assert answer.json()["detail"]["code"] == code


def test_a_log_beyond_the_bound_is_not_forked(serve: Serve) -> None:
    live = serve(fork_events_max=3)
    live.state()
    then = "position:1"
    assert fork(live, supposed(v="x"), as_of=then).status_code == 200
    for n in range(3):
        live.state(v=f"v{n}")
    answer = fork(live, supposed(v="x"))
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "fork_too_large")
