"""The list of peers says which of them cannot be reached, to those who administer the node."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Literal

import pytest

from engramlog.eventlog.kinds import PeerGrants
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.processes import engramlog
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.waiting import until

AWAY = "stigmem:node:away"


@pytest.fixture
def away() -> Iterator[str]:
    """An address where nothing listens, and nothing else will."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def listed(live: LiveNode, key: str) -> dict[str, Any]:
    (peer,) = live.call("GET", "/v1/federation/peers", key=key).json()["peers"]
    return peer


@pytest.mark.parametrize("wire", ["events", "facts"])
def test_the_list_names_the_fault_of_an_active_peer(
    serve: Callable[..., LiveNode], wire: Literal["events", "facts"], away: str
) -> None:
    live = serve(
        auth_required=True,
        federation_enabled=True,
        federation_insecure=True,
        federation_pull_interval_s=0.05,
    )
    grants = PeerGrants(scopes=["company"], wire=wire)
    declared(live, AWAY, away, own_key(live), grants)
    peer = until(lambda: (found := listed(live, CONTROL_TOKEN))["fault"] and found)
    assert peer["status"] == "active"
    assert away in peer["fault"]
    assert listed(live, live.key_of("friend", "federate"))["fault"] is None
    path = f"/v1/federation/peers/{AWAY}"
    assert live.call("GET", path, key=CONTROL_TOKEN).json()["fault"] == peer["fault"]
    shown = engramlog("peer", "list", "--url", live.url, "--key-env", "K", env={"K": CONTROL_TOKEN})
    assert peer["fault"] in shown.stdout, shown.stderr
    live.call("PUT", f"{path}/grants", key=CONTROL_TOKEN, json={"pull": False})
    assert until(lambda: listed(live, CONTROL_TOKEN)["fault"] is None)
