"""Facts of nodes that speak only the protocol's federation, as projections see them.

Such a fact has no event: the puller wraps it in one. Several of our nodes may wrap the same fact,
replay each other, and must agree. So every projector sees a wrapped fact under an id computed from
its content, with the foreign node's clock reading, time and name in the header: the same for every
wrapping. The first wrapping applies; of later ones the tables note the positions, for erasures.
"""

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, ForeignFact, ForeignPageReceived
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import (
    json_list,
    query,
    query_column,
    query_one,
    query_value,
)
from engramlog.projections.tables.declared.policies import is_set_valued
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.facts.fact_retractions import RETRACTED_VALUE
from engramlog.projections.tables.projector import Projector

FOREIGN_PARTITION = "foreign"
_CONTEXT = b"engramlog/foreign-fact/1\n"
_STANDS = """
SELECT from_position FROM fact_rows WHERE id=?1
UNION ALL SELECT 0 FROM erased_facts WHERE fact_id=?1 LIMIT 1
"""
_NOTE_COPY = """
INSERT OR IGNORE INTO foreign_copies
SELECT ?1, ?2, EXISTS (SELECT 1 FROM erased_facts WHERE fact_id=?2)
"""
_ENDS = f"""
SELECT 1 FROM fact_rows WHERE entity=? AND relation=? AND scope=? AND garden_id IS NULL
  AND source=? AND origin=? AND hlc<? AND to_position={LIVE} AND set_aside={LIVE}
  AND base_confidence>0 AND (? OR (value_type, value_v)=(?,?)) LIMIT 1
"""


def foreign_event_id(fact: FactAsserted) -> bytes:
    """The 16-byte id of a wrapped fact, the same wherever it was wrapped: a hash of the foreign
    node, its id for the fact, and the fact's content."""
    return foreign_payload_id(encode_payload(fact))


def foreign_payload_id(payload: bytes) -> bytes:
    """``foreign_event_id`` of the bytes in the log."""
    return sha256(_CONTEXT + payload).digest()[:16]


def unwrapped(event: Recorded) -> Recorded:
    """The event as if the foreign node had recorded it; other events as they are."""
    fact = event.payload
    if type(fact) is not FactAsserted or fact.foreign is None:
        return event
    foreign = fact.foreign
    header = msgspec.structs.replace(
        event.header,
        event_id=foreign_event_id(fact),
        origin=foreign.node_id,
        stream=f"{foreign.node_id}/{FOREIGN_PARTITION}",
        stream_seq=0,
        hlc=foreign.hlc,
        recorded_at=foreign.recorded_at,
        actor=foreign.node_id,
    )
    if fact.id is not None:  # a peer does not choose the id of a foreign fact
        event = msgspec.structs.replace(event, payload=msgspec.structs.replace(fact, id=None))
    return msgspec.structs.replace(event, header=header, peer=event.peer or foreign.node_id)


def admitted(
    events: Sequence[Recorded], stands_at: Callable[[bytes], int | None]
) -> Sequence[Recorded]:
    """Events as projectors see them: foreign facts unwrapped, each of them once. ``stands_at``: the
    position at which an event id's fact was applied, or None."""
    if not [e for e in events if type(e.payload) is FactAsserted and e.payload.foreign is not None]:
        return events
    kept: list[Recorded] = []
    seen: set[bytes] = set()
    for event in events:
        shown = unwrapped(event)
        if shown is not event:
            before = stands_at(shown.event_id)
            if shown.event_id in seen or before not in (None, event.position):
                continue
            seen.add(shown.event_id)
        kept.append(shown)
    return kept


def note_copies(events: Sequence[Recorded], kept: Sequence[Recorded], db: apsw.Connection) -> None:
    """Note the events that ``admitted`` left out: an erasure of their fact erases them too."""
    applied = {event.position for event in kept}
    for event in events:
        if event.position not in applied:
            assert isinstance(event.payload, FactAsserted)
            fact = id_text(foreign_event_id(event.payload))
            db.execute(_NOTE_COPY, (event.position, fact))


def copies_of(db: apsw.Connection, facts: Collection[str]) -> list[int]:
    """Positions of the later wrappings of facts."""
    sql = "SELECT position FROM foreign_copies WHERE fact_id IN (SELECT value FROM json_each(?))"
    return query_column(db, sql, (json_list(facts),))


def copies_after_erasure(db: apsw.Connection) -> list[int]:
    """Positions of wrappings that came after their facts were erased."""
    return query_column(db, "SELECT position FROM foreign_copies WHERE after_erasure")


def stands_in(db: apsw.Connection) -> Callable[[bytes], int | None]:
    """``stands_at`` of the tables. An erased fact has no position and is not admitted again."""

    def at(event_id: bytes) -> int | None:
        return query_value(db, _STANDS, (id_text(event_id),))

    return at


class ForeignPages(Struct, frozen=True):
    """What this node took from a foreign node so far; ``cursor``: its furthest scope's cursor."""

    cursor: str
    received: int
    accepted: int
    refused: int


class ForeignFactsProjector(Projector):
    """Five tables. ``foreign_facts``: the fact behind a foreign node's id, and whether this node
    wrapped it. ``foreign_copies``: its later wrappings, as ``note_copies`` finds them.
    ``foreign_cursors``: how far each scope of a node was pulled. ``foreign_pages``: the outcome per
    node. ``foreign_refusals``: the refused facts."""

    name = "foreign_facts"
    version = 3
    schema = """
    CREATE TABLE foreign_facts (
        node_id TEXT NOT NULL,
        foreign_id TEXT NOT NULL,
        fact_id TEXT NOT NULL,
        wrapped_here INTEGER NOT NULL,
        PRIMARY KEY (node_id, foreign_id, fact_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE foreign_copies (
        position INTEGER PRIMARY KEY,
        fact_id TEXT NOT NULL,
        after_erasure INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX foreign_copies_by_fact ON foreign_copies (fact_id);
    CREATE INDEX foreign_copies_after_erasure ON foreign_copies (position) WHERE after_erasure;
    CREATE TABLE foreign_cursors (
        node_id TEXT NOT NULL,
        scope TEXT NOT NULL,
        cursor TEXT NOT NULL,
        PRIMARY KEY (node_id, scope)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE foreign_pages (
        node_id TEXT PRIMARY KEY,
        received INTEGER NOT NULL,
        accepted INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        last_at_us INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE foreign_refusals (
        node_id TEXT NOT NULL,
        foreign_id TEXT NOT NULL,
        code TEXT NOT NULL,
        position INTEGER NOT NULL,
        PRIMARY KEY (node_id, foreign_id, code)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"fact_asserted", "foreign_page_received"})
    erasing = (
        f"DELETE FROM foreign_facts WHERE fact_id IN {FACTS}",
        f"DELETE FROM foreign_copies WHERE position IN {POSITIONS}",
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, FactAsserted):
            foreign = payload.foreign
            if foreign is not None:
                here = event.peer == foreign.node_id
                db.execute(
                    "INSERT OR IGNORE INTO foreign_facts VALUES (?,?,?,?)",
                    (foreign.node_id, foreign.fact_id, id_text(event.event_id), int(here)),
                )
        elif isinstance(payload, ForeignPageReceived) and event.peer is None:
            self._page(event, payload, db)

    def _page(self, event: Recorded, page: ForeignPageReceived, db: apsw.Connection) -> None:
        """Count a received page, move the cursor of its scope, and keep its refusals."""
        db.execute(
            "INSERT INTO foreign_pages VALUES (?,?,?,?,?) ON CONFLICT (node_id) DO UPDATE SET"
            " received=received+excluded.received, accepted=accepted+excluded.accepted,"
            " refused=refused+excluded.refused, last_at_us=excluded.last_at_us",
            (
                page.node_id,
                page.received,
                page.accepted,
                len(page.refused),
                event.header.recorded_at,
            ),
        )
        if page.cursor:
            db.execute(
                "INSERT OR REPLACE INTO foreign_cursors VALUES (?,?,?)",
                (page.node_id, page.scope, page.cursor),
            )
        db.executemany(
            "INSERT OR IGNORE INTO foreign_refusals VALUES (?,?,?,?)",
            [(page.node_id, each.fact_id, each.code, event.position) for each in page.refused],
        )


def foreign_cursor(db: apsw.Connection, node_id: str, scope: str) -> str:
    """How far a scope of a foreign node was pulled; empty before the first pull."""
    sql = "SELECT cursor FROM foreign_cursors WHERE node_id=? AND scope=?"
    return query_value(db, sql, (node_id, scope)) or ""


def foreign_pages(db: apsw.Connection, node_id: str) -> ForeignPages | None:
    """The outcome for a foreign node; None before its first page."""
    row = query_one(
        db,
        "SELECT (SELECT coalesce(max(cursor), '') FROM foreign_cursors WHERE node_id=?1),"
        " received, accepted, refused FROM foreign_pages WHERE node_id=?1",
        (node_id,),
    )
    return None if row is None else ForeignPages(*row)


def is_known(db: apsw.Connection, fact: FactAsserted, before: Sequence[FactAsserted] = ()) -> bool:
    """Whether this node has a foreign node's fact: under the id of its own wrapping, or, with the
    same content, by any puller's. A peer's claim about an id proves nothing, and a record of
    confidence 0 that it brought ends only what came through it: the foreign node's own is new
    while it ends more, of the tables or of the facts that come ``before`` it."""
    assert fact.foreign is not None
    sql = (
        "SELECT wrapped_here FROM foreign_facts WHERE node_id=? AND foreign_id=?"
        " AND (wrapped_here OR fact_id=?)"
    )
    named = (fact.foreign.node_id, fact.foreign.fact_id, id_text(foreign_event_id(fact)))
    here = query_one(db, sql, named)
    if here is None or here[0] or fact.confidence > 0.0:
        return here is not None
    return not _ends_more(db, fact, fact.foreign, before)


def _ends_more(
    db: apsw.Connection,
    record: FactAsserted,
    foreign: ForeignFact,
    before: Sequence[FactAsserted],
) -> bool:
    """Whether a record of confidence 0 would end a live fact of its source and node."""
    value, key = record.value, _key(record)
    every = (value.type, value.v) == ("string", RETRACTED_VALUE)
    every = every or not is_set_valued(db, record.relation)
    asked = (*key, foreign.node_id, foreign.hlc, every, value.type, value.v)
    return query_one(db, _ENDS, asked) is not None or any(
        _key(each) == key and each.confidence > 0.0 and (every or each.value == value)
        for each in before
    )


def _key(fact: FactAsserted) -> tuple[str, str, str, str]:
    return fact.entity, fact.relation, fact.scope, fact.source


def foreign_settled(db: apsw.Connection, node_id: str, names: Sequence[str]) -> dict[str, str]:
    """The foreign node's ids settled here: empty text if taken, else the reason of the refusal."""
    rows = query(
        db,
        "SELECT foreign_id, code FROM foreign_refusals WHERE node_id=?1"
        " AND foreign_id IN (SELECT value FROM json_each(?2))"
        " UNION ALL SELECT foreign_id, '' FROM foreign_facts WHERE node_id=?1"
        " AND foreign_id IN (SELECT value FROM json_each(?2)) AND wrapped_here",
        (node_id, json_list(names)),
    )
    return dict(rows)


def foreign_known(db: apsw.Connection, facts: Sequence[FactAsserted]) -> list[bool]:
    """``is_known`` for each fact of a page, in order of their clock readings."""
    fresh: list[FactAsserted] = []
    known: list[bool] = []
    for fact in facts:
        known.append(is_known(db, fact, fresh))
        if not known[-1]:
            fresh.append(fact)
    return known


def foreign_refusals(db: apsw.Connection, node_id: str, limit: int) -> list[tuple[str, str, int]]:
    """(foreign id, code, position) of a node's refused facts, newest first."""
    sql = (
        "SELECT foreign_id, code, position FROM foreign_refusals WHERE node_id=?"
        " ORDER BY position DESC, foreign_id LIMIT ?"
    )
    return query(db, sql, (node_id, limit))
