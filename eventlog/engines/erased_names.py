"""The events that an erasure names, the same for every engine."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from engramlog.eventlog.chain import Link
from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import FactErased


def event_ids_of(texts: Iterable[str]) -> list[bytes]:
    """The valid event ids that an erasure names; others are skipped."""
    ids: list[bytes] = []
    for text in texts:
        with suppress(ValueError):  # a peer's event may hold any text
            ids.append(id_bytes(text))
    return ids


def erased_of(links: Sequence[Link]) -> list[bytes]:
    """The events named by the log's own ``fact_erased`` events among ``links``."""
    return [
        event_id
        for recorded, _ in links
        if isinstance(recorded.payload, FactErased) and recorded.peer is None
        for event_id in event_ids_of(recorded.payload.events)
    ]
