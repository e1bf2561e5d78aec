"""Fixtures: two nodes that replay each other; a node on a real socket, and a forger on another."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.federation.forged import Forger
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import START_US, Member
from tests.worlds.live import LiveNode


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START_US)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Member, Member]]:
    """Two nodes that replay each other."""
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    a.meet(b)
    b.meet(a)
    yield a, b
    a.close()
    b.close()


@pytest.fixture
def live(tmp_path: Path, clock: FixedClock) -> Iterator[LiveNode]:
    """A node with peers, for ``stop`` and ``close`` to end."""
    node = LiveNode(
        tmp_path / "node", clock=clock, federation_enabled=True, federation_insecure=True
    )
    yield node
    node.close()


@pytest.fixture
def hostile(tmp_path: Path, clock: FixedClock) -> Iterator[Callable[..., HostilePeer]]:
    """Make a peer that serves a forger's streams."""
    made: list[HostilePeer] = []

    def make(name: str = "forger") -> HostilePeer:
        peer = HostilePeer(Forger(tmp_path / name, clock))
        made.append(peer)
        return peer

    yield make
    for peer in made:
        peer.close()
