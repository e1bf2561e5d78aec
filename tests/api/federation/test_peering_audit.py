"""The protocol's trail of federation."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engramlog.eventlog.kinds import (
    ForeignPageReceived,
    PeerEquivocated,
    PeerGrants,
    PeerPageReceived,
    PeerStateSet,
)
from engramlog.projections.audit.peering import Peering
from tests.worlds.live import LiveNode
from tests.worlds.protocol_peers import declared, own_key

GARDEN = "3c7a2b1e-0000-4000-8000-000000000001"


@pytest.fixture
def live(serve: Callable[..., LiveNode]) -> LiveNode:
    live = serve(auth_required=True, federation_enabled=True)
    for name in ("one", "two"):
        grants = PeerGrants(scopes=["company"], gardens=[GARDEN], pull=False)
        declared(live, f"stigmem:node:{name}", f"https://{name}.example", own_key(live), grants)
    return live


def trail(live: LiveNode, key: str, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", "/v1/federation/audit", key=key, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_happened_with_peers_comes_newest_first_in_pages(live: LiveNode) -> None:
    key = live.mint("federate")
    found: list[dict[str, Any]] = []
    page = trail(live, key, limit=3)
    while page["has_more"]:
        found += page["entries"]
        page = trail(live, key, limit=3, cursor=page["cursor"])
    found += page["entries"]
    assert [(each["peer_id"], each["event_type"]) for each in found] == [
        ("peer-of-stigmem:node:two", "peer_state_set"),
        ("peer-of-stigmem:node:two", "peer_declared"),
        ("peer-of-stigmem:node:one", "peer_state_set"),
        ("peer-of-stigmem:node:one", "peer_declared"),
    ]
    assert found[0]["detail"]["state"] == "active"
    assert found[1]["detail"]["node_url"] == "https://two.example"
    only = trail(live, key, peer_id="peer-of-stigmem:node:one")
    assert only["entries"] == found[2:]
    assert (only["cursor"], only["has_more"]) == (None, False)
    assert GARDEN not in str(found)


def test_streams_of_gardens_and_other_scopes_are_left_out(live: LiveNode) -> None:
    (event,) = live.node.log.read(0, 1)
    shown = Peering(live.node.log, frozenset({"company"}), {}, None)
    for place, seen in (
        ("scope/company", True),
        ("scope/team", False),
        (f"garden/{GARDEN}", False),
    ):
        stream = f"stigmem:node:one/1/{place}"
        for payload in (
            PeerPageReceived(
                node_id="one", stream=stream, first_seq=1, last_seq=2, statement={"head": "x"}
            ),
            PeerEquivocated(
                node_id="one", stream=stream, sort="rollback", detail="", earlier={}, later={}
            ),
            PeerStateSet(peer_id="one", stream=stream, held=True),
        ):
            entry = shown.entry(msgspec.structs.replace(event, payload=payload))
            assert (entry is not None) == seen
    for scope, seen in (("company", True), ("team", False), ("", False)):
        page = ForeignPageReceived(node_id="one", cursor="", received=2, accepted=1, scope=scope)
        assert (shown.entry(msgspec.structs.replace(event, payload=page)) is not None) == seen


def test_it_needs_the_permission_federate(live: LiveNode) -> None:
    key = live.mint("read", "write", "admin")
    refused = live.call("GET", "/v1/federation/audit", key=key)
    assert refused.json() == {"detail": "federate permission required"}
