"""Writing a transaction's events under the log's lock: one round trip for few, COPY for many."""

import os
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from engramlog.eventlog.chain import Link
from engramlog.eventlog.codec import decode_header
from engramlog.eventlog.engines.appending import KeyUses
from engramlog.eventlog.engines.postgres import statements
from engramlog.eventlog.engines.postgres.connecting import Connection
from engramlog.eventlog.engines.stored_log import event_rows, names_in, new_streams, payload_rows

COPY_EVENTS_MIN = 256
"""From this number of events, two COPY streams cost less than arrays of parameters."""
TRIAL_BYTES = 256 * 1024


def write_links(db: Connection, links: Sequence[Link], numbers: dict[str, int]) -> None:
    """Insert events with their payloads, and new streams, also into ``numbers``."""
    for stream, number in new_streams(links, numbers).items():
        numbers[stream] = number
        db.execute(statements.INSERT_STREAM, (number, stream))
    events, payloads = event_rows(links, numbers), payload_rows(links)
    if len(events) >= COPY_EVENTS_MIN:
        _copy(db, statements.COPY_EVENTS, statements.EVENT_TYPES, events)
        _copy(db, statements.COPY_PAYLOADS, statements.PAYLOAD_TYPES, payloads)
    elif events:
        db.execute(statements.INSERT_EVENTS, _columns(events))
        if payloads:
            db.execute(statements.INSERT_PAYLOADS, _columns(payloads))


def write_keys(db: Connection, keys: KeyUses) -> None:
    rows = [
        (actor.encode(), key.encode(), use.digest, use.first_position, use.last_position)
        for (actor, key), use in keys.items()
    ]
    if rows:
        db.execute(statements.INSERT_KEYS, _columns(rows))


def write_names(db: Connection, links: Sequence[Link]) -> None:
    """Record the events that ``fact_erased`` events among ``links`` name."""
    names = [(event_id, by.position) for event_id, by in names_in(links)]
    if names:
        db.execute(statements.NAME_ERASED, _columns(names))


def erase(db: Connection, event_ids: Sequence[bytes]) -> None:
    """Delete payloads, and blank the digests of the requests that wrote them."""
    headers = db.execute(statements.HEADERS_OF, (list(event_ids),)).fetchall()
    keys = {decode_header(header).idempotency_key for (header,) in headers} - {None}
    named = [key.encode() for key in keys if key is not None]
    used = db.execute(statements.KEYS_NAMED, (named,)).fetchall() if named else []
    actors, used_keys = [actor for actor, _ in used], [key for _, key in used]
    db.execute(statements.ERASE, (list(event_ids), actors, used_keys))


def try_to_write(db: Connection, position: int) -> None:
    """Insert an event and its payload, for the caller to roll back: a full server may still have
    room for a short one."""
    event = (position, 0, position, position.to_bytes(16), "", 0, 0, None, b"", b"")
    db.execute(statements.INSERT_EVENTS, _columns([event]))
    db.execute(statements.INSERT_PAYLOADS, _columns([(position, b"", os.urandom(TRIAL_BYTES))]))


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    return tuple([*map(itemgetter(number), rows)] for number in range(len(rows[0])))


def _copy(
    db: Connection, statement: str, types: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    with db.cursor().copy(statement) as copy:  # pyright: ignore[reportArgumentType]
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
