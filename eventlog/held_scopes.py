"""The scopes that a node over a shared log holds, where it does not hold all.

An event of another scope keeps its place and hash and comes without payload, as an erased one does:
whatever reads events shows nothing of it. Erasures and revoked capabilities are the exception:
they end what a node may have in other files.
"""

from __future__ import annotations

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
    """Whether a node with the scopes ``held`` knows an event's payload. One in a garden is of
    the scope that it names; one that names none is known."""
    if kind in KNOWN_EVERYWHERE:
        return True
    if partition.startswith(_SCOPE):
        return partition.removeprefix(_SCOPE) in held
    if partition.startswith(_GARDEN):
        scope = getattr(payload, "scope", None)
        return scope is None or scope in held
    return True


def known(held: frozenset[str], event: Recorded) -> Recorded:
    """The event as a node with the scopes ``held`` knows it."""
    if is_held(held, partition_of(event.header), event.header.kind, event.payload):
        return event
    return msgspec.structs.replace(event, payload=None)


def partition_of(header: Header) -> str:
    """The partition of an event's stream; of any origin and epoch."""
    return header.stream.removeprefix(header.origin + "/").partition("/")[2]


def beyond(held: frozenset[str]) -> list[str]:
    """Endings of the streams whose events are not held."""
    return [f"/{_SCOPE}{scope}" for scope in sorted(EVERY_SCOPE - held)]
