"""A peer's name that later resolves elsewhere: each connection checks its address."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.waiting import until

NAME = "peer.example"


@pytest.mark.parametrize("wire", ["events", "facts"])
@pytest.mark.parametrize("host", [NAME, "127.0.0.1"])
def test_no_peer_is_called_at_a_private_address(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch, wire: Any, host: str
) -> None:
    """The name resolved to a public address when the peer was declared, and resolves to this
    machine now."""
    usual = socket.getaddrinfo

    def rebound(name: Any, *rest: Any, **more: Any) -> Any:
        return usual("127.0.0.1" if name == NAME else name, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    live = serve(federation_enabled=True, federation_pull_interval_s=0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"https://{host}:{listener.getsockname()[1]}"
        grants = PeerGrants(scopes=["company"], erase_foreign=True, wire=wire)
        declared(live, "stigmem:node:somebody", url, own_key(live), grants)

        def faults() -> list[str]:
            tasks = live.call("GET", "/v1/admin/tasks", key=CONTROL_TOKEN).json()["tasks"]
            found = {each["name"]: each["error"] or "" for each in tasks}
            puller = "peer_replay" if wire == "events" else "peer_pulls"
            return [found[puller], found["peer_tombstones"]]

        refused = "not public" if host == NAME else "no address"
        until(lambda: all(refused in each for each in faults()))
        path = "/v1/federation/peers/stigmem:node:somebody/compare"
        compared = live.call("GET", path, key=CONTROL_TOKEN)
        assert compared.json()["detail"]["code"] == "peer_unreachable"
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_changed_grants_take_effect_at_once_for_pulled_facts(
    serve: Callable[..., LiveNode],
) -> None:
    options = {"federation_enabled": True, "federation_insecure": True}
    here = serve(**options, federation_pull_interval_s=3_600.0)
    there = serve(**options)
    grants = PeerGrants(scopes=["company"], wire="facts")
    wide = PeerGrants(scopes=["company", "public"], wire="facts")
    declared(here, there.node.node_id, there.url, own_key(there), wide)
    declared(there, here.node.node_id, here.url, own_key(here), wide)
    here.node.write(PeerStateSet(peer_id=f"peer-of-{there.node.node_id}", grants=grants))
    until(lambda: rounds(here, there) >= 1)
    there.state(v="of the public", scope="public")
    before = rounds(here, there)
    here.node.write(PeerStateSet(peer_id=f"peer-of-{there.node.node_id}", grants=wide))
    until(lambda: rounds(here, there) > before)
    found = here.call("GET", "/v1/facts", params={"scope": "public"}).json()["facts"]
    assert [each["value"]["v"] for each in found] == ["of the public"]


def rounds(here: LiveNode, there: LiveNode) -> int:
    state = here.service().federation.states.get(there.node.node_id)
    return 0 if state is None else state.rounds
