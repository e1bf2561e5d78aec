"""What was withdrawn from a peer at one node over a shared log lets it write nothing at another,
however far behind."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from engramlog.projections.writing.commands import Refused
from engramlog.replay.stigmem.pulling import PeerFault
from engramlog.replay.stigmem.tombstones import signed_bytes
from tests.worlds.lagging_nodes import lags, seen, two_nodes
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.reference_node import ReferenceNode, url64
from tests.worlds.tombstone_requests import ALICE

Nodes = tuple[LiveNode, LiveNode]
GRANTS = PeerGrants(scopes=["company", "public"], wire="facts", pull=False, erase_foreign=True)


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str, peer: ReferenceNode) -> Iterator[Nodes]:
    """Two nodes with a peer. The second lags from now on."""
    with two_nodes(
        tmp_path,
        postgres_url,
        federation_enabled=True,
        federation_insecure=True,
        federation_push_enabled=True,
    ) as (first, second):
        peer.peers[first.node.node_id] = own_key(first)
        declared(first, peer.node_id, peer.url, peer.public_key, GRANTS)
        seen(second, first)
        lags(second)
        yield first, second


def withdraw(live: LiveNode, peer: ReferenceNode, **change: Any) -> None:
    (outcome,) = live.node.write(PeerStateSet(peer_id=f"peer-of-{peer.node_id}", **change))
    assert not isinstance(outcome, Refused)


NARROWED = {"grants": PeerGrants(scopes=["public"], wire="facts", pull=False)}
REVOKED = {"state": "revoked"}


def posted(live: LiveNode, peer: ReferenceNode, path: str, body: object) -> httpx.Response:
    token = peer.token(live.node.node_id, time.time_ns() // 1_000_000, ["company", "public"])
    return live.call("POST", f"/v1/federation/{path}", key=token, json=body)


@pytest.mark.parametrize(("change", "status"), [(REVOKED, 401), (NARROWED, 409)])
def test_a_peer_restricted_at_one_node_pushes_no_fact_through_another(
    nodes: Nodes, peer: ReferenceNode, change: dict[str, Any], status: int
) -> None:
    first, second = nodes
    body = {"facts": [peer.state("pushed", source=peer.node_id)]}
    withdraw(first, peer, **change)
    head = first.node.log.head().position
    answer = posted(second, peer, "facts/push", body)
    assert answer.status_code == status, answer.text
    assert first.node.log.head().position == head


@pytest.mark.parametrize(("change", "status"), [(REVOKED, 401), (NARROWED, 409)])
def test_a_peer_restricted_at_one_node_hides_nothing_through_another(
    nodes: Nodes, peer: ReferenceNode, change: dict[str, Any], status: int
) -> None:
    first, second = nodes
    record = {
        "id": "tomb_1", "entity_uri": ALICE, "scope": "company", "signed_by": peer.node_id,
        "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    signed = {**record, "signature": url64(peer.key.sign(signed_bytes(record)))}
    withdraw(first, peer, **change)
    head = first.node.log.head().position
    answer = posted(second, peer, "tombstones/ingest", signed)
    assert answer.status_code == status, answer.text
    assert first.node.log.head().position == head


def test_a_capability_revoked_at_one_node_pushes_nothing_through_another(
    nodes: Nodes, peer: ReferenceNode
) -> None:
    first, second = nodes
    asked = {"subject": "agent:crawler", "verbs": ["write"], "ttl_seconds": 3600}
    made = first.call("POST", "/v1/capabilities", key=CONTROL_TOKEN, json=asked).json()
    path = f"/v1/capabilities/{made['token_id']}/revoke"
    first.call("POST", path, key=CONTROL_TOKEN, json={"reason": "ended"})
    head = first.node.log.head().position
    body = {"facts": [peer.state("pushed", source="agent:crawler")]}
    headers = {"X-Stigmem-Capability": made["token"]}
    answer = second.call("POST", "/v1/federation/facts/push", headers=headers, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (401, "token_revoked")
    assert first.node.log.head().position == head


@pytest.mark.parametrize("change", [REVOKED, NARROWED])
def test_a_peer_restricted_at_one_node_is_not_pulled_by_another(
    nodes: Nodes, peer: ReferenceNode, change: dict[str, Any]
) -> None:
    first, second = nodes
    federation = second.app.service.federation
    known = federation.peers()[peer.node_id]
    peer.state("theirs")
    withdraw(first, peer, **change)
    head = first.node.log.head().position
    with pytest.raises(PeerFault, match=r"the grants of .* changed"):
        second.run(federation.pull_once(known))
    assert first.node.log.head().position == head
