"""A node's view of a peer and of facts, over HTTP."""

from typing import Any

from tests.worlds.live import CONTROL_TOKEN, LiveNode


def detail(live: LiveNode, peer_id: str) -> dict[str, Any]:
    return live.call("GET", f"/v1/federation/peers/{peer_id}", key=CONTROL_TOKEN).json()


def held(live: LiveNode, peer_id: str) -> dict[str, str]:
    """Scope → why its stream is held."""
    return {
        each["stream"].rpartition("/")[2]: each["reason"]
        for each in detail(live, peer_id)["streams"]
        if each["held"]
    }


def texts(live: LiveNode, **only: str) -> set[str]:
    shown = {"include_low_trust": "true", "include_contradicted": "true", **only}
    found = live.call("GET", "/v1/facts", params={"limit": 500, **shown})
    return {each["value"]["v"] for each in found.json()["facts"]}
