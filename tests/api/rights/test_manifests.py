"""Manifests: signed by their key, in force for a time, replaced only by the key's owner."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engramlog.eventlog.clock import FixedClock
from engramlog.projections.moment import format_instant
from engramlog.projections.rights.capability_token import from_url_text
from engramlog.replay.federation.declaration import wire_key
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.organisations import ANN, DAY_US, NOW_US, ORG, Org

Serve = Callable[..., LiveNode]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW_US)


@pytest.fixture
def live(serve: Serve, clock: FixedClock) -> LiveNode:
    return serve(clock=clock, auth_required=True)


@pytest.fixture
def key(live: LiveNode) -> str:
    return live.mint("read", "write", entity=ORG)


def put(live: LiveNode, key: str, manifest: dict[str, Any]) -> tuple[int, Any]:
    answer = live.call("PUT", "/v1/federation/manifest", key=key, json=manifest)
    return answer.status_code, answer.json()


def get(live: LiveNode, key: str, entity: str = ORG) -> tuple[int, Any]:
    answer = live.call("GET", f"/v1/federation/manifest/{entity}", key=key)
    return answer.status_code, answer.json()


def test_a_manifest_is_served_unchanged_until_it_expires(
    live: LiveNode, key: str, clock: FixedClock
) -> None:
    manifest = Org().manifest()
    status, body = put(live, key, {**manifest, "x-note": "ignored"})
    assert status == 200, body
    assert body.pop("tl_warning")
    assert body == {
        name: manifest[name] for name in ("entity_uri", "key_id", "issued_at", "expires_at")
    }
    assert get(live, key) == (200, {**manifest, "log_entry": None})
    assert live.node.rebuild().digest == live.node.reader.digests().local
    clock.set(NOW_US + 30 * DAY_US)
    assert get(live, key) == (404, {"detail": "manifest not found or expired"})
    assert get(live, key, "stigmem://acme.example/nobody")[0] == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"expires_at": format_instant(NOW_US + 731 * DAY_US)}, "expires_at"),
        ({"expires_at": format_instant(NOW_US - 1)}, "expires_at"),
        ({"issued_at": format_instant(NOW_US - 9 * DAY_US),
          "expires_at": format_instant(NOW_US)}, "expires_at"),
        ({"issued_at": format_instant(NOW_US + DAY_US)}, "issued_at"),
        ({"issued_at": "yesterday"}, "issued_at"),
        ({"public_key": "c2hvcnQ"}, "public_key"),
        ({"public_key": "*"}, "public_key"),
        ({"rotation_events": [Org("k0").retired_for(Org("k1"))] * 101}, "rotation_events"),
        ({"key_id": None}, "key_id"),
        ({"entities": "all"}, "entities"),
    ],
)  # fmt: skip
def test_an_invalid_manifest_is_refused_by_its_field(
    live: LiveNode, key: str, change: dict[str, Any], field: str
) -> None:
    status, body = put(live, key, Org().manifest(**change))
    assert status == 422, body
    assert body["detail"][0]["loc"][:2] == ["body", field]
    assert get(live, key)[0] == 404


def test_every_signed_field_is_under_the_signature(live: LiveNode, key: str) -> None:
    manifest = Org().manifest()
    altered: dict[str, Any] = {
        "key_id": "key-2", "issued_at": format_instant(NOW_US - 1),
        "expires_at": format_instant(NOW_US + DAY_US), "entities": [ANN],
        "rotation_events": [Org("k0").retired_for(Org("k1"))],
        "signature": Org().manifest()["signature"],
    }  # fmt: skip
    for name, value in altered.items():
        status, body = put(live, key, {**manifest, name: value})
        assert (status, body["detail"][0]["loc"][1]) == (422, "signature"), name


def test_only_the_entity_and_admins_put_a_manifest(live: LiveNode, key: str) -> None:
    other = live.mint("read", "write", entity=ANN)
    assert put(live, other, Org().manifest())[0] == 403
    assert put(live, CONTROL_TOKEN, Org().manifest())[0] == 200
    assert live.call("PUT", "/v1/federation/manifest", json=Org().manifest()).status_code == 401
    reader = live.mint("read", entity="agent:reader")
    assert get(live, reader)[0] == 200
    assert put(live, reader, Org().manifest())[0] == 403


def test_another_key_needs_a_chain_of_rotations(
    live: LiveNode, key: str, clock: FixedClock
) -> None:
    first, second, third, thief = Org("key-1"), Org("key-2"), Org("key-3"), Org("key-3")
    assert put(live, key, first.manifest())[0] == 200
    clock.advance(DAY_US)
    for manifest in (
        third.manifest(),
        third.manifest(rotation_events=[first.retired_for(second)]),
        third.manifest(rotation_events=[second.retired_for(third)]),
        third.manifest(rotation_events=[first.retired_for(second), first.retired_for(third)]),
        third.manifest(rotation_events=[
            {**first.retired_for(second), "signature": second.retired_for(third)["signature"]},
            second.retired_for(third),
        ]),
        thief.manifest(rotation_events=[first.retired_for(second), second.retired_for(third)]),
        third.manifest(rotation_events=[
            first.retired_for(second, previous_public_key=thief.public_key),
            second.retired_for(third),
        ]),
    ):  # fmt: skip
        status, body = put(live, key, manifest)
        assert (status, body["detail"]["code"]) == (409, "manifest_rotation")
    chain = [second.retired_for(third, previous_public_key=second.public_key)]
    chain.append(first.retired_for(second))
    assert put(live, key, third.manifest(rotation_events=chain))[0] == 200
    assert get(live, key)[1]["key_id"] == "key-3"
    assert put(live, key, first.manifest())[1]["detail"]["code"] == "manifest_rotation"


def test_an_older_manifest_does_not_come_back(live: LiveNode, key: str) -> None:
    org = Org()
    assert put(live, key, org.manifest())[0] == 200
    older = org.manifest(issued_at=format_instant(NOW_US - DAY_US))
    assert put(live, key, older)[1]["detail"]["code"] == "manifest_outdated"
    assert put(live, key, org.manifest(entities=[ANN]))[0] == 200


def test_ten_an_hour_and_entity(live: LiveNode, key: str, clock: FixedClock) -> None:
    org = Org()
    for _ in range(10):
        assert put(live, key, org.manifest())[0] == 200
    status, body = put(live, key, org.manifest())
    assert (status, body["detail"]["code"]) == (429, "manifest_rate")
    other = live.mint("read", "write", entity=ANN)
    assert put(live, other, Org().manifest(entity_uri=ANN))[0] == 200
    clock.advance(3_600_000_000)
    assert put(live, key, org.manifest())[0] == 200


def test_an_issuer_with_a_manifest_issues_to_its_entities_alone(live: LiveNode) -> None:
    key = live.mint("read", "write", entity=ORG)
    ask = {"issuer": ORG, "verb": "read", "object": "stigmem://facts/scope:company"}

    def issued(subject: str) -> int:
        path = "/v1/federation/capability-tokens"
        return live.call("POST", path, key=key, json={**ask, "subject": subject}).status_code

    assert issued("agent:anybody") == 201
    assert put(live, key, Org().manifest())[0] == 200
    assert (issued("agent:anybody"), issued(ANN), issued(ORG)) == (403, 201, 201)


def test_the_nodes_own_manifest_holds(live: LiveNode) -> None:
    body = live.call("GET", "/.well-known/stigmem-manifest.json").json()
    assert body.pop("log_entry") is None
    signature = from_url_text(body.pop("signature"))
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    public = Ed25519PublicKey.from_public_bytes(from_url_text(body["public_key"]))
    public.verify(signature, text.encode())
    assert body["public_key"] == wire_key(live.node.identity.public_key_b64)
    assert body["entity_uri"] == live.node.node_id
    assert body["expires_at"] == format_instant(NOW_US + 365 * DAY_US)
