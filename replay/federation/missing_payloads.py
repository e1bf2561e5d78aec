"""Missing payloads in a peer's stream, and the erasures that explain them.

The explaining erasure may come later in the same stream, in another stream of the same node, or in
the stream of a peer that may erase here. Until it arrives, the stream waits and no part of the page
is taken.
"""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from engramlog.eventlog.codec import decode_header, decode_payload
from engramlog.eventlog.identifiers import event_ids_of, id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import StreamHead
from engramlog.replay.federation.page import Awaited, StreamPage

ERASURE_WAIT_SECONDS = 600
"""How long a stream waits for an erasure before it is held."""
NAMES_AHEAD_MAX = 200_000
"""The most names of erased events kept from reading one stream ahead."""

ErasedHere = Callable[[Collection[bytes], str], set[bytes]]
"""The events of an origin that an erasure in this log explains."""


class ErasureAwaited(Awaited):
    """Payloads are missing, and no known erasure names them yet."""

    def __init__(self, stream: str, missing: Collection[bytes]) -> None:
        first = id_text(min(missing))
        super().__init__(
            f"{stream}: {len(missing)} payloads are missing and no erasure that is known here"
            f" names them, the first of event {first}"
        )


class Ahead(Struct):
    """The events that later erasures of one stream name, and how far it was read for them."""

    read_to: StreamHead
    names: set[bytes]
    ended: bool = False


def missing_of(page: StreamPage) -> set[bytes]:
    """Ids of the events without payload."""
    rows = page.events
    return {decode_header(header).event_id for header, _, _, payload in rows if payload is None}


def named_by(page: StreamPage) -> set[bytes]:
    """Ids of the events that erasures on a page name."""
    named: set[bytes] = set()
    for event in page.foreign():
        header = decode_header(event.header)
        if header.kind == "fact_erased" and event.payload is not None:
            payload = decode_payload(header, event.payload)
            if isinstance(payload, FactErased):
                named.update(event_ids_of(payload.events))
    return named


def read_on(
    ahead: Ahead,
    wanted: set[bytes],
    next_page: Callable[[StreamHead], tuple[StreamPage, StreamHead, Any] | None],
) -> set[bytes]:
    """The part of ``wanted`` that no later erasure of the stream names; reads on until it is empty
    or the stream ends."""
    left = wanted - ahead.names
    while left and not ahead.ended:
        found = next_page(ahead.read_to)
        if found is None:
            ahead.ended = True
            break
        page, ahead.read_to, _ = found
        names = named_by(page)
        left -= names
        ahead.names |= names if len(ahead.names) < NAMES_AHEAD_MAX else names & wanted
    return left
