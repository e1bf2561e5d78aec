"""A node and a peer that speaks the protocol alone."""

from collections.abc import Callable, Iterator

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode
from tests.worlds.protocol_peers import acquaint
from tests.worlds.reference_node import WALL_MS, ReferenceNode


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


@pytest.fixture
def served(live: LiveNode, peer: ReferenceNode) -> LiveNode:
    acquaint(live, peer, pulled=False)
    return live
