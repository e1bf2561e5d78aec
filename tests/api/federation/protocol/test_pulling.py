"""Pulling by the protocol over real sockets, from a node that has the reference's faults."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import PeerGrants
from tests.worlds.data_files import files_with
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.protocol_peers import (
    acquaint,
    declared,
    held,
    own_key,
    pull_of,
    scope_events,
    wrap_into,
)
from tests.worlds.reference_node import WALL_MS, ReferenceNode
from tests.worlds.waiting import until


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


def test_large_pages_are_asked_for_with_fewer_facts(
    live: LiveNode, peer: ReferenceNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding many megabytes at once would hold up every other request."""
    monkeypatch.setattr("engramlog.api.client.peer_source.PAGE_BYTES_MAX", 10_000)
    sizes = (10, 3_000, 3_000, 3_000, 30_000, 30_000, 10, 10)
    for size in sizes:
        peer.state("a" * size)
    acquaint(live, peer)
    until(lambda: len(held(live)) == len(sizes))
    limits = [int(query["limit"]) for query in peer.requests if query["scope"] == "company"]
    assert limits[:5] == [500, 62, 7, 1, 8]
    assert pull_of(live, peer)["fault"] is None


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


def test_records_of_impossible_fields_are_skipped_in_each_round(
    live: LiveNode, peer: ReferenceNode
) -> None:
    for field in ("entity", "source", "relation", "id"):  # text cut off within a character
        peer.state("cut").update({field: "user:\ud83d", "cid": None})
    impossible: tuple[object, ...] = (["company"], {}, None, 5)
    for scope in impossible:
        peer.state("nowhere")["scope"] = scope
    peer.state("good")
    body: dict[str, Any] = {"facts": peer.facts, "cursor": None, "has_more": False}
    peer.answer = (200, json.dumps(body).encode())
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    codes = {each["code"] for each in pull_of(live, peer)["refusals"]}
    assert codes == {"malformed", "reserved", "scope_not_permitted"}
    rounds = pull_of(live, peer)["rounds"]
    until(lambda: pull_of(live, peer)["rounds"] > rounds + 2)  # refused records may come again
    assert pull_of(live, peer)["fault"] is None


def test_a_number_of_thousands_of_digits_blocks_no_others(
    live: LiveNode, peer: ReferenceNode
) -> None:
    huge = peer.state("long", cid=None)
    peer.state("good")
    body: dict[str, Any] = {"facts": peer.facts, "cursor": None, "has_more": False}
    digits = b'{"type": "number", "v": ' + b"1" * 5_000 + b"}"
    value = json.dumps(huge["value"]).encode()
    peer.answer = (200, json.dumps(body).encode().replace(value, digits))
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    (refused,) = pull_of(live, peer)["refusals"]
    assert (refused["fact_id"], refused["code"]) == (huge["id"], "invalid_value")


def test_a_clock_far_ahead_holds_its_own_facts_back_and_loses_none(
    live: LiveNode, peer: ReferenceNode, clock: FixedClock
) -> None:
    peer.state("now")
    peer.tick(WALL_MS + 3_600_000)
    peer.state("an hour ahead")
    peer.peers[live.node.node_id] = own_key(live)
    grants = PeerGrants(scopes=["company"], wire="facts")
    declared(live, peer.node_id, peer.url, peer.public_key, grants)
    until(lambda: len(held(live)) == 1)
    until(lambda: "ahead" in str(pull_of(live, peer)["held"]))
    (listed,) = live.call("GET", "/v1/federation/peers", key=CONTROL_TOKEN).json()["peers"]
    assert "ahead" in str(listed["fault"])
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
    time.sleep(0.3)
    assert peer.requests == []
    acquaint(live, peer)
    until(lambda: len(held(live)) == 1)
    acquaint(live, peer, active=False)
    time.sleep(0.8)
    before = len(peer.requests)
    time.sleep(0.3)
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


@pytest.fixture
def pullers(serve: Callable[..., LiveNode], clock: FixedClock) -> list[LiveNode]:
    """Two nodes that pull by the protocol."""
    settings = {
        "federation_enabled": True,
        "federation_insecure": True,
        "federation_pull_interval_s": 0.05,
    }
    return [serve(clock=clock, **settings) for _ in range(2)]


@pytest.fixture
def doomed(pullers: list[LiveNode], peer: ReferenceNode) -> str:
    """The entity of one of two facts that both have pulled."""
    gone = peer.state("to be forgotten")
    peer.state("kept")
    for node in pullers:
        acquaint(node, peer)
        until(lambda node=node: len(held(node)) == 2)
    return gone["entity"]


def test_an_erased_fact_does_not_come_back_however_it_comes(
    pullers: list[LiveNode], doomed: str
) -> None:
    a, b = pullers
    erase(a, doomed)
    until(lambda: len(held(a)) == 1)
    wrap_into(a, scope_events(b))
    time.sleep(0.3)
    assert [record["value"]["v"] for record in held(a)] == ["kept"]
    a.node.rebuild()
    assert [record["value"]["v"] for record in held(a)] == ["kept"]
    until(lambda: not files_with(a.settings.data_dir, b"forgotten"))
    until(lambda: {each["status"] for each in erasures(a)} == {"clean"})
    a.node.rebuild()  # raises if it differs


def test_an_erased_fact_leaves_no_copy_that_another_puller_brought(
    pullers: list[LiveNode], doomed: str
) -> None:
    a, b = pullers
    wrap_into(a, scope_events(b))
    erase(a, doomed)
    until(lambda: {each["status"] for each in erasures(a)} == {"clean"})
    (erasure,) = erasures(a)
    assert (erasure["facts"], erasure["events"]) == (1, 2)
    assert files_with(a.settings.data_dir, b"forgotten") == {}
    a.node.rebuild()  # raises if it differs


def erase(live: LiveNode, entity: str) -> None:
    body = {"entity": entity, "reason": "request"}
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.status_code == 202, erased.text


def erasures(live: LiveNode) -> list[dict[str, Any]]:
    return live.call("GET", "/v1/erasures", key=CONTROL_TOKEN).json()["erasures"]
