"""The ``facts`` table: every fact ever asserted, its current confidence, and when it ended.

A row is live while ``to_position`` is ``LIVE``; history needs no second table. The columns
the seeds name (``confidence``, ``access_count``, ``last_accessed_at``) hold the current
state; what a past moment saw is computed from the intervals.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from operator import itemgetter

import apsw
import msgspec
from msgspec import Struct

from eventlog.event import Recorded
from eventlog.identifiers import id_text
from eventlog.kinds import (
    Attestation,
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactRetracted,
    Parent,
)
from projections.database import query
from projections.decay import GARDENS_SWEPT, SWEPT_COLUMNS, gardens_json, swept_rows
from projections.erasing import FACTS
from projections.moment import LIVE, NO_END, NO_START, parse_instant

SCHEMA = f"""
CREATE TABLE facts (
    from_position INTEGER PRIMARY KEY,
    to_position INTEGER NOT NULL DEFAULT {LIVE},
    id TEXT NOT NULL UNIQUE,
    entity TEXT NOT NULL,
    relation TEXT NOT NULL,
    value_type TEXT NOT NULL,
    value_v TEXT NOT NULL,
    interpret_as TEXT NOT NULL,
    source TEXT NOT NULL,
    scope TEXT NOT NULL,
    garden_id TEXT,
    confidence REAL NOT NULL,
    base_confidence REAL NOT NULL,
    valid_from TEXT,
    valid_until TEXT,
    valid_from_us INTEGER NOT NULL,
    valid_until_us INTEGER NOT NULL,
    hlc INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    cid TEXT NOT NULL,
    derived_from TEXT NOT NULL,
    write_mode TEXT NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    stream TEXT NOT NULL,
    stream_seq INTEGER NOT NULL,
    received_from TEXT,
    set_aside INTEGER NOT NULL DEFAULT {LIVE},
    attestation TEXT,
    access_count INTEGER NOT NULL DEFAULT 0,
    last_accessed_at INTEGER
) STRICT;
CREATE INDEX facts_by_key ON facts (entity, relation, scope, garden_id, source, hlc);
CREATE INDEX facts_by_garden ON facts (garden_id, from_position) WHERE garden_id IS NOT NULL;
"""

_INSERT = """
INSERT INTO facts (from_position, id, entity, relation, value_type, value_v, interpret_as,
    source, scope, garden_id, confidence, base_confidence, valid_from, valid_until,
    valid_from_us, valid_until_us, hlc, recorded_at, cid, derived_from, write_mode, actor,
    origin, stream, stream_seq, received_from, attestation)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
_END = f"UPDATE facts SET to_position=?, confidence=0.0 WHERE id=? AND to_position={LIVE}"
_SET_ASIDE = f"UPDATE facts SET set_aside=? WHERE id=? AND set_aside={LIVE}"
_SWEEP_CANDIDATES = f"""
SELECT {SWEPT_COLUMNS} FROM facts
WHERE to_position={LIVE} AND base_confidence>0 AND from_position<? AND (?='*' OR scope=?)
  AND {GARDENS_SWEPT}
"""
_DECAYED = "UPDATE facts SET confidence=? WHERE from_position=?"
_TTL_END = "UPDATE facts SET to_position=?, confidence=0.0 WHERE from_position=?"

_encode = msgspec.json.Encoder().encode
_decode_parents = msgspec.json.Decoder(list[Parent]).decode
_decode_attestation = msgspec.json.Decoder(Attestation).decode


class FactRow(Struct, frozen=True, gc=False):
    """The immutable part of a fact, as the log recorded it."""

    from_position: int
    id: str
    entity: str
    relation: str
    value_type: str
    value_v: str
    interpret_as: str
    source: str
    scope: str
    garden_id: str | None
    base_confidence: float
    valid_from: str | None
    valid_until: str | None
    hlc: int
    recorded_at: int
    cid: str
    parents_json: str
    write_mode: str
    actor: str
    origin: str
    received_from: str | None
    attestation_json: str | None = None

    @property
    def position(self) -> int:
        """The log position that recorded the fact."""
        return self.from_position

    @property
    def derived_from(self) -> list[Parent]:
        """Parents, as given."""
        return [] if self.parents_json == "[]" else _decode_parents(self.parents_json)

    @property
    def attestation(self) -> Attestation | None:
        """The source's signature, where one was given."""
        return None if self.attestation_json is None else _decode_attestation(self.attestation_json)


_ROW_COLUMNS = """from_position, id, entity, relation, value_type, value_v, interpret_as, source,
    scope, garden_id, base_confidence, valid_from, valid_until, hlc, recorded_at, cid,
    derived_from, write_mode, actor, origin, received_from, attestation"""
_FETCH_ONE = f"SELECT {_ROW_COLUMNS} FROM facts WHERE from_position=?"
_FETCH_MANY = f"""
SELECT {_ROW_COLUMNS} FROM facts WHERE from_position IN (SELECT value FROM json_each(?))
"""


def fact_id(event: Recorded) -> str:
    """A fact's id: the event's own, unless the payload carries a foreign one."""
    payload = event.payload
    assert isinstance(payload, FactAsserted)
    return payload.id or id_text(event.event_id)


def validity_us(payload: FactAsserted) -> tuple[int, int]:
    """Valid interval in microseconds, open ends as NO_START and NO_END."""
    start = NO_START if payload.valid_from is None else parse_instant(payload.valid_from)
    end = NO_END if payload.valid_until is None else parse_instant(payload.valid_until)
    return start, end


def row_values(event: Recorded) -> tuple[apsw.SQLiteValue, ...]:
    """The columns of a new row, in the order of the insert."""
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    header = event.header
    value = fact.value
    start, end = validity_us(fact)
    return (
        event.position,
        fact.id or id_text(header.event_id),
        fact.entity,
        fact.relation,
        value.type,
        value.v,
        value.interpret_as,
        fact.source,
        fact.scope,
        fact.garden_id,
        fact.confidence,
        fact.confidence,
        fact.valid_from,
        fact.valid_until,
        start,
        end,
        header.hlc,
        header.recorded_at,
        fact.cid,
        _encode(fact.derived_from).decode() if fact.derived_from else "[]",
        fact.write_mode,
        header.actor,
        header.origin,
        header.stream,
        header.stream_seq,
        event.peer,
        None if fact.attestation is None else _encode(fact.attestation).decode(),
    )


class FactsProjector:
    """Rows of ``facts``."""

    name = "facts"
    version = 2
    tables = ("facts",)
    schema = SCHEMA
    late_indexes = ""
    kinds = frozenset({"fact_asserted", "fact_retracted", "conflict_resolved", "decay_swept"})
    reads: frozenset[str] = frozenset()
    erasing = (f"DELETE FROM facts WHERE id IN {FACTS}",)

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        pending: list[tuple[apsw.SQLiteValue, ...]] = []
        sweeps: dict[str, tuple[int, DecaySwept]] = {}
        for event in events:
            payload = event.payload
            if pending and not isinstance(payload, FactAsserted):
                db.executemany(_INSERT, pending)
                pending = []
            if sweeps and not (isinstance(payload, DecaySwept) and _apart(payload.scope, sweeps)):
                self._sweep(sweeps, db)
                sweeps = {}
            if isinstance(payload, FactAsserted):
                pending.append(row_values(event))
            elif isinstance(payload, FactRetracted):
                db.executemany(_END, [(event.position, fact) for fact in payload.fact_ids])
            elif isinstance(payload, ConflictResolved):
                db.executemany(_SET_ASIDE, [(event.position, fact) for fact in payload.loser_ids])
            elif isinstance(payload, DecaySwept):
                sweeps[payload.scope] = (event.position, payload)
        if pending:
            db.executemany(_INSERT, pending)
        self._sweep(sweeps, db)

    def _sweep(self, sweeps: dict[str, tuple[int, DecaySwept]], db: apsw.Connection) -> None:
        """Sweeps of scopes that have no fact in common. Their rows are written together and in
        order, so that each page of a table larger than the cache is written once."""
        ended: list[tuple[int, int]] = []
        weaker: list[tuple[float, int]] = []
        for position, sweep in sweeps.values():
            gardens = gardens_json(sweep)
            bindings = (position, sweep.scope, sweep.scope, gardens, gardens)
            gone, decayed = swept_rows(sweep, query(db, _SWEEP_CANDIDATES, bindings))
            weaker += [(confidence, row) for row, confidence in decayed]
            ended += [(position, row) for row in gone]
        weaker.sort(key=itemgetter(1))
        db.executemany(_DECAYED, weaker)
        ended.sort(key=itemgetter(1))
        db.executemany(_TTL_END, ended)


def _apart(scope: str, sweeps: Container[str]) -> bool:
    """Whether a sweep of a scope touches nothing that these do."""
    return scope != "*" and scope not in sweeps and "*" not in sweeps


def fetch(db: apsw.Connection, positions: Sequence[int]) -> list[FactRow]:
    """Rows of the facts asserted at ``positions``, in the order asked; absent ones left out."""
    if len(positions) == 1:
        return [FactRow(*row) for row in query(db, _FETCH_ONE, (int(positions[0]),))]
    wanted = [int(position) for position in positions]
    asked = msgspec.json.encode(wanted).decode()
    by_position = {row[0]: FactRow(*row) for row in query(db, _FETCH_MANY, (asked,))}
    return [by_position[position] for position in wanted if position in by_position]


SAID_PAGE_ROWS = 20_000


def said_after(db: apsw.Connection, position: int) -> list[tuple[int, str, str, str, str]]:
    """(position, id, entity, relation, value) of the next facts asserted after a position."""
    rows = query(
        db,
        "SELECT from_position, id, entity, relation, value_v FROM facts WHERE from_position>?"
        " ORDER BY from_position LIMIT ?",
        (position, SAID_PAGE_ROWS),
    )
    return [(at, fact, entity, relation, value) for at, fact, entity, relation, value in rows]
