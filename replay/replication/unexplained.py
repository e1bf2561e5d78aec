"""Missing payloads in a copy of a log without an erasure that names them.

A primary that was lost between an erased event and its erasure leaves such a copy. When the replica
is promoted, it names them itself: it never had them.
"""

from uuid import uuid4

from engramlog.eventlog.codec import decode_header
from engramlog.eventlog.event import Header
from engramlog.eventlog.identifiers import event_ids_of, id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import ReadableLog

PAGE_EVENTS = 2_000


def unexplained_erasure(log: ReadableLog) -> FactErased | None:
    """An erasure that names every event whose payload is missing without an erasure that names it;
    None if there are none."""
    missing: dict[bytes, Header] = {}
    after = 0
    while page := log.read_stored(after, PAGE_EVENTS):
        for stored in page:
            if stored.payload is None:
                header = decode_header(stored.header)
                missing[header.event_id] = header
        after = page[-1].position
    if not missing:
        return None
    for event in log.iterate():
        if isinstance(event.payload, FactErased):
            for event_id in event_ids_of(event.payload.events):
                missing.pop(event_id, None)
    if not missing:
        return None
    return FactErased(
        erasure_id=str(uuid4()),
        events=[id_text(event_id) for event_id in missing],
        fact_ids=[
            id_text(event_id)
            for event_id, header in missing.items()
            if header.kind == "fact_asserted"
        ],
    )
