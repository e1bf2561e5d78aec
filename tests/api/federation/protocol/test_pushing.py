"""Being pushed to by the protocol, and peers of the registry."""

import hashlib
from collections.abc import Callable
from typing import Any

import httpx

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from engramlog.projections.writing.commands import Refused
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact
from tests.worlds.protocol_peers import (
    acquaint,
    declared,
    fetch,
    held,
    own_key,
    pull_of,
    scope_events,
    wrap_into,
)
from tests.worlds.reference_node import WALL_MS, ReferenceNode
from tests.worlds.waiting import until


def pushed(live: LiveNode, records: list[Any], **options: Any) -> httpx.Response:
    return live.call("POST", "/v1/federation/facts/push", json={"facts": records}, **options)


def test_push_is_off_unless_it_is_on(served: LiveNode) -> None:
    assert pushed(served, []).status_code == 405


def test_a_push_accepts_or_refuses_each_fact(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    live = serve(
        clock=clock, federation_enabled=True, federation_insecure=True, federation_push_enabled=True
    )
    acquaint(live, peer, pulled=False)
    records = [
        peer.state("good", source=peer.node_id),
        peer.state("not its own"),
        peer.state("team", source=peer.node_id, scope="team"),
        peer.state("wrong", source=peer.node_id, cid="sha256:" + "1" * 64),
        peer.state("later", source=peer.node_id, hlc=f"{WALL_MS + 7_200_000}.0"),
        peer.state("soon", source=peer.node_id, valid_until="soon"),
    ]
    now_ms = WALL_MS + 60_000
    token = peer.token(live.node.node_id, now_ms, ["company", "public"])
    answer = pushed(live, records, key=token)
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["rejected"]) == (1, 5)
    errors = {each["fact_id"]: each["error"] for each in body["errors"]}
    assert errors == {
        records[1]["id"]: "source_not_owned",
        records[2]["id"]: "scope_not_permitted",
        records[3]["id"]: "cid_mismatch",
        records[4]["id"]: "hlc_skew",
        records[5]["id"]: "ingest_error",
    }
    again = peer.token(live.node.node_id, now_ms, ["company", "public"])
    assert pushed(live, records[:1], key=again).json()["accepted"] == 1
    assert len(held(live)) == 1
    assert pushed(live, records).json()["detail"] == (
        "peer token or X-Stigmem-Capability header required"
    )


def test_a_capability_pushes_facts_that_it_may_write(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    live = serve(
        clock=clock, federation_enabled=True, federation_insecure=True, federation_push_enabled=True
    )

    def token(**fields: Any) -> dict[str, str]:
        body = {"subject": "agent:crawler", "verbs": ["write"], "scopes": ["company"], **fields}
        made = live.call("POST", "/v1/capabilities", key=CONTROL_TOKEN, json=body).json()
        return {"X-Stigmem-Capability": made["token"]}

    good = peer.state("good", source="agent:crawler")
    other = peer.state("other", source="agent:other")
    public = peer.state("public", source="agent:crawler", scope="public")
    undated = peer.state("undated", source="agent:crawler", hlc=None)
    body = pushed(live, [good, other, public, undated], headers=token()).json()
    assert (body["accepted"], body["rejected"]) == (2, 2), "a reading that is null is the timestamp"
    narrow = token(entity="stigmem://ref.example/else")
    assert (
        pushed(live, [peer.state("x", source="agent:crawler")], headers=narrow).json()["rejected"]
        == 1
    )
    refused = pushed(live, [good], headers=token(verbs=["read"]))
    assert refused.status_code == 403
    assert "insufficient_capability" in refused.text
    assert pushed(live, [good], headers={"X-Stigmem-Capability": "{}"}).status_code == 401
    assert len(held(live)) == 2


# -- with the registry's peers


def test_an_approved_peer_of_the_registry_is_pulled_and_served(
    live: LiveNode, peer: ReferenceNode
) -> None:
    peer.peers[live.node.node_id] = own_key(live)
    peer.state("theirs")
    live.state(v="ours", scope="company")
    grants = PeerGrants(scopes=["company"], wire="facts")
    declared(live, peer.node_id, peer.url, peer.public_key, grants)
    until(lambda: pull_of(live, peer)["accepted"] == 1)
    assert [record["value"]["v"] for record in fetch(live, peer).json()["facts"]] == ["ours"]
    revoked = PeerStateSet(peer_id=f"peer-of-{peer.node_id}", state="revoked")
    assert not isinstance(live.node.write(revoked)[0], Refused)
    assert fetch(live, peer).json()["detail"] == "peer_not_approved"


def test_a_node_with_only_the_protocol_is_declared_approved_and_pulled(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    live = serve(
        clock=clock, federation_enabled=True, federation_insecure=True,
        federation_pull_interval_s=0.05,
    )  # fmt: skip
    peer.peers[live.node.node_id] = own_key(live)
    peer.state("theirs")
    path = "/v1/federation/peers"
    made = live.call("POST", path, key=CONTROL_TOKEN, json=peer.declaration())
    assert (made.status_code, made.json()["status"]) == (201, "pending_approval"), made.text
    assert fetch(live, peer).json()["detail"] == "peer_not_approved"
    print_of_key = "sha256:" + hashlib.sha256(peer.public_key.encode()).hexdigest()
    approved = live.call(
        "POST",
        f"{path}/{made.json()['peer_id']}/approve",
        key=CONTROL_TOKEN,
        json={"pubkey_fingerprint": print_of_key},
    )
    assert approved.status_code == 200, approved.text
    until(lambda: pull_of(live, peer)["accepted"] == 1)
    until(lambda: [record["value"]["v"] for record in held(live)] == ["theirs"])


def test_a_peers_capability_reads_facts_shared_with_the_peer(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    home, away = (serve(clock=clock, auth_required=True) for _ in range(2))
    for scope in ("company", "public", "local"):
        away.state(key=CONTROL_TOKEN, v=scope, scope=scope)
    body = {"subject": "agent:crawler", "verbs": ["read", "write"]}
    made = home.call("POST", "/v1/capabilities", key=CONTROL_TOKEN, json=body).json()

    def read() -> httpx.Response:
        return away.call("GET", "/v1/facts", key=made["token"])

    assert read().json()["detail"]["code"] == "token_issuer_unknown"
    grants = PeerGrants(scopes=["company", "local"])
    declared(away, home.node.node_id, home.url, own_key(home), grants)
    assert [record["value"]["v"] for record in read().json()["facts"]] == ["company"]
    write = away.call("POST", "/v1/facts", key=made["token"], json=fact(source="agent:crawler"))
    assert write.status_code == 403
    home.call("POST", f"/v1/capabilities/{made['token_id']}/revoke", key=CONTROL_TOKEN)
    wrap_into(away, scope_events(home))
    assert read().json()["detail"]["code"] == "token_revoked"
