"""The view of peers on two nodes that replay each other, and on a peer that signs two histories."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import PeerGrants
from engramlog.replay.federation.declaration import fingerprint
from tests.api.console.browser import Console, faults_of, overflow_of
from tests.worlds.federation.forged import Forger
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.seen import held, texts
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.waiting import until

Visit = Callable[..., Console]
AWAY = "http://127.0.0.1:1"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LiveNode, LiveNode]]:
    options: dict[str, Any] = {
        "federation_enabled": True,
        "federation_insecure": True,
        "federation_pull_interval_s": 0.05,
    }
    nodes = LiveNode(tmp_path / "here", **options), LiveNode(tmp_path / "there", **options)
    yield nodes
    for node in nodes:
        node.close()


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[HostilePeer]:
    peer = HostilePeer(Forger(tmp_path / "liar", FixedClock(time.time_ns() // 1000)))
    yield peer
    peer.close()


def reasons(node: LiveNode) -> list[str | None]:
    """Why the states of peers changed, as recorded."""
    found = node.call("GET", "/v1/log", key=CONTROL_TOKEN, params={"kind": "peer_state_set"})
    return [
        node.call("GET", f"/v1/log/{each['position']}", key=CONTROL_TOKEN)
        .json()["payload"]
        .get("reason")
        for each in found.json()["events"]
    ]


def test_lag_grants_a_held_stream_evidence_and_digests(
    pair: tuple[LiveNode, LiveNode], liar: HostilePeer, visit: Visit
) -> None:
    here, there = pair
    for one, other in ((here, there), (there, here)):
        grants = PeerGrants(scopes=["company"], retract_foreign=True)
        declared(one, other.node.node_id, other.url, own_key(other), grants)
    there.state(v="from there")
    liar.forger.state("shown first")
    false_id = liar.befriend(here)
    until(lambda: texts(here) == {"from there", "shown first"})
    liar.forger.streams.clear()
    liar.forger.state("shown later")
    liar.forger.state("shown last")
    until(lambda: held(here, false_id))

    tab = visit(here)
    page = tab.open("peers")
    expect(page.locator(".card")).to_have_count(2)
    page.locator(".card", has_text=there.url).click()
    content = page.locator("#content")
    expect(content).to_contain_text("it may end facts of others")
    expect(content).to_contain_text("level This node last had all that the peer offered")
    expect(page.get_by_role("region", name="All streams")).to_contain_text("scope/company1")
    page.get_by_role("button", name="Compare now").click()
    expect(content).to_contain_text("Both hold the same.")
    assert faults_of(page) == []

    expect(page.locator(".card", has_text=liar.url)).to_contain_text("another event 1 than it had")
    page.locator(".card", has_text=liar.url).click()
    streams = page.get_by_role("region", name="All streams")
    expect(streams.locator(".tag.bad")).to_have_text("held")
    expect(page.get_by_label("Evidence", exact=True)).to_contain_text("equivocation")
    expect(page.get_by_label("Evidence", exact=True)).to_contain_text("another event 1 than it had")
    expect(content).to_contain_text("all that the peer offered, but for 1 held stream, at")
    assert faults_of(page) == []
    for size in ("phone", "wide", "laptop"):
        tab.resize(size)
        assert overflow_of(page) <= 0, size
    page.locator(".held-stream").get_by_role("button", name="Release").click()
    page.locator("dialog[open] input[name=reason]").fill("asked its operator")
    page.locator("dialog[open]").get_by_role("button", name="Release").click()
    expect(page.locator("dialog[open]")).to_have_count(0)  # it closes before the node answers
    until(lambda: "asked its operator" in reasons(here))
    assert tab.faults == []


def test_an_operator_approves_a_peer_and_sees_that_one_is_away(
    pair: tuple[LiveNode, LiveNode], liar: HostilePeer, visit: Visit
) -> None:
    here, _ = pair
    declared(here, "stigmem:node:away", AWAY, own_key(here), PeerGrants(scopes=["company"]))
    peer_id = liar.register(here)
    tab = visit(here)
    page = tab.open("peers", peer=peer_id)
    page.get_by_role("button", name="Approve").click()
    print_ = page.locator("dialog[open] input[name=print]")
    print_.fill(fingerprint(liar.forger.wire_key))
    page.locator("dialog[open]").get_by_role("button", name="Approve").click()
    expect(page.locator(".card", has_text=liar.url).locator(".tag")).to_have_text("active")
    expect(page.locator(".card", has_text=AWAY)).to_contain_text(f"cannot reach {AWAY}")
    assert tab.faults == []
