"""Rights that ended at one node over a shared log write nothing at another, however far behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.lagging_nodes import lags, seen, two_nodes
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str) -> Iterator[tuple[LiveNode, LiveNode]]:
    with two_nodes(tmp_path, postgres_url, auth_required=True) as both:
        yield both


def revoke(live: LiveNode, entity: str) -> None:
    for each in live.call("GET", "/v1/auth/keys?all=true", key=CONTROL_TOKEN).json():
        if each["entity_uri"] == entity:
            live.call("DELETE", f"/v1/auth/keys/{each['id']}", key=CONTROL_TOKEN)


@pytest.mark.parametrize(("path", "body"), [("facts", fact()), ("facts/batch", [fact()])])
def test_a_key_revoked_at_one_node_writes_nothing_at_another(
    nodes: tuple[LiveNode, LiveNode], path: str, body: Any
) -> None:
    first, second = nodes
    ann = first.key_of("ann")
    seen(second, first)
    lags(second)
    revoke(first, "agent:ann")
    head = first.node.log.head().position
    answer = second.call("POST", f"/v1/{path}", key=ann, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (401, "Invalid or expired API key")
    assert first.node.log.head().position == head


def test_a_capability_revoked_at_one_node_writes_nothing_at_another(
    nodes: tuple[LiveNode, LiveNode],
) -> None:
    first, second = nodes
    asked = {"subject": "agent:ann", "verbs": ["write"], "ttl_seconds": 3600}
    made = first.call("POST", "/v1/capabilities", key=first.key_of("ann"), json=asked).json()
    seen(second, first)
    lags(second)
    path = f"/v1/capabilities/{made['token_id']}/revoke"
    gone = first.call("POST", path, key=first.key_of("ann"), json={"reason": "ended"})
    assert gone.status_code < 300, gone.text
    answer = second.call("POST", "/v1/facts", key=made["token"], json=fact(source="agent:ann"))
    assert answer.status_code == 401
    assert answer.json()["detail"]["code"] == "token_revoked"


def test_a_caller_whose_rights_grew_at_one_node_writes_once_at_another(
    nodes: tuple[LiveNode, LiveNode],
) -> None:
    first, second = nodes
    ann = first.key_of("ann")
    body = {"slug": "board", "name": "Board", "scope": "company"}
    made = first.call("POST", "/v1/gardens", key=CONTROL_TOKEN, json=body).json()["id"]
    seen(second, first)
    lags(second)
    member = {"entity_uri": "agent:ann", "role": "writer"}
    first.call("POST", f"/v1/gardens/{made}/members", key=CONTROL_TOKEN, json=member)
    head = first.node.log.head().position
    assert second.call("POST", "/v1/facts", key=ann, json=fact()).status_code == 201
    assert second.node.log.head().position == head + 1


def test_a_revoked_key_at_a_node_that_lags_delays_no_other_caller(
    nodes: tuple[LiveNode, LiveNode],
) -> None:
    first, second = nodes
    ann, bob = first.key_of("ann"), first.key_of("bob")
    seen(second, first)
    lags(second)
    revoke(first, "agent:ann")
    of_bob = fact(source="agent:bob")
    assert second.call("POST", "/v1/facts", key=bob, json=of_bob).status_code == 201
    assert second.call("POST", "/v1/facts", key=ann, json=fact()).status_code == 401
