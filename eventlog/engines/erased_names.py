"""The events that an erasure names, the same for every engine."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from engramlog.eventlog.chain import Link
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_bytes
from engramlog.eventlog.kinds import FactErased


def event_ids_of(texts: Iterable[str]) -> list[bytes]:
    """The valid event ids that an erasure names; others are skipped."""
    ids: list[bytes] = []
    for text in texts:
        with suppress(ValueError):  # a peer's event may hold any text
            ids.append(id_bytes(text))
    return ids


def names_in(links: Sequence[Link]) -> list[tuple[bytes, Recorded]]:
    """The events that ``fact_erased`` events among ``links`` name, each with the one that does."""
    return [
        (event_id, recorded)
        for recorded, _ in links
        if isinstance(recorded.payload, FactErased)
        for event_id in event_ids_of(recorded.payload.events)
    ]
