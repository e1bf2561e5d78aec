"""Replicas and peers get everything over a link that never carries a whole page."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from engramlog.api.client.log_source import HttpLogSource
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.kinds import PeerGrants
from engramlog.replay.replication.follower import PrimaryFollower
from tests.worlds.cutting_proxy import cutting
from tests.worlds.live import LiveNode, fact
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.waiting import until

CARRIED_BYTES = 20_000
FACTS = 300

Serve = Callable[..., LiveNode]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    made: list[LiveNode] = []

    def make(**settings: Any) -> LiveNode:
        node = LiveNode(
            tmp_path / f"node{len(made)}",
            federation_enabled=True,
            federation_insecure=True,
            federation_pull_interval_s=0.05,
            **settings,
        )
        made.append(node)
        return node

    yield make
    for each in made:
        each.close()


def filled(live: LiveNode) -> None:
    """State facts that compress to about 100 kB."""
    letters = random.Random(1)
    body = [
        fact(entity=f"stigmem://t.example/thing/{number}", v=letters.randbytes(150).hex())
        for number in range(FACTS)
    ]
    assert live.call("POST", "/v1/facts/batch", json=body).status_code < 300


def test_a_replica_follows_over_a_link_that_cuts_every_whole_page(
    serve: Serve, tmp_path: Path
) -> None:
    primary = serve()
    filled(primary)
    key = primary.mint("replicate", entity="agent:replica")
    opened = SqliteLog.open(
        tmp_path / "log.db", origin="stigmem:node:copy", epoch=1, clock=SystemClock()
    )
    with opened as copy, cutting(primary.url, CARRIED_BYTES) as link:
        source = HttpLogSource(link.url, key)
        follower = PrimaryFollower(
            source, copy, copy.copy, primary.node.node_id, SystemClock().now_us
        )
        follower.start()
        try:
            head = primary.node.log.head().position
            until(lambda: copy.head().position == head)
        finally:
            follower.stop()
        assert link.cuts > 1


@pytest.mark.parametrize("wire", ["events", "facts"])
def test_a_peer_is_pulled_over_a_link_that_cuts_every_whole_page(
    serve: Serve, wire: Literal["events", "facts"]
) -> None:
    here, there = serve(), serve()
    filled(there)
    with cutting(there.url, CARRIED_BYTES) as link:
        for live, other, url in ((there, here, here.url), (here, there, link.url)):
            grants = PeerGrants(scopes=["company"], wire=wire, pull=live is here)
            declared(live, other.node.node_id, url, own_key(other), grants)
        until(lambda: len(facts_of(here)) == FACTS)
        assert link.cuts > 1


def facts_of(live: LiveNode) -> list[dict[str, Any]]:
    return live.call("GET", "/v1/facts", params={"limit": 500, "include_low_trust": "true"}).json()[
        "facts"
    ]
