"""Nodes that hold some scopes of a log in PostgreSQL, next to one that holds all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.nodes_over_one_log import SERVER, ask, digests, identity_of, leads, node
from tests.worlds.postgres_servers import Server, new_log, wait_until
from tests.worlds.processes import NodeProcess, engramlog

TEAM = {**SERVER, "STIGMEM_SCOPES": "team,company"}


class Pair:
    """A node with all scopes and one with two."""

    def __init__(self, whole: NodeProcess, part: NodeProcess, url: str, folder: Path) -> None:
        self.whole = whole
        self.part = part
        self.url = url
        self.folder = folder

    def caught_up(self) -> str:
        return f"min_position={position_of(self.whole)}"


@pytest.fixture(scope="module")
def pair(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("scopes")
    with new_log(postgres_server) as url, node(folder / "a", url) as whole:
        identity_of(folder / "a", folder / "b")
        for scope in ("team", "public", "local", "company"):
            assert ask(whole, "POST", "/v1/facts", stated(scope, "before"))[0] == 201
        with node(folder / "b", url, TEAM) as part:
            yield Pair(whole, part, url, folder)


def stated(scope: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "entity": "user:ann",
        "relation": f"memory:{value}",
        "value": {"type": "string", "v": f"{value} in {scope}"},
        "source": "agent:one",
        "scope": scope,
        **more,
    }


def owner(at: NodeProcess) -> dict[str, str]:
    return {"Authorization": f"Bearer {at.control.token}"}


def position_of(at: NodeProcess) -> int:
    return int(ask(at, "GET", "/healthz")[2]["X-Engramlog-Position"])


def values(at: NodeProcess, wait: str) -> list[str]:
    status, page, _ = ask(at, "GET", f"/v1/facts?limit=500&{wait}")
    assert status == 200
    return sorted(each["value"]["v"] for each in page["facts"])


def test_a_node_shows_the_scopes_it_holds_and_writes_to_them(pair: Pair) -> None:
    status, ready, _ = ask(pair.part, "GET", "/readyz")
    assert (status, ready["scopes"]) == (200, ["company", "team"])
    assert "scopes" not in ask(pair.whole, "GET", "/readyz")[1]
    checks = ask(pair.part, "GET", "/v1/doctor")[1]["checks"]
    assert "scopes company, team alone" in checks[0]["detail"]
    status, body, headers = ask(pair.part, "POST", "/v1/facts", stated("team", "after"))
    assert status == 201, body
    wait = f"min_position={headers['X-Engramlog-Position']}"
    of_part = {each for each in values(pair.whole, wait) if "team" in each or "company" in each}
    assert set(values(pair.part, wait)) == of_part >= {"after in team", "before in company"}
    found = ask(pair.part, "POST", "/v1/recall", {"query": "before public team", "scope": "*"})[1]
    assert {each["scope"] for each in found["results"]} == {"team", "company"}
    wait_until(lambda: leads(pair.whole) == 1, "the node with all scopes leads")
    assert leads(pair.part) == 0


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/facts", stated("public", "lost")),
        ("POST", "/v1/facts", {**stated("public", "lost"), "scope": "local"}),
        ("GET", "/v1/facts?scope=public", None),
        ("POST", "/v1/recall", {"query": "before"}),
        ("POST", "/v1/recall", {"query": "before", "scope": "public"}),
        ("POST", "/v1/decay/sweep", {"scope": "public"}),
        ("POST", "/v1/tombstones", {"entity_uri": "stigmem://x.example/user/ann"}),
    ],
)  # fmt: skip
def test_requests_about_another_scope_are_refused_by_name(
    pair: Pair, method: str, path: str, body: dict[str, Any] | None
) -> None:
    before = position_of(pair.part)
    status, refused, _ = ask(pair.part, method, path, body, **owner(pair.part))
    assert (status, refused["detail"]["code"]) == (421, "scope_not_held"), refused
    assert "holds the scopes company, team" in refused["detail"]["message"]
    assert position_of(pair.part) == before


def test_a_batch_and_a_retry_are_refused_item_by_item(pair: Pair) -> None:
    key = {"Idempotency_Key": "elsewhere"}
    assert ask(pair.whole, "POST", "/v1/facts", stated("public", "kept"), **key)[0] == 201
    status, refused, _ = ask(pair.part, "POST", "/v1/facts", stated("public", "kept"), **key)
    assert (status, refused["detail"]["code"]) == (421, "scope_not_held")
    items = [stated("team", "in batch"), stated("public", "in batch")]
    _, answered, _ = ask(pair.part, "POST", "/v1/facts/batch", items)
    text = json.dumps(answered)
    assert "scope_not_held" in text
    held = values(pair.part, pair.caught_up())
    assert not any("public" in each for each in held)


def test_ends_edges_and_erasures_of_other_scopes_change_nothing_here(pair: Pair) -> None:
    made: dict[str, str] = {}
    for scope in ("public", "team"):
        _, body, _ = ask(pair.whole, "POST", "/v1/facts", stated(scope, "ended", source="agent:x"))
        made[scope] = body["id"]
    before = values(pair.part, pair.caught_up())
    retract = f"/v1/facts/{made['public']}/retract"
    assert ask(pair.part, "POST", retract, {})[0] == 404
    assert ask(pair.whole, "POST", retract, {})[0] == 200
    body = {"fact_ids": [made["public"]], "reason": "request"}
    erased = ask(pair.whole, "POST", "/v1/erasures", body, **owner(pair.whole))
    assert erased[0] in (200, 201, 202), erased
    assert values(pair.part, pair.caught_up()) == before
    body = {**body, "fact_ids": [made["team"]]}
    status, refused, _ = ask(pair.part, "POST", "/v1/erasures", body, **owner(pair.part))
    assert (status, refused["detail"]["code"]) == (421, "scope_not_held"), refused
    assert ask(pair.part, "GET", "/readyz")[0] == 200


def test_other_nodes_are_sent_to_a_node_with_all_scopes(pair: Pair) -> None:
    path = "/v1/replication/events"
    status, refused, _ = ask(pair.part, "GET", path, **owner(pair.part))
    assert (status, refused["detail"]["code"]) == (421, "scope_not_held"), refused


def test_tables_follow_the_scopes_however_they_were_made(pair: Pair) -> None:
    fresh = pair.folder / "c"
    identity_of(pair.folder / "a", fresh)
    with node(fresh, pair.url, TEAM) as again:
        assert _digests_at_head(pair, again) == _digests_at_head(pair, pair.part)
        assert digests(again) != _digests_at_head(pair, pair.whole)
    with node(fresh, pair.url) as as_before:
        assert ask(as_before, "GET", "/readyz")[1]["scopes"] == ["company", "team"]
    with node(fresh, pair.url, {**SERVER, "STIGMEM_SCOPES": "*"}) as all_of_them:
        assert _digests_at_head(pair, all_of_them) == _digests_at_head(pair, pair.whole)


def _digests_at_head(pair: Pair, at: NodeProcess) -> Any:
    values(at, pair.caught_up())
    return digests(at)


def test_verify_reads_the_whole_log_and_scopes_need_a_shared_one(
    pair: Pair, tmp_path: Path
) -> None:
    env = {**SERVER, "STIGMEM_LOG": pair.url}
    done = engramlog("replay", "verify", "--data", pair.part.data, env=env)
    assert done.returncode == 0, done.stderr
    refused = engramlog("serve", "--data", tmp_path / "own", "--scopes", "team", "--port", "0")
    assert refused.returncode != 0
    assert "scopes are for a node over a log in PostgreSQL" in refused.stderr
