"""Payloads that are missing from a peer's stream, and the erasures that explain them.

An erasure may come after the event that it names, in the same stream; in another stream of
the same node; or in the stream of a peer that may erase here. Until it is known, the stream
waits: nothing of the page is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from engramlog.eventlog.codec import decode_header, decode_payload
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import StreamHead
from engramlog.projections.tables.erasing import event_ids
from engramlog.replay.federation.page import Awaited, StreamPage

ERASURE_WAIT_SECONDS = 600
"""So long a stream waits for an erasure before it is held."""
NAMES_AHEAD_MAX = 200_000
"""Names of erased events that are remembered of a stream that is read ahead."""

ErasedHere = Callable[[Collection[bytes], str], set[bytes]]
"""Of events of an origin, those that an erasure in this log explains."""


class ErasureAwaited(Awaited):
    """Payloads are missing, and no erasure that names them is known yet."""

    def __init__(self, stream: str, missing: Collection[bytes]) -> None:
        first = id_text(min(missing))
        super().__init__(
            f"{stream}: {len(missing)} payloads are missing and no erasure that is known here"
            f" names them, the first of event {first}"
        )


class Ahead(Struct):
    """What erasures further on in one stream name, and how far it was read for them."""

    read_to: StreamHead
    names: set[bytes]
    ended: bool = False


def missing_of(page: StreamPage) -> set[bytes]:
    """Ids of the events that came without payload."""
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
                named.update(event_ids(payload.events))
    return named


def read_on(
    ahead: Ahead,
    wanted: set[bytes],
    next_page: Callable[[StreamHead], tuple[StreamPage, StreamHead, Any] | None],
) -> set[bytes]:
    """What of ``wanted`` no erasure further on in the stream names, reading as far as needed."""
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
