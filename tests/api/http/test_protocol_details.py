"""Small promises of the protocol that its clients rely on, one by one over HTTP."""

import csv
import io
from collections.abc import Generator
from typing import Any

import pytest

from engramlog.api.routes.table import ROUTES
from engramlog.projections.moment import format_instant
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.organisations import DAY_US, Org

PAGE = "https://console.example"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveNode]:
    """A node without authentication."""
    node = LiveNode(tmp_path_factory.mktemp("node") / "open")
    yield node
    node.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveNode]:
    """A node that requires keys and allows the pages of one origin."""
    node = LiveNode(
        tmp_path_factory.mktemp("node") / "guarded",
        auth_required=True,
        cors_allowed_origins=PAGE,
    )
    yield node
    node.close()


def mint(guarded: LiveNode, **fields: Any) -> Any:
    body = {"raw_key": "d" * 40, "entity_uri": "agent:minted", "permissions": ["read"], **fields}
    return guarded.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=body)


def test_every_route_answers_a_preflight_with_its_methods(guarded: LiveNode) -> None:
    methods: dict[str, set[str]] = {}
    for route in ROUTES:
        methods.setdefault(route.path, set()).add(route.method)
    assert len(methods) > 100
    for path, served in methods.items():
        url = path.replace("{", "").replace("}", "").replace(":.+", "")
        asked = {"Origin": PAGE, "Access-Control-Request-Method": min(served)}
        preflight = guarded.call("OPTIONS", url, headers=asked)
        assert preflight.status_code == 200, path
        assert preflight.headers["Access-Control-Allow-Origin"] == PAGE, path
        assert served <= set(preflight.headers["Access-Control-Allow-Methods"].split(", ")), path


def test_system_names_cause_warnings_in_words_that_clients_match(live: LiveNode) -> None:
    by_relation = live.state(entity="user:r", relation="stigmem:mine")
    by_entity = live.state(entity="stigmem:mine:1", relation="memory:x")
    for made, what in ((by_relation, "relation"), (by_entity, "entity")):
        (warning,) = made["warnings"]
        assert warning.startswith(f"{what} 'stigmem:mine")
        assert "reserved system prefix" in warning
    assert live.state(entity="stigmem://t/user/x", relation="memory:x")["warnings"] == []


def test_a_declaration_is_parsed_before_the_answer_without_federation(
    live: LiveNode,
) -> None:
    empty = live.call("POST", "/v1/federation/peers", json={})
    assert empty.status_code == 422
    assert {each["loc"][-1] for each in empty.json()["detail"]} >= {"node_id", "node_url"}
    whole = {
        "node_id": "n", "node_url": "http://127.0.0.1:1", "federation_pubkey": "k",
        "allowed_scopes": ["company"], "signed_at": "2027-01-15T08:00:00Z",
        "declaration_sig": "s",
    }  # fmt: skip
    answer = live.call("POST", "/v1/federation/peers", json=whole)
    assert "federation_disabled" in answer.text


def test_neighbours_in_every_readable_scope(live: LiveNode, guarded: LiveNode) -> None:
    key = guarded.mint("read", "write", entity="agent:links")
    narrow = guarded.mint("read", entity="agent:narrow", scopes=["public"])
    for node, used in ((live, None), (guarded, key)):
        for scope, to in (("company", "user:c"), ("public", "user:p")):
            node.state(key=used, entity="user:hub", relation="rel:knows", type="ref", v=to,
                       scope=scope)  # fmt: skip

    def around(node: LiveNode, used: str | None) -> set[str]:
        params = {"entity": "user:hub", "scope": "global"}
        answer = node.call("GET", "/v1/graph/neighbors", key=used, params=params)
        assert answer.status_code == 200, answer.text
        return {each["entity"] for each in answer.json()["neighbors"]}

    assert around(live, None) == {"user:c", "user:p"}
    assert around(guarded, key) == {"user:c", "user:p"}
    assert around(guarded, narrow) == {"user:p"}


def test_a_last_page_that_is_full_has_no_cursor(live: LiveNode) -> None:
    for n in range(2):
        live.state(entity="user:paged", relation="rel:knows", type="ref", v=f"user:page{n}")
        live.state(entity="user:torn", relation=f"memory:r{n}", v="A")
        live.state(entity="user:torn", relation=f"memory:r{n}", v="B")
    pages = (
        ("/v1/facts", {"entity": "user:paged"}, "limit", "cursor"),
        ("/v1/graph/neighbors", {"entity": "user:paged", "scope": "company"}, "page_size",
         "next_cursor"),
        ("/v1/conflicts", {}, "limit", "cursor"),
        ("/v1/audit", {}, "limit", "cursor"),
        ("/v1/admin/audit", {"event_type": "fact_write"}, "limit", "next_cursor"),
    )  # fmt: skip
    for path, params, size, cursor in pages:

        def page(
            count: int,
            path: str = path,
            params: dict[str, str] = params,
            size: str = size,
        ) -> Any:
            answer = live.call("GET", path, key=CONTROL_TOKEN, params={**params, size: count})
            assert answer.status_code == 200, answer.text
            return answer.json()

        whole = page(200)
        (rows,) = [each for each in whole.values() if isinstance(each, list)][:1]
        assert len(rows) > 1, path
        assert whole[cursor] is None, path
        assert page(len(rows))[cursor] is None, path
        assert page(len(rows) - 1)[cursor] is not None, path


def test_a_routing_reference_to_nothing_is_an_error(live: LiveNode) -> None:
    live.state(entity="intent:1", relation="intent:handoff_to", type="ref", v="agent:gone",
               scope="team")  # fmt: skip
    live.state(entity="intent:1", relation="rel:about", type="ref", v="user:gone", scope="team")
    body = {"scope": "team", "checks": ["broken_ref"]}
    findings = live.call("POST", "/v1/lint", json=body).json()["findings"]
    assert {each["relation"]: each["severity"] for each in findings} == {
        "intent:handoff_to": "error",
        "rel:about": "warning",
    }


def test_a_sweep_counts_each_ended_fact_once(live: LiveNode) -> None:
    live.state(entity="user:old", scope="local", valid_until="2020-01-01T00:00:00Z",
               valid_from="2019-01-01T00:00:00Z")  # fmt: skip
    live.state(entity="user:new", scope="local")
    limits = {"scope": "local", "ttl_seconds": 0}

    def sweep(**more: Any) -> dict[str, Any]:
        return live.call("POST", "/v1/decay/sweep", json={**limits, **more}).json()

    dry = {"scanned": 1, "decayed": 0, "dry_run": True, "would_decay": 1}
    assert sweep(dry_run=True) == dry, "what has expired is not counted again"
    assert sweep() == {"scanned": 1, "decayed": 1, "dry_run": False}
    assert sweep() == {"scanned": 0, "decayed": 0, "dry_run": False}


def test_the_journal_is_for_those_who_may_audit(live: LiveNode, guarded: LiveNode) -> None:
    keyless = guarded.call("GET", "/v1/admin/audit")
    assert (keyless.status_code, keyless.json()["detail"]) == (401, "Authorization header required")
    assert keyless.headers["WWW-Authenticate"] == "Bearer"
    wrong = guarded.call("GET", "/v1/admin/audit", key="x" * 40)
    assert (wrong.status_code, wrong.json()["detail"]) == (401, "Invalid or expired API key")
    refused = (403, {"detail": "audit.read capability required"})
    for node, key in ((live, None), (guarded, guarded.mint("read", "write", entity="agent:rw"))):
        answer = node.call("GET", "/v1/admin/audit", key=key)
        assert (answer.status_code, answer.json()) == refused


def test_a_plus_that_became_a_space_is_read_as_plus_in_a_journal(live: LiveNode) -> None:
    made = live.state(entity="user:plus")["timestamp"]
    assert "+00:00" in made
    exact, meant = (
        live.call("GET", f"/v1/admin/audit?since={since}", key=CONTROL_TOKEN).json()["entries"]
        for since in (made.replace("+", "%2B"), made)
    )
    assert [each["fact_id"] for each in exact] == [each["fact_id"] for each in meant]
    assert len(meant) >= 1


def test_fields_of_a_key_have_one_form(guarded: LiveNode) -> None:
    made = mint(guarded, entity_uri=" stigmem://T.Example/Agent/Big Bot ",
                permissions=["write", "read", "write"]).json()  # fmt: skip
    assert made["entity_uri"] == "stigmem://t.example/agent/big-bot"
    assert made["permissions"] == ["read", "write"]
    me = guarded.call("GET", "/v1/me", key="d" * 40).json()
    assert (me["entity_uri"], me["permissions"]) == (made["entity_uri"], made["permissions"])
    again = mint(guarded)
    assert again.status_code == 409
    assert again.json()["detail"].startswith("raw_key already exists")


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"raw_key": "k" * 31}, 422, "raw_key"),
        ({"permissions": ["fly"]}, 400, "unknown permissions: ['fly']; known: ['admin', "),
        ({"permissions": []}, 400, "permissions"),
        ({"entity_uri": " "}, 400, "invalid_entity_uri"),
        ({"expires_at": "soon"}, 422, "expires_at"),
        ({"tenant_id": "No Tenant"}, 422, "tenant_id"),
    ],
)
def test_an_invalid_key_request_says_why(
    guarded: LiveNode, fields: dict[str, Any], status: int, said: str
) -> None:
    answer = mint(guarded, **{"raw_key": "n" * 40, **fields})
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_an_exported_trail_has_the_protocols_columns(live: LiveNode) -> None:
    made = live.state(entity="user:exported")
    text = live.call("GET", "/v1/audit/export", params={"fact_id": made["id"]}).text
    rows = csv.DictReader(io.StringIO(text))
    assert list(rows.fieldnames or ()) == [
        "id", "fact_id", "event_type", "principal_entity_uri", "principal_oidc_sub", "source",
        "attested_key_id", "attested_key_entity_uri", "attested_key_description", "fact_entity",
        "fact_relation", "fact_value_type", "fact_value_v", "fact_scope", "ts", "position",
        "reason",
    ]  # fmt: skip
    assert [(row["fact_id"], row["fact_scope"]) for row in rows] == [(made["id"], "company")]


def test_the_operator_of_an_open_node_puts_manifests(live: LiveNode) -> None:
    now_us = live.node.clock.now_us()
    times = {
        "issued_at": format_instant(now_us),
        "expires_at": format_instant(now_us + 30 * DAY_US),
    }
    answer = live.call("PUT", "/v1/federation/manifest", json=Org().manifest(**times))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("path", "code"),
    [("/v1/facts/absent", "fact_not_found"), ("/v1/facts/absent/provenance", "fact_not_found")],
)
def test_not_found_answers_have_the_seeds_code(live: LiveNode, path: str, code: str) -> None:
    answer = live.call("GET", path)
    assert (answer.status_code, answer.json()["detail"]) == (404, "fact not found")
    assert [each["code"] for each in answer.json()["errors"]] == [code]
    assert code in answer.headers.values()


@pytest.mark.parametrize("depth", [101, 600])
@pytest.mark.parametrize("path", ["/v1/recall", "/v1/federation/peers/p/revoke", "/v1/intents"])
def test_deep_nesting_is_no_failure(live: LiveNode, path: str, depth: int) -> None:
    body = (b'{"a":' * depth) + b"1" + b"}" * depth
    answer = live.call("POST", path, key=CONTROL_TOKEN, content=body)
    assert answer.status_code in (400, 422)


def test_no_profile_recalls_facts_set_aside(live: LiveNode) -> None:
    entity = {"entity": "user:settled", "scope": "public", "relation": "memory:city"}
    loser = live.state(**entity, v="lives in Lisbon", source="agent:a")["id"]
    winner = live.state(**entity, v="lives in Porto", source="agent:b")["id"]
    conflict, *_ = live.call("GET", "/v1/conflicts").json()["conflicts"]
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    assert live.call("POST", path, json={"winning_fact_id": winner}).status_code == 200
    profiles = [each["name"] for each in live.call("GET", "/v1/profiles").json()["profiles"]]
    assert {"default", "stigmem", "stargraph", "abmind", "abmind-head"} <= set(profiles)
    for profile in profiles:
        ask = {"query": "lives in", "keywords": ["lives"], "scope": "public", "profile": profile}

        plain = live.call("POST", "/v1/recall", json=ask)
        assert plain.status_code == 200, plain.text
        assert loser not in {each["fact"]["id"] for each in plain.json()["facts"]}, profile
        # On request it comes back: as itself, or marked in the card that contains it.
        asked = live.call("POST", "/v1/recall", json={**ask, "include_contradicted": True})
        assert "Lisbon" in str(asked.json()["facts"]), profile


def test_the_operator_of_an_open_node_sets_rules(live: LiveNode) -> None:
    body = {"cadence": {"every": 1_000_000}}
    answer = live.call("PUT", "/v1/consolidation/rules/open", json=body)
    assert answer.status_code in (200, 201), answer.text
