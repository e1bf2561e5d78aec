"""Access: keys, permissions by route, and invisible facts."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.http.openapi import openapi_path
from engramlog.api.http.routing import Route
from engramlog.api.routes.table import ROUTES
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

RIGHTS = ("read", "write", "federate", "admin")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """For a bare request of every route, with one key for each right."""
    node = LiveNode(tmp_path_factory.mktemp("asked") / "data", auth_required=True)
    yield node
    node.close()


def concrete(route: Route) -> str:
    return openapi_path(route.path).replace("{", "").replace("}", "")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_requires_its_permission(asked: LiveNode, route: Route) -> None:
    path = concrete(route)
    bare = asked.call(route.method, path)
    if route.permission == "peer":  # a key proves nothing there
        assert bare.status_code in (401, 405)
        assert asked.call(route.method, path, key=asked.key_of("admin", "admin")).status_code in (
            401,
            405,
        )
        return
    if route.permission == "none":
        assert bare.status_code not in (401, 403)
        return
    assert bare.status_code == 401
    assert bare.json() == {"detail": "Authorization header required"}
    assert bare.headers["WWW-Authenticate"] == "Bearer"
    bad = asked.call(route.method, path, key="wrong")
    assert (bad.status_code, bad.json()) == (401, {"detail": "Invalid or expired API key"})
    needed = "admin" if route.permission == "operator" else route.permission
    for right in RIGHTS:
        answer = asked.call(route.method, path, key=asked.key_of(right, right))
        if needed in ("any", right):
            assert answer.status_code not in (401, 403)
        else:
            assert answer.status_code == 403
            what = "capability" if "." in needed else "permission"
            assert answer.json() == {"detail": f"{needed} {what} required"}


def test_without_authentication_anybody_reads_and_writes_but_is_no_admin(live: LiveNode) -> None:
    me = live.call("GET", "/v1/me").json()
    assert me["entity_uri"] == "anon:trusted"
    assert me["permissions"] == ["federate", "read", "write"]
    assert live.call("POST", "/v1/auth/keys", json={}).status_code == 403
    key = live.mint("read", entity="agent:named")
    assert live.call("GET", "/v1/me", key=key).json()["entity_uri"] == "agent:named"
    assert live.call("POST", "/v1/facts", key=key, json=fact()).status_code == 403


def test_an_expired_or_revoked_key_opens_nothing(serve: Callable[..., LiveNode]) -> None:
    from engramlog.eventlog.clock import FixedClock

    clock = FixedClock(1_800_000_000_000_000)
    live = serve(auth_required=True, clock=clock)
    short = live.mint("read", entity="agent:s", expires_at="2027-01-15T08:00:10Z")
    kept = live.mint("read", entity="agent:k")
    assert live.call("GET", "/v1/facts", key=short).status_code == 200
    clock.advance(20_000_000)
    assert live.call("GET", "/v1/facts", key=short).status_code == 401
    mine = live.call("GET", "/v1/auth/keys", key=kept).json()
    assert live.call("DELETE", f"/v1/auth/keys/{mine[0]['id']}", key=kept).status_code == 204
    assert live.call("GET", "/v1/facts", key=kept).status_code == 401


def test_an_unreadable_fact_looks_absent_to_the_byte(guarded: LiveNode) -> None:
    wide = guarded.mint("read", "write", entity="agent:wide")
    narrow = guarded.mint("read", "write", entity="agent:narrow", scopes=["public"])
    hidden = guarded.state(key=wide)
    guarded.state(key=wide, v="other")
    conflict = guarded.call("GET", "/v1/conflicts", key=wide).json()["conflicts"][0]
    absent_id, absent_cid = "00000000-0000-7000-8000-000000000000", "sha256:" + "0" * 64
    absent_conflict = "stigmem:conflict:" + absent_id

    def undated(answer: Any) -> list[tuple[str, str]]:
        return [item for item in answer.headers.items() if item[0].lower() != "date"]

    def both(method: str, path: str, hidden_name: str, absent: str, **options: Any) -> None:
        seen = guarded.call(method, path.format(hidden_name), key=narrow, **options)
        none = guarded.call(method, path.format(absent), key=narrow, **options)
        assert (seen.status_code, seen.content) == (none.status_code, none.content)
        assert seen.status_code == 404
        assert undated(seen) == undated(none)

    both("GET", "/v1/facts/{}", hidden["id"], absent_id)
    both("GET", "/v1/facts/{}", hidden["cid"], absent_cid)
    both("GET", "/v1/facts/{}/provenance", hidden["id"], absent_id)
    both("POST", "/v1/facts/{}/verify-cid", hidden["id"], absent_id)
    both("POST", "/v1/facts/{}/retract", hidden["id"], absent_id, json={})
    both(
        "POST",
        "/v1/conflicts/{}/resolve",
        conflict["conflict_id"],
        absent_conflict,
        json={"winning_fact_id": hidden["id"]},
    )
    for path, params in (
        ("/v1/facts", {"include_contradicted": "true", "include_retracted": "true"}),
        ("/v1/conflicts", {}),
        ("/v1/graph/neighbors", {"entity": hidden["entity"], "scope": "company"}),
    ):
        text = guarded.call("GET", path, key=narrow, params=params).text
        assert hidden["id"] not in text


def test_unreadable_parents_look_absent(guarded: LiveNode) -> None:
    wide = guarded.mint("read", "write", entity="agent:wide")
    narrow = guarded.mint("read", entity="agent:narrow", scopes=["public"])
    parent = guarded.state(key=wide)
    parents = [{"hash": parent["cid"], "fact_id": parent["id"]}, "f" * 64]
    child = guarded.state(key=wide, scope="public", derived_from=parents)
    found = guarded.call("GET", f"/v1/facts/{child['id']}/provenance", key=narrow).json()
    hidden, absent = found["derived_from"]
    assert {**hidden, "hash": ""} == {**absent, "hash": ""}


def test_a_scoped_key_writes_only_its_scopes(guarded: LiveNode) -> None:
    key = guarded.mint("read", "write", entity="agent:p", scopes=["public"])
    refused = guarded.call("POST", "/v1/facts", key=key, json=fact())
    assert (refused.status_code, refused.json()["detail"]["code"]) == (403, "scope_forbidden")
    assert guarded.call("POST", "/v1/facts", key=key, json=fact(scope="public")).status_code == 201
    for method, path, body in (
        ("PUT", "/v1/relations/set-valued", {"relations": []}),
        ("PUT", "/v1/decay/policies/all", {"ttl_s": 1}),
        ("POST", "/v1/decay/sweep", {"scope": "company", "ttl_seconds": 0}),
    ):
        assert guarded.call(method, path, key=key, json=body).status_code == 403


def test_a_sweep_of_a_scoped_key_leaves_other_scopes_alone(guarded: LiveNode) -> None:
    wide = guarded.mint("read", "write", entity="agent:wide")
    guarded.state(key=wide)
    guarded.state(key=wide, scope="public")
    key = guarded.mint("read", "write", entity="agent:p", scopes=["public"])
    swept = guarded.call("POST", "/v1/decay/sweep", key=key, json={"ttl_seconds": 0}).json()
    assert swept == {"scanned": 1, "decayed": 1, "dry_run": False}
    assert guarded.call("GET", "/v1/facts", key=wide).json()["total"] == 1


# -- minting --------------------------------------------------------------------------------

RAW_KEY = "9540d5edca6a5ccfa2818c65578eb0b650220920efafa203"


def mint(live: LiveNode, key: str = CONTROL_TOKEN, **fields: Any) -> Any:
    body = {"raw_key": RAW_KEY, "entity_uri": "Agent:Bot", "permissions": ["read"], **fields}
    return live.call("POST", "/v1/auth/keys", key=key, json=body)


def test_a_new_key_works_and_is_listed_without_its_secret(guarded: LiveNode) -> None:
    made = mint(guarded, description="bot")
    assert made.status_code == 201
    body = made.json()
    assert list(body)[:7] == [
        "id", "entity_uri", "permissions", "description", "created_at", "expires_at", "tenant_id",
    ]  # fmt: skip
    assert (body["entity_uri"], body["tenant_id"]) == ("agent:bot", "default")
    created, expires = map(datetime.fromisoformat, (body["created_at"], body["expires_at"]))
    assert body["created_at"].endswith("+00:00")
    assert expires - created == timedelta(days=90)
    listed = guarded.call("GET", "/v1/auth/keys", key=RAW_KEY)
    assert [row["id"] for row in listed.json()] == [body["id"]]
    assert RAW_KEY not in listed.text
    path = "/v1/auth/keys/expiring-soon"
    assert guarded.call("GET", path, key=RAW_KEY).status_code == 403
    assert guarded.call("GET", path, key=CONTROL_TOKEN).json() == []
    (soon,) = guarded.call("GET", f"{path}?within_days=91", key=CONTROL_TOKEN).json()
    assert (soon["id"], soon["days_remaining"], soon["tenant_id"]) == (body["id"], 90, "default")


def test_a_keys_expiry_is_exact_and_at_most_90_days_ahead(guarded: LiveNode) -> None:
    now = datetime.now(UTC)
    for days, status in ((30, 201), (31, 201), (91, 400)):
        wanted = (now + timedelta(days=days)).isoformat()
        body = {
            "raw_key": f"k{days}".ljust(40, "x"),
            "entity_uri": "agent:x",
            "permissions": ["read"],
        }
        answer = guarded.call(
            "POST", "/v1/auth/keys", key=CONTROL_TOKEN, json={**body, "expires_at": wanted}
        )
        assert answer.status_code == status, answer.text
        if status == 201:
            assert answer.json()["expires_at"] == wanted
        else:
            assert "max age" in answer.json()["detail"]
    soon = guarded.call("GET", "/v1/auth/keys/expiring-soon", key=CONTROL_TOKEN).json()
    assert [key["days_remaining"] for key in soon] == [30], "within 30 days by default"
    none = guarded.call(
        "POST", "/v1/auth/keys", key=CONTROL_TOKEN, json={**body, "permissions": []}
    )
    assert none.status_code == 400


def test_without_keys_every_caller_is_the_operator(tmp_path: Path) -> None:
    live = LiveNode(tmp_path / "open")
    try:
        profile = live.call("GET", "/v1/profiles/stigmem").json()["document"]
        put = live.call("PUT", "/v1/profiles/mine", json={**profile, "name": "mine"})
        assert put.status_code in (200, 201), put.text
        without = {name: each for name, each in profile.items() if name != "description"}
        weightless = {**profile, "stages": [*profile["stages"], {"name": "lexical"}]}
        last = len(profile["stages"])
        for document, where in ((without, []), (weightless, ["stages", last])):
            refused = live.call("PUT", "/v1/profiles/mine", json={**document, "name": "mine"})
            assert [each["loc"] for each in refused.json()["detail"]] == [["body", *where]]
    finally:
        live.close()


def test_bad_keys_are_refused_without_echoing_the_secret(guarded: LiveNode) -> None:
    assert mint(guarded).status_code == 201
    again = mint(guarded)
    assert again.status_code == 409
    assert again.json()["detail"].startswith("raw_key already exists")
    unknown = mint(guarded, raw_key=RAW_KEY[::-1], permissions=["read", "fly"])
    assert unknown.status_code == 400
    assert "fly" in unknown.json()["detail"]
    wrong: list[dict[str, Any]] = [
        {"raw_key": "a-secret-too-short"},
        {"raw_key": ["a-secret-in-a-list"]},
        {"expires_at": "soon"},
        {"expires_at": "2001-01-01T00:00:00Z"},
    ]
    for fields in wrong:
        answer = mint(guarded, **{"raw_key": "S" * 40, **fields})
        assert answer.status_code == 422
        assert [each["loc"] for each in answer.json()["detail"]] == [["body", *fields]]
        assert "S" * 40 not in answer.text
        assert "a-secret" not in answer.text
    missing = guarded.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json={"raw_key": "S" * 40})
    assert "S" * 40 not in missing.text


def test_an_admin_revokes_any_key_and_others_only_their_own(guarded: LiveNode) -> None:
    admin = guarded.mint("admin", entity="agent:admin")
    other = guarded.mint("read", entity="agent:other")
    made = mint(guarded, admin).json()
    path = f"/v1/auth/keys/{made['id']}"
    refused = guarded.call("DELETE", path, key=other)
    assert (refused.status_code, refused.json()) == (
        403,
        {"detail": "Cannot revoke another entity's key"},
    )
    assert guarded.call("GET", "/v1/auth/keys?all=true", key=other).status_code == 403
    everybody = guarded.call("GET", "/v1/auth/keys?all=true", key=admin).json()
    assert made["id"] in [row["id"] for row in everybody]
    assert guarded.call("DELETE", path, key=admin).status_code == 204
    assert guarded.call("DELETE", path, key=admin).status_code == 404
    assert guarded.call("GET", "/v1/facts", key=RAW_KEY).status_code == 401


def test_an_admin_cannot_mint_beyond_its_own_scopes(guarded: LiveNode) -> None:
    admin = guarded.mint("admin", "read", entity="agent:a", scopes=["public"])
    refused = mint(guarded, admin, scopes=["company"])
    assert (refused.status_code, refused.json()["detail"]["code"]) == (403, "scope_forbidden")
    assert mint(guarded, admin).json()["scopes"] == ["public"]
