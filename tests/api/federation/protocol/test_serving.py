"""Being pulled by the protocol: tokens, scopes, cursors and pages."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode
from tests.worlds.protocol_peers import (
    COMPANY,
    acquaint,
    drained,
    enter,
    fetch,
    held,
    own_key,
    pull_of,
)
from tests.worlds.reference_node import WALL_MS, ReferenceNode
from tests.worlds.waiting import until


def test_a_peer_gets_facts_stated_here_including_derived_ones(
    served: LiveNode, peer: ReferenceNode
) -> None:
    first = served.state(v="a", scope="company")
    derived = [{"hash": first["cid"], "fact_id": first["id"]}]
    second = served.state(v="b", scope="public", derived_from=derived)
    for scope in ("local", "team"):
        served.state(v="c", scope=scope)
    page = fetch(served, peer).json()
    assert [record["id"] for record in page["facts"]] == [first["id"], second["id"]]
    assert page["facts"][1]["derived_from"] == derived
    assert page["cursor"] == second["hlc"]
    assert page["has_more"] is False
    only = fetch(served, peer, scope="public").json()["facts"]
    assert [record["id"] for record in only] == [second["id"]]


def test_pages_of_any_size_hold_everything_once_in_order(
    served: LiveNode, peer: ReferenceNode
) -> None:
    facts = [served.state(v=f"v{n}", relation=f"memory:r{n}")["id"] for n in range(23)]
    served.call("POST", f"/v1/facts/{facts[3]}/retract", json={})
    for limit in (1, 2, 7, 500):
        records = drained(served, peer, limit)
        assert [record["id"] for record in records[:23]] == facts
        assert [record["confidence"] for record in records] == [1.0] * 23 + [0.0]
        readings = [record["hlc"] for record in records]
        assert readings == sorted(set(readings))
    assert records[-1]["value"] == records[3]["value"]


def test_gardens_relays_and_protocol_records_stay_here(
    served: LiveNode, peer: ReferenceNode
) -> None:
    ann = served.mint("read", "write", entity="agent:ann")
    body = {"slug": "g", "name": "G", "scope": "company"}
    garden = served.call("POST", "/v1/gardens", key=ann, json=body).json()["id"]
    served.state(key=ann, garden_id=garden, scope="company")
    served.state(entity="stigmem:resolution:1", scope="company")
    served.state(relation="stigmem:note", scope="company")
    other = ReferenceNode("stigmem:node:33333333-1111-4111-8111-111111111111")
    other.state("relayed")
    acquaint(served, other)
    until(lambda: len(held(served)) == 3)
    assert fetch(served, peer).json()["facts"] == []
    other.close()


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"sub": "stigmem:node:else"}, "invalid_sub"),
        ({"exp": WALL_MS - 40_000}, "token_expired"),
        ({"iat": WALL_MS + 60_000 + 40_000}, "iat_in_future"),
        ({"iat": WALL_MS - 3 * 86_400_000}, "iat_too_old"),
        ({"exp": WALL_MS + 60_000 + 86_400_001}, "iat_too_old"),  # over 24 hours
        ({"nonce": ""}, "missing_nonce"),
        ({"iss": "stigmem:node:nobody"}, "peer not registered"),
    ],
)
def test_a_token_is_for_this_node_now_and_by_a_peer(
    served: LiveNode, peer: ReferenceNode, claims: dict[str, Any], code: str
) -> None:
    now_ms = WALL_MS + 60_000
    token = peer.token(served.node.node_id, now_ms, ["company"], **claims)
    answer = served.call("GET", "/v1/federation/facts", key=token)
    assert (answer.status_code, answer.json()["detail"]) == (401, code)


def test_a_token_serves_once_and_only_its_signer(served: LiveNode, peer: ReferenceNode) -> None:
    now_ms = WALL_MS + 60_000
    token = peer.token(served.node.node_id, now_ms, ["company"])
    path = "/v1/federation/facts"
    assert served.call("GET", path, key=token).status_code == 200
    assert served.call("GET", path, key=token).json()["detail"] == "nonce_already_seen"
    head, middle, signature = peer.token(served.node.node_id, now_ms, ["company"]).split(".")
    for forged in (
        f"{head}.{middle}.{signature[:-4]}AAAA",
        f"{head}.{token.split('.')[1]}.{signature}",
    ):
        answer = served.call("GET", path, key=forged)
        assert answer.json()["detail"] == "invalid_signature"
    for broken in ("abc", "a.b.c", "é.é.é".encode().decode("latin-1"), "x" * 5000):
        answer = served.call("GET", path, headers={"Authorization": f"Bearer {broken}".encode()})
        assert answer.json()["detail"] == "malformed token"
    assert served.call("GET", path).json()["detail"] == "peer token required"
    acquaint(served, peer, pulled=False, active=False)
    assert fetch(served, peer).json()["detail"] == "peer_not_approved"


def test_agreement_token_and_law_limit_the_scopes(served: LiveNode, peer: ReferenceNode) -> None:
    assert fetch(served, peer, ["local", "team"]).status_code == 403
    assert fetch(served, peer, ["company"], scope="public").status_code == 403
    acquaint(served, peer, pulled=False, scopes=frozenset({"local", "team"}))
    answer = fetch(served, peer, ["local", "team", "company"])
    assert (answer.status_code, answer.json()["detail"]) == (403, "no permitted scopes")
    acquaint(served, peer, pulled=False, served=False)
    assert fetch(served, peer).status_code == 403


def test_a_cursor_is_a_number_padded_or_not(served: LiveNode, peer: ReferenceNode) -> None:
    for n in range(12):
        served.state(v=f"v{n}", relation=f"memory:r{n}")
    hlc = fetch(served, peer, limit=9).json()["cursor"]
    wall, counter = hlc.split(".")
    for cursor in (hlc, f"{wall}.{int(counter)}"):
        assert len(fetch(served, peer, cursor=cursor).json()["facts"]) == 3
    assert fetch(served, peer, cursor="yesterday").status_code == 400


def test_our_own_nodes_pull_each_other_by_the_protocol(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    a, b = (
        serve(
            clock=clock,
            federation_enabled=True,
            federation_insecure=True,
            federation_pull_interval_s=0.05,
        )
        for _ in range(2)
    )
    for mine, other in ((a, b), (b, a)):
        enter(mine, other.node.node_id, other.url, own_key(other))
    a.state(v="from a", relation="memory:a")
    number = a.state(v=42, type="number", relation="memory:n")
    b.state(v="from b", relation="memory:b")
    until(lambda: len(held(a)) == len(held(b)) == 3)
    a.call("POST", f"/v1/facts/{number['id']}/retract", json={})
    until(lambda: len(held(b)) == 2)
    time.sleep(0.3)
    assert len(held(a)) == 2


def test_a_scope_granted_late_arrives_whole(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    options: dict[str, Any] = {
        "clock": clock, "federation_enabled": True, "federation_insecure": True,
        "federation_pull_interval_s": 0.05,
    }  # fmt: skip
    ours, theirs = serve(**options), serve(**options)

    def agreed(mine: LiveNode, other: LiveNode, *scopes: str) -> None:
        enter(mine, other.node.node_id, other.url, own_key(other), scopes=scopes)

    def said(v: str, scope: str) -> None:
        clock.advance(10_000_000)  # outside the puller's overlap
        theirs.state(v=v, scope=scope, entity=f"user:{v}")

    def values() -> set[str]:
        return {record["value"]["v"] for record in held(ours)}

    agreed(theirs, ours, "company")
    agreed(ours, theirs, "company", "public")
    said("p1", "public")
    said("c1", "company")
    until(lambda: values() == {"c1"})
    agreed(theirs, ours, "company", "public")  # they share more
    until(lambda: values() == {"c1", "p1"})
    agreed(ours, theirs, "company")
    said("p2", "public")
    said("c2", "company")
    until(lambda: values() == {"c1", "p1", "c2"})
    agreed(ours, theirs, "company", "public")  # we take more
    until(lambda: values() == {"c1", "p1", "c2", "p2"})
    position = ours.node.log.head().position
    time.sleep(0.3)
    assert ours.node.log.head().position == position


def test_a_fact_refused_for_its_scope_is_taken_after_the_grant(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    live = serve(
        clock=clock, federation_enabled=True, federation_insecure=True,
        federation_pull_interval_s=0.05, federation_allow_team=True,
    )  # fmt: skip
    peer.scopes |= {"team"}
    peer.state("team", scope="team")
    peer.state("company")
    acquaint(live, peer)
    until(lambda: pull_of(live, peer)["refused"] == 1)
    acquaint(live, peer, scopes=COMPANY | {"team"})
    until(lambda: len(held(live)) == 2)


def test_a_client_with_one_cursor_gets_earlier_facts_of_new_scopes(
    served: LiveNode, peer: ReferenceNode
) -> None:
    """Other software keeps one cursor for all scopes."""
    acquaint(served, peer, pulled=False, scopes=frozenset({"company"}))
    served.state(v="p", scope="public", entity="user:p")
    served.state(v="c", scope="company", entity="user:c")
    first = fetch(served, peer).json()
    assert [each["value"]["v"] for each in first["facts"]] == ["c"]
    again = fetch(served, peer, cursor=first["cursor"]).json()
    assert again["facts"] == []
    acquaint(served, peer, pulled=False)
    late = fetch(served, peer, cursor=first["cursor"]).json()
    assert [each["value"]["v"] for each in late["facts"]] == ["p", "c"]
    assert fetch(served, peer, cursor=late["cursor"]).json()["facts"] == []


def test_a_node_that_does_not_federate_knows_no_peer(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    live = serve(clock=clock, federation_pull_interval_s=0.05)
    acquaint(live, peer)
    assert fetch(live, peer).json()["detail"] == "peer not registered"
    time.sleep(0.3)
    assert peer.requests == []
