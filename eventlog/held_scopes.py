"""The scopes that a node over a shared log holds, if not all.

An event of another scope keeps its place and hash and has no payload, like an erased one: readers
of events show nothing of it. Erasures and revoked capabilities are exceptions, because they end
data that a node may have in other files.
"""

from typing import get_args

import msgspec

from engramlog.eventlog.event import Header, Recorded, UnknownPayload
from engramlog.eventlog.kinds import Payload
from engramlog.eventlog.kinds.payload import Scope

EVERY_SCOPE: frozenset[str] = frozenset(get_args(Scope))
KNOWN_EVERYWHERE = frozenset({"fact_erased", "capability_revoked"})
_SCOPE, _GARDEN = "scope/", "garden/"


def is_held(
    held: frozenset[str],
    partition: str,
    kind: str,
    payload: Payload | UnknownPayload | None,
) -> bool:
    """Whether a node with the scopes ``held`` reads an event's payload. An event in a garden
    belongs to the scope it names; one without scope is read."""
    if kind in KNOWN_EVERYWHERE:
        return True
    if partition.startswith(_SCOPE):
        return partition.removeprefix(_SCOPE) in held
    if partition.startswith(_GARDEN):
        scope = getattr(payload, "scope", None)
        return scope is None or scope in held
    return True


def known(held: frozenset[str], event: Recorded) -> Recorded:
    """The event as read by a node with the scopes ``held``."""
    if is_held(held, partition_of(event.header), event.header.kind, event.payload):
        return event
    return msgspec.structs.replace(event, payload=None)


def partition_of(header: Header) -> str:
    """The partition of an event's stream, for any origin and epoch."""
    return header.stream.removeprefix(header.origin + "/").partition("/")[2]


def beyond(held: frozenset[str]) -> list[str]:
    """Name endings of the streams that are not held."""
    return [f"/{_SCOPE}{scope}" for scope in sorted(EVERY_SCOPE - held)]
