"""The allowed sources of facts: sources bound to keys, and sources that sign."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

ANN = "agent:ann"


@pytest.fixture
def node(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(auth_required=True)


def wrote(node: LiveNode, key: str, source: str) -> int:
    return int(node.call("POST", "/v1/facts", key=key, json=fact(source=source)).status_code)


def test_a_key_writes_as_itself_alone(node: LiveNode) -> None:
    key = node.mint("read", "write", entity=ANN, sources=None)
    assert wrote(node, key, " Agent:ANN ") == 201
    refused = node.call("POST", "/v1/facts", key=key, json=fact(source="agent:bob"))
    assert refused.status_code == 403
    assert refused.json()["detail"]["code"] == "source_forbidden"
    batch = [fact(source="agent:bob"), fact(source=ANN)]
    results = node.call("POST", "/v1/facts/batch", key=key, json=batch).json()["results"]
    assert [item["status"] for item in results] == [403, 201]


def test_a_key_may_have_further_sources(node: LiveNode) -> None:
    sources = ["agent:Bob", "service:*"]
    key = node.mint("read", "write", entity=ANN, sources=sources)
    listed = node.call("GET", "/v1/auth/keys", key=key).json()[0]
    assert listed["sources"] == [ANN, "agent:bob", "service:*"]
    assert [wrote(node, key, s) for s in (ANN, "agent:bob", "service:mail", "agent:bobby")] == [
        201, 201, 201, 403,
    ]  # fmt: skip


def test_admins_write_as_any_source_unless_bound(node: LiveNode) -> None:
    free = node.mint("read", "write", "admin", entity="agent:root", sources=None)
    assert wrote(node, free, "agent:bob") == 201
    bound = node.mint("read", "write", "admin", entity="agent:ops", sources=["agent:x"])
    assert wrote(node, bound, "agent:bob") == 403
    body = {
        "raw_key": "k" * 40,
        "entity_uri": "agent:new",
        "permissions": ["write"],
        "sources": ["agent:*"],
    }
    refused = node.call("POST", "/v1/auth/keys", key=bound, json=body)
    assert refused.status_code == 403
    body |= {"raw_key": "m" * 40, "sources": ["agent:*x"]}
    assert node.call("POST", "/v1/auth/keys", key=free, json=body).status_code == 422


def test_without_authentication_any_source_will_do(live: LiveNode) -> None:
    assert live.state(source="agent:whoever")["source"] == "agent:whoever"


class Agent:
    """An agent with a key pair, registered under its API key."""

    def __init__(self, node: LiveNode, name: str) -> None:
        self.secret = Ed25519PrivateKey.generate()
        self.key = node.mint("read", "write", entity=name)
        public = unpadded(self.secret.public_key().public_bytes_raw())
        body = {"public_key": public, "description": "laptop"}
        answer = node.call("POST", "/v1/auth/agent-keys", key=self.key, json=body)
        assert answer.status_code == 201, answer.text
        self.record = answer.json()

    def signed(self, **fields: Any) -> dict[str, Any]:
        body = fact(**fields)
        kind, v = body["value"]["type"], body["value"]["v"]
        stored = str(float(v)) if kind == "number" else str(v)
        text = "\n".join((body["entity"], body["relation"], kind, stored, body["source"]))
        signature = unpadded(self.secret.sign(text.encode()))
        return {**body, "attestation": {"key_id": self.record["id"], "signature": signature}}


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_signed_fact_is_attested(node: LiveNode) -> None:
    agent = Agent(node, ANN)
    assert list(agent.record) == [
        "id", "entity_uri", "public_key", "description", "registered_at", "status",
    ]  # fmt: skip
    body = agent.signed(source=" Agent:Ann ", entity="User:Alice Smith", type="number", v=42)
    made = node.call("POST", "/v1/facts", key=agent.key, json=body)
    assert made.status_code == 201, made.text
    record = made.json()
    assert (record["attested"], record["attested_key_id"]) == (True, agent.record["id"])
    plain = node.state(key=agent.key, source=ANN)
    assert (plain["attested"], plain["attested_key_id"]) == (None, None)
    for wanted, expected in ((True, record), (False, plain)):
        page = node.call("GET", "/v1/facts", key=agent.key, params={"attested": wanted}).json()
        assert [each["id"] for each in page["facts"]] == [expected["id"]]
        assert page["facts"][0]["attested"] == expected["attested"]


def test_an_invalid_attestation_gets_a_reason(node: LiveNode) -> None:
    agent, other = Agent(node, ANN), Agent(node, "agent:bob")

    def refused(body: dict[str, Any], key: str = agent.key) -> tuple[int, Any]:
        answer = node.call("POST", "/v1/facts", key=key, json=body)
        return answer.status_code, answer.json()["detail"]

    failed = (400, "attestation signature verification failed")
    good = agent.signed(source=ANN)
    assert refused({**good, "relation": "memory:other"}) == failed
    broken = {"key_id": agent.record["id"], "signature": "***"}
    assert refused({**good, "attestation": broken}) == failed
    unknown = {**good, "attestation": {**good["attestation"], "key_id": "k1"}}
    assert refused(unknown) == (400, "attestation.key_id 'k1' not found")
    assert refused(good, other.key) == (403, "attestation key belongs to a different entity")
    path = f"/v1/auth/agent-keys/{agent.record['id']}"
    stolen = node.call("DELETE", path, key=other.key)
    assert (stolen.status_code, stolen.json()["detail"]) == (
        403,
        "cannot revoke another entity's key",
    )
    assert node.call("DELETE", path, key=agent.key).status_code == 204
    assert node.call("DELETE", path, key=agent.key).status_code == 409
    name = agent.record["id"]
    assert refused(good) == (400, f"attestation.key_id {name!r} has been revoked")  # wire 1.6
    listed = node.call("GET", "/v1/auth/agent-keys", key=agent.key).json()
    assert [each["status"] for each in listed] == ["revoked"]
    absent = node.call("DELETE", "/v1/auth/agent-keys/none", key=agent.key)
    assert (absent.status_code, absent.json()) == (404, {"detail": "agent key not found"})


@pytest.mark.parametrize("public_key", ["abc", "***", "A" * 44])
def test_a_public_key_has_32_bytes(node: LiveNode, public_key: str) -> None:
    key = node.mint("write", entity=ANN)
    body = {"public_key": public_key}
    assert node.call("POST", "/v1/auth/agent-keys", key=key, json=body).status_code == 400


def test_a_node_may_require_attestations(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True, attestation_required=True)
    assert node.call("GET", "/.well-known/stigmem").json()["source_attestation"] == "required"
    agent = Agent(node, ANN)
    signed = agent.signed(source=ANN)
    assert node.call("POST", "/v1/facts", key=agent.key, json=signed).status_code == 201
    delta = {
        "kind": "add",
        "rule_id": "r",
        "source_episode_ids": ["e"],
        "promotion_ts": "2026-01-01T00:00:00Z",
        "confidence": 1.0,
        "fact_payload": {"id": "f", "subject": "self", "predicate": "p", "object": "o"},
    }
    unsigned: list[tuple[str, dict[str, Any]]] = [
        ("/v1/facts", fact(source=ANN)),
        ("/v1/memories", {"content": "a note"}),
        ("/v1/intents", {"from": ANN, "to": ["agent:bob"], "goal": "rest"}),
        ("/v1/deltas", {"user": "u", "agent": "a", "scope": "company", "deltas": [delta]}),
        ("/v1/summaries", {"summaries": [{"name": "daily/daily_2026-01-01.md", "text": "x"}]}),
    ]
    for path, body in unsigned:
        answer = node.call("POST", path, key=agent.key, json=body)
        assert (answer.status_code, answer.json()["detail"]) == (
            400,
            "attestation required; register an agent key at POST /v1/auth/agent-keys",
        ), path
    batch = node.call("POST", "/v1/facts/batch", key=agent.key, json=[fact(source=ANN)])
    assert batch.json()["results"][0]["status"] == 400


def test_a_tenant_is_ignored_with_a_warning(node: LiveNode) -> None:
    body = {"raw_key": "k" * 40, "entity_uri": ANN, "permissions": ["read"], "tenant_id": "acme"}
    made = node.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=body).json()
    assert made["tenant_id"] == "default"
    assert "separate nodes or gardens" in made["warnings"][0]
    assert node.call("GET", "/v1/me", key="k" * 40).json()["tenant_id"] == "default"
    body |= {"raw_key": "m" * 40, "tenant_id": "default"}
    plain = node.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=body).json()
    assert "warnings" not in plain
