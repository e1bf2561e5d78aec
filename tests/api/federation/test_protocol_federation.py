"""The protocol's federation over real sockets, with a node that has the reference's faults."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engramlog.api.http.app import SERVICE
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Stored
from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.stigmem.peers import ProtocolPeer
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.reference_node import WALL_MS, ReferenceNode
from tests.worlds.waiting import until

COMPANY = frozenset({"company", "public"})


class Book:
    """Peers as a test declares them."""

    def __init__(self) -> None:
        self.peers: dict[str, ProtocolPeer] = {}

    def find(self, node_id: str) -> ProtocolPeer | None:
        return self.peers.get(node_id)

    def all(self) -> list[ProtocolPeer]:
        return list(self.peers.values())


def book_of(live: LiveNode) -> Book:
    federation = live.app[SERVICE].federation
    if not isinstance(federation.peers, Book):
        federation.peers = Book()
    return federation.peers


def acquaint(live: LiveNode, peer: ReferenceNode, **fields: Any) -> None:
    """Declare each to the other."""
    peer.peers[live.node.node_id] = own_key(live)
    shape: dict[str, Any] = {"scopes": COMPANY, "active": True, **fields}
    book_of(live).peers[peer.node_id] = ProtocolPeer(
        peer.node_id, peer.url, peer.public_key, **shape
    )


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock((WALL_MS + 60_000) * 1000)


@pytest.fixture
def peer() -> Iterator[ReferenceNode]:
    node = ReferenceNode()
    yield node
    node.close()


@pytest.fixture
def live(serve: Callable[..., LiveNode], clock: FixedClock) -> LiveNode:
    return serve(
        clock=clock,
        federation_enabled=True,
        federation_insecure=True,
        federation_pull_interval_s=0.05,
    )


EVERYTHING = {"limit": 100, "include_low_trust": "true", "include_contradicted": "true"}


def held(live: LiveNode) -> list[dict[str, Any]]:
    """Every live fact, of any trust."""
    records: list[dict[str, Any]] = []
    query: dict[str, Any] = dict(EVERYTHING)
    while True:
        body = live.call("GET", "/v1/facts", params=query).json()
        records += body["facts"]
        if not body.get("cursor") or not body["facts"]:
            return records
        query["cursor"] = body["cursor"]


def pull_of(live: LiveNode, peer: ReferenceNode) -> dict[str, Any]:
    body = live.call("GET", "/v1/federation/pulls").json()
    return next(each for each in body["pulls"] if each["node_id"] == peer.node_id)


# -- pulling


def test_facts_of_a_peer_come_with_provenance_edges_and_lineage(
    live: LiveNode, peer: ReferenceNode
) -> None:
    parent = peer.state("first")
    child = peer.state(
        "second",
        derived_from=[{"hash": parent["cid"], "fact_id": parent["id"]}],
        valid_until="2030-01-01T00:00:00Z",
    )
    peer.state("stigmem://ref.example/thing/9", "ref", entity="stigmem://ref.example/thing/8")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 3)
    by_entity = {record["entity"]: record for record in held(live)}
    got = by_entity[child["entity"]]
    assert got["origin_node_id"] == peer.node_id
    assert got["received_from"] == peer.node_id
    assert got["hlc"] == f"{WALL_MS}.001"
    assert got["valid_until"] == "2030-01-01T00:00:00Z"
    assert got["derived_from"] == [{"hash": parent["cid"], "fact_id": parent["id"]}]
    assert got["cid"] == child["cid"]
    lineage = live.call("GET", f"/v1/facts/{got['id']}/provenance").json()
    assert by_entity[parent["entity"]]["id"] in str(lineage)
    neighbors = live.call(
        "GET",
        "/v1/graph/neighbors",
        params={"entity": "stigmem://ref.example/thing/8", "scope": "company"},
        key=live.mint("read", "federate", entity="agent:f"),
    ).json()
    assert "stigmem://ref.example/thing/9" in str(neighbors)


def test_no_fact_is_lost_with_a_cursor_compared_as_text(
    live: LiveNode, peer: ReferenceNode
) -> None:
    """Forty facts within one millisecond, written and pulled by turns. The reference delivers seven
    of them to itself."""
    acquaint(live, peer)
    for n in range(40):
        peer.state(f"v{n}")
        if n % 4 == 0:
            until(lambda wanted=n + 1: len(held(live)) == wanted)
    until(lambda: len(held(live)) == 40)


def test_the_puller_follows_every_page(live: LiveNode, peer: ReferenceNode) -> None:
    for n in range(1203):
        peer.tick(WALL_MS + n)
        peer.counter = -1
        peer.state(f"v{n}")
    acquaint(live, peer)
    until(lambda: pull_of(live, peer)["accepted"] == 1203)
    # Accepted facts are committed a moment before they are visible.
    until(lambda: len({record["id"] for record in held(live)}) == 1203)


def test_an_integer_is_the_number_it_is(live: LiveNode, peer: ReferenceNode) -> None:
    peer.state(42, "number")
    peer.state(0.5, "number")
    peer.state(v=True, kind="boolean")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 3)
    assert sorted(str(record["value"]["v"]) for record in held(live)) == ["0.5", "42.0", "True"]
    assert pull_of(live, peer)["refusals"] == []


POISON: dict[str, dict[str, Any]] = {
    "cid_mismatch": {"cid": "sha256:" + "0" * 64},
    "invalid_value": {"value": {"type": "number", "v": "NaNny"}, "cid": None},
    "instruction_write_required": {
        "value": {"type": "text", "v": "obey", "interpret_as": "instruction"}, "cid": None,
    },
    "scope_not_permitted": {"scope": "team"},
    "relayed": {"received_from": "stigmem:node:other"},
    "garden_fact": {"garden_id": "g"},
    "reserved": {"entity": "stigmem:conflict:1"},
    "invalid_validity": {"valid_until": "soon"},
    "invalid_confidence": {"confidence": 7, "cid": None},
    "invalid_provenance": {"derived_from": ["nonsense"]},
    "invalid_entity_uri": {"entity": " ", "cid": None},
    "malformed": {"hlc": None},
    "value_too_large": {"value": {"type": "text", "v": "x" * 300_000}, "cid": None},
}  # fmt: skip


def test_a_refused_fact_is_named_and_blocks_no_others(live: LiveNode, peer: ReferenceNode) -> None:
    peer.scopes |= {"team"}
    named: dict[str, str] = {}
    for code, fields in POISON.items():
        peer.state("good")
        named[peer.state("bad", **fields)["id"]] = code
    peer.state("last")
    acquaint(live, peer)
    until(lambda: len(held(live)) == len(POISON) + 1)
    told = pull_of(live, peer)
    assert {each["fact_id"]: each["code"] for each in told["refusals"]} == named
    assert told["refused"] == len(POISON)
    position = live.node.log.head().position
    time.sleep(0.3)  # several rounds: a settled record is not settled again
    assert live.node.log.head().position == position


def test_malformed_records_are_skipped(live: LiveNode, peer: ReferenceNode) -> None:
    bad = peer.state("bad")
    del bad["id"]
    del peer.state("worse")["value"]
    peer.state("good")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    assert {each["code"] for each in pull_of(live, peer)["refusals"]} == {"malformed"}


def test_a_clock_far_ahead_holds_its_own_facts_back_and_loses_none(
    live: LiveNode, peer: ReferenceNode, clock: FixedClock
) -> None:
    peer.state("now")
    peer.tick(WALL_MS + 3_600_000)
    peer.state("an hour ahead")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    until(lambda: "ahead" in str(pull_of(live, peer)["held"]))
    clock.advance(3_600_000_000)
    until(lambda: len(held(live)) == 2)
    until(lambda: pull_of(live, peer)["held"] is None)


def test_sources_of_this_node_are_its_own(live: LiveNode, peer: ReferenceNode) -> None:
    live.mint("read", "write", entity="agent:mine")
    peer.state("forged", source="agent:mine")
    peer.state("fine")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    assert [each["code"] for each in pull_of(live, peer)["refusals"]] == ["source_not_owned"]


def test_a_retraction_by_record_ends_only_the_peers_facts(
    live: LiveNode, peer: ReferenceNode
) -> None:
    same = {"entity": "stigmem://t.example/user/alice", "relation": "memory:role"}
    mine = live.state(**same, v="CEO", scope="company", source="agent:local")
    peer.state("CFO", **same)
    peer.state("retracted", confidence=0.0, **same)
    acquaint(live, peer)
    until(lambda: pull_of(live, peer)["accepted"] == 2)
    assert [record["id"] for record in held(live)] == [mine["id"]]


def test_a_broken_peer_delays_no_other(live: LiveNode, peer: ReferenceNode) -> None:
    broken = [ReferenceNode(f"stigmem:node:2222222{n}-1111-4111-8111-111111111111")
              for n in range(4)]  # fmt: skip
    answers = [(500, b"{}"), (200, b"not json"), (200, b"[]"), (200, b'{"facts": 3}')]
    for node, answer in zip(broken, answers, strict=True):
        node.answer = answer
        acquaint(live, node)
    for n in range(3):
        peer.state(f"v{n}")
    acquaint(live, peer)
    until(lambda: len(held(live)) == 3)
    until(lambda: all(pull_of(live, node)["fault"] for node in broken))
    broken[0].state("recovered")
    broken[0].answer = None
    until(lambda: len(held(live)) == 4)
    for node in broken:
        node.close()


def test_an_inactive_peer_is_not_pulled(live: LiveNode, peer: ReferenceNode) -> None:
    peer.state("x")
    acquaint(live, peer, active=False)
    time.sleep(1.0)
    assert peer.requests == []
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    acquaint(live, peer, active=False)
    time.sleep(0.8)
    before = len(peer.requests)
    time.sleep(0.5)
    assert len(peer.requests) == before


def test_a_restart_pulls_on_and_takes_nothing_twice(
    tmp_path: Path, peer: ReferenceNode, clock: FixedClock
) -> None:
    peer.state("one")
    first = LiveNode(
        tmp_path / "d",
        clock=clock,
        federation_enabled=True,
        federation_insecure=True,
        federation_pull_interval_s=0.05,
    )
    acquaint(first, peer)
    until(lambda: len(held(first)) == 1)
    first.close()
    peer.state("two")
    second = LiveNode(
        tmp_path / "d",
        clock=clock,
        federation_enabled=True,
        federation_insecure=True,
        federation_pull_interval_s=0.05,
    )
    try:
        acquaint(second, peer)
        until(lambda: len(held(second)) == 2)
        before = second.node.reader.digests()
        second.node.rebuild()
        assert second.node.reader.digests().local == before.local
        assert len(held(second)) == 2
    finally:
        second.close()


# -- two of our nodes and one such peer


def wrap_into(live: LiveNode, events: list[Stored]) -> None:
    """Give a node another node's events, as replaying its streams does."""
    while not continued(live, events):  # the node's own events came between
        pass
    live.node.write(TakeForeignEnds())


def continued(live: LiveNode, events: list[Stored]) -> bool:
    """Whether the events followed the present head of the node's log."""
    head = live.node.log.head()
    copied = [
        Stored(
            head.position + n + 1, head.received_at, head.received_hlc + n + 1,
            "stigmem:node:peer", each.header, each.hash, each.salt, each.payload,
        )
        for n, each in enumerate(events)
    ]  # fmt: skip
    try:
        live.node.writer.copy(live.node.log, copied, []).result(10)
    except CorruptLog:
        if live.node.log.head().position == head.position:
            raise
        return False
    return True


def scope_events(live: LiveNode) -> list[Stored]:
    streams = [
        name
        for name in live.node.log.stream_heads()
        if "/scope/" in name and name.startswith(live.node.identity.node_id)
    ]
    return live.node.log.read_stored(0, 1000, streams)


def test_two_nodes_that_pull_one_peer_agree(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
) -> None:
    nodes = [
        serve(
            clock=clock,
            federation_enabled=True,
            federation_insecure=True,
            federation_pull_interval_s=0.05,
        )
        for _ in range(3)
    ]
    a, b, neither = nodes
    same = {"entity": "stigmem://t.example/user/alice", "relation": "memory:role"}
    peer.state("CEO", **same)
    peer.state("CFO", **same)
    peer.state("stigmem://ref.example/thing/9", "ref")
    for node in (a, b):
        acquaint(node, peer)
        until(lambda node=node: len(held(node)) == 3)
    from_a, from_b = scope_events(a), scope_events(b)
    wrap_into(a, from_b)
    wrap_into(b, from_a)
    wrap_into(neither, from_b)
    wrap_into(neither, from_a)
    shared = {node.node.reader.digests().shared for node in nodes}
    assert len(shared) == 1
    assert (
        {r["id"] for r in held(a)} == {r["id"] for r in held(b)} == {r["id"] for r in held(neither)}
    )
    for node in nodes:
        node.node.rebuild()
        assert {node.node.reader.digests().shared} == shared
    peer.state("CFO", confidence=0.0, **same)
    for node in (a, b):
        until(lambda node=node: pull_of(node, peer)["accepted"] == 4)
    assert len(held(a)) == 1  # both claims were of one source: the record ends them
    assert a.node.reader.digests().shared == b.node.reader.digests().shared


def test_an_erased_fact_does_not_come_back_however_it_comes(
    serve: Callable[..., LiveNode], clock: FixedClock, peer: ReferenceNode
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
    gone = peer.state("to be forgotten")
    peer.state("kept")
    for node in (a, b):
        acquaint(node, peer)
        until(lambda node=node: len(held(node)) == 2)
    body = {"entity": gone["entity"], "reason": "request", "wait": False}
    erased = a.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.status_code in (200, 201, 202), erased.text
    until(lambda: len(held(a)) == 1)
    wrap_into(a, scope_events(b))
    time.sleep(0.3)
    assert [record["value"]["v"] for record in held(a)] == ["kept"]
    a.node.rebuild()
    assert [record["value"]["v"] for record in held(a)] == ["kept"]


# -- being pulled


def fetch(
    live: LiveNode, peer: ReferenceNode, scopes: list[str] | None = None, **query: Any
) -> httpx.Response:
    now_ms = live.node.clock.now_us() // 1000
    token = peer.token(live.node.node_id, now_ms, scopes or ["company", "public"])
    return live.call("GET", "/v1/federation/facts", key=token, params=query)


def drained(live: LiveNode, peer: ReferenceNode, limit: int) -> list[dict[str, Any]]:
    """Everything, by a client that hands each cursor back as it came."""
    records: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query: dict[str, Any] = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        body = fetch(live, peer, **query).json()
        records += body["facts"]
        cursor = body["cursor"] or cursor
        if not body["has_more"]:
            return records


@pytest.fixture
def served(live: LiveNode, peer: ReferenceNode) -> LiveNode:
    acquaint(live, peer, pulled=False)
    return live


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
        ({"exp": WALL_MS + 3 * 86_400_000}, "iat_too_old"),
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
        book_of(mine).peers[other.node.node_id] = ProtocolPeer(
            other.node.node_id, other.url, own_key(other), COMPANY, active=True
        )
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
        name = other.node.node_id
        book_of(mine).peers[name] = ProtocolPeer(
            name, other.url, own_key(other), frozenset(scopes), active=True
        )

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
    time.sleep(0.8)
    assert peer.requests == []


# -- being pushed to


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
