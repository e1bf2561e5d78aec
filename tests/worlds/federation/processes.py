"""Node processes that are peers of each other."""

from collections.abc import Sequence
from typing import Any

from engramlog.api.client.client import ClientError
from tests.worlds.processes import NodeProcess

OPEN = {"STIGMEM_FEDERATION_ENABLED": "true", "STIGMEM_FEDERATION_INSECURE": "true"}
"""Settings of a node with peers at plain http addresses."""


def befriend(node: NodeProcess, other: NodeProcess, **grants: Any) -> dict[str, Any]:
    """Make ``other`` a peer of ``node``."""
    client = node.client(node.control.token)
    declaration = other.client().get("/v1/federation/declaration")
    fingerprint = declaration.pop("pubkey_fingerprint")
    registered = client.post("/v1/federation/peers", declaration)
    assert registered["status"] == "pending_approval", registered
    body = {"pubkey_fingerprint": fingerprint, "grants": grants}
    return client.post(f"/v1/federation/peers/{registered['peer_id']}/approve", body)


def mesh(nodes: Sequence[NodeProcess], **grants: Any) -> None:
    for one in nodes:
        for other in nodes:
            if one is not other:
                befriend(one, other, **grants)


def compared(node: NodeProcess, other: NodeProcess) -> dict[str, Any]:
    name = other.client().get("/.well-known/stigmem")["node_id"]
    client = node.client(node.control.token)
    return client.get(f"/v1/federation/peers/{name}/compare")


def level(nodes: Sequence[NodeProcess]) -> bool:
    try:
        return all(
            compared(one, other)["equal"] for one in nodes for other in nodes if one is not other
        )
    except ClientError:
        return False
