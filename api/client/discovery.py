"""Reads the discovery document of another node."""

from typing import Any

import msgspec

from engramlog.api.client.webhook_addresses import address_fault, checked_connector
from engramlog.projections.http_exchange import HttpFault, deadline_within, exchange, open_session

DISCOVERY_SECONDS = 5.0
DISCOVERY_BYTES_MAX = 1_000_000
EVENTS_WIRE = "engramlog_events"
"""The document's key by which our nodes recognise each other."""


async def discovered(url: str, *, private: bool) -> dict[str, Any] | None:
    """The discovery document of the node at a URL; None if it is not readable. ``private``: whether
    it may be in private networks and on loopback."""
    if address_fault(url, private=private) is not None:
        return None
    try:
        async with open_session(connector=checked_connector(private=private)) as session:
            found = await exchange(
                session,
                "GET",
                f"{url.rstrip('/')}/.well-known/stigmem",
                headers={},
                limits=deadline_within(DISCOVERY_SECONDS),
                bytes_max=DISCOVERY_BYTES_MAX,
            )
        return msgspec.json.decode(found.body, type=dict[str, Any]) if found.status == 200 else None
    except (HttpFault, ValueError, msgspec.MsgspecError):
        return None
