"""``facts``: every fact ever asserted, its current confidence, and when it ended.

A row is live while ``to_position`` is ``LIVE``; history needs no second table. The seeds' columns
(``confidence``, ``access_count``, ``last_accessed_at``) hold the current state; the past is
computed from the intervals.

``facts`` is a view of three tables: ``fact_rows``, ``decayed_confidences`` of the facts that a
sweep weakened, and ``access_counts`` of those that recalls returned. So sweeps and recalls write 20
bytes per fact, not its whole row.
"""

from __future__ import annotations

import gc
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from typing import Any

import apsw
import msgspec
import numpy as np

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import ConflictResolved, DecaySwept, FactAsserted, FactRetracted
from engramlog.projections.columns.fact_columns import (
    NOWHERE,
    SCOPE_NUMBERS,
    FactColumns,
    cid_number,
)
from engramlog.projections.columns.numbered_texts import VALUE_TYPES
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.memories.summary_naming import RELATION
from engramlog.projections.moment import LIVE, NO_END, NO_START, parse_instant
from engramlog.projections.normalization import is_reserved, normalize_ref
from engramlog.projections.rights.trust_formula import warrant_of
from engramlog.projections.tables.database import query
from engramlog.projections.tables.declared.trust import TrustPart
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.facts.decay import (
    GARDENS_SWEPT,
    MAY_DECAY,
    DecayPart,
    gardens_json,
    swept_rows,
)
from engramlog.projections.tables.projector import ImagePart, Projector
from engramlog.projections.text.question_share import asking_percent
from engramlog.projections.text.terms import lexical_text

SWEEP_PAGE_ROWS = 20_000
"""Rows that a sweep judges in one step: all at once would take half a gigabyte per million."""
SCHEMA = f"""
CREATE TABLE fact_rows (
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
    attestation TEXT
) STRICT;
CREATE TABLE decayed_confidences (
    from_position INTEGER PRIMARY KEY,
    confidence REAL NOT NULL
) STRICT;
CREATE TABLE access_counts (
    from_position INTEGER PRIMARY KEY,
    access_count INTEGER NOT NULL,
    last_accessed_at INTEGER NOT NULL
) STRICT;
CREATE VIEW facts AS
SELECT fact_rows.*, coalesce(accesses.access_count, 0) AS access_count, accesses.last_accessed_at,
    iif(to_position<{LIVE}, 0.0, coalesce(decayed.confidence, base_confidence)) AS confidence
FROM fact_rows LEFT JOIN decayed_confidences AS decayed USING (from_position)
    LEFT JOIN access_counts AS accesses USING (from_position);
CREATE INDEX facts_by_key
    ON fact_rows (entity, relation, scope, garden_id, to_position, source, hlc);
CREATE INDEX facts_by_garden ON fact_rows (garden_id, from_position)
    WHERE garden_id IS NOT NULL;
"""

_INSERT = """
INSERT INTO fact_rows (from_position, id, entity, relation, value_type, value_v, interpret_as,
    source, scope, garden_id, base_confidence, valid_from, valid_until,
    valid_from_us, valid_until_us, hlc, recorded_at, cid, derived_from, write_mode, actor,
    origin, stream, stream_seq, received_from, attestation)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
_END = f"UPDATE fact_rows SET to_position=? WHERE id=? AND to_position={LIVE}"
_SET_ASIDE = f"UPDATE fact_rows SET set_aside=? WHERE id=? AND set_aside={LIVE}"
_SWEEP_CANDIDATES = f"""
SELECT from_position, relation, scope, base_confidence,
    coalesce(decayed.confidence, base_confidence), recorded_at
FROM fact_rows AS facts LEFT JOIN decayed_confidences AS decayed USING (from_position)
WHERE to_position={LIVE} AND base_confidence>0 AND from_position<?1
  AND (scope IN (SELECT value FROM json_each(?2)) OR '*' IN (SELECT value FROM json_each(?2)))
  AND {GARDENS_SWEPT} AND {MAY_DECAY}
ORDER BY from_position
"""
_DECAYED = "INSERT OR REPLACE INTO decayed_confidences (confidence, from_position) VALUES (?,?)"
_TTL_END = "UPDATE fact_rows SET to_position=? WHERE from_position=?"

_encode = msgspec.json.Encoder().encode
_ALWAYS = (NO_START, NO_END)


def fact_id(event: Recorded) -> str:
    """A fact's id: the event's id, unless the payload carries a foreign one."""
    payload = event.payload
    assert isinstance(payload, FactAsserted)
    return payload.id or id_text(event.event_id)


def validity_us(payload: FactAsserted) -> tuple[int, int]:
    """Valid interval in microseconds, open ends as NO_START and NO_END."""
    if payload.valid_from is None and payload.valid_until is None:
        return _ALWAYS
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


class FactsProjector(Projector):
    """Rows of ``fact_rows`` and ``decayed_confidences``. ``AccessProjector`` writes those of
    ``access_counts``; the table is here because erasing needs the positions of facts."""

    name = "facts"
    version = 5
    schema = SCHEMA
    kinds = frozenset({"fact_asserted", "fact_retracted", "conflict_resolved", "decay_swept"})
    erasing = (
        *(
            f"""DELETE FROM {table} WHERE from_position IN
            (SELECT from_position FROM fact_rows WHERE id IN {FACTS})"""
            for table in ("decayed_confidences", "access_counts")
        ),
        f"DELETE FROM fact_rows WHERE id IN {FACTS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        pending: list[tuple[apsw.SQLiteValue, ...]] = []
        sweeps: dict[str, tuple[int, DecaySwept]] = {}
        for event in events:
            payload = event.payload
            if pending and not isinstance(payload, FactAsserted):
                db.executemany(_INSERT, pending)
                pending = []
            if sweeps and not (isinstance(payload, DecaySwept) and _apart(payload, sweeps)):
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
        """Apply consecutive sweeps over scopes without a common fact. Reads the table once for all
        of them and writes the changes in order: each page of a table larger than the cache is read
        once and written once."""
        if not sweeps:
            return
        position, sweep = next(iter(sweeps.values()))
        bindings = (position, _encode(list(sweeps)).decode(), gardens_json(sweep))
        ended: list[tuple[int, int]] = []
        candidates = db.execute(_SWEEP_CANDIDATES, bindings)
        while page := list(islice(candidates, SWEEP_PAGE_ROWS)):
            gone, weaker = swept_rows(sweeps, page)
            ended += gone
            db.executemany(_DECAYED, sorted(weaker, key=itemgetter(1)))
        ended.sort(key=itemgetter(1))
        db.executemany(_TTL_END, ended)


def _apart(sweep: DecaySwept, others: Mapping[str, tuple[int, DecaySwept]]) -> bool:
    """Whether a sweep covers the same gardens as the others, and none of their scopes."""
    (_, other) = next(iter(others.values()))
    scope = sweep.scope
    overlaps = scope == "*" or scope in others or "*" in others
    return not overlaps and sweep.gardens == other.gardens


FILL_PAGE_ROWS = 20_000
_NUMBERS = 8
"""Columns of ``_FILL`` that are numbers; the order is that of ``FactsPart._row``."""
_FILL = """
SELECT from_position, to_position, hlc, recorded_at, valid_from_us, valid_until_us, base_confidence,
    set_aside, id, cid, entity, relation, value_type, value_v, source, scope, garden_id, actor,
    received_from, origin, attestation IS NOT NULL
FROM fact_rows WHERE from_position>? ORDER BY from_position LIMIT ?
"""
_TYPE_NUMBERS = {name: number for number, name in enumerate(VALUE_TYPES)}


class FactsPart(ImagePart):
    """A slot per fact: its columns, and the lists that find it."""

    kinds = FactsProjector.kinds

    def __init__(self, facts: FactColumns, trust: TrustPart, decay: DecayPart) -> None:
        self._facts = facts
        self._trust = trust
        self._decay = decay

    def load(self, db: apsw.Connection) -> None:
        after = 0
        with _without_collector():  # nothing made here is garbage
            while rows := query(db, _FILL, (after, FILL_PAGE_ROWS)):
                self._facts.append([self._row(row[:_NUMBERS], *row[_NUMBERS:]) for row in rows])
                after = int(rows[-1][0])

    def fold(self, events: Sequence[Recorded]) -> None:
        facts = self._facts
        if isinstance(events[0].payload, FactAsserted):
            facts.append([self._asserted(event) for event in events])
            return
        for event in events:
            payload = event.payload
            if isinstance(payload, FactRetracted):
                facts.note_once("to_position", self._known(payload.fact_ids), event.position)
            elif isinstance(payload, ConflictResolved):
                facts.note_once("set_aside", self._known(payload.loser_ids), event.position)
            else:
                assert isinstance(payload, DecaySwept)
                ended = self._decay.ended_by(facts.cut(), payload, event.position)
                facts.note_once("to_position", ended, event.position)

    def forget(self, facts: Mapping[str, int]) -> None:
        """Empty the slots of erased facts: they get an empty interval, leave every list and lose
        their texts. The slots stay taken, because other processes hold their numbers."""
        kept, slots = self._facts, list(facts.values())
        for fact, slot in facts.items():
            del kept.slot_of[fact]
            kept.passages.pop(slot, None)
        kept.arrays["to_position"][slots] = kept.arrays["from_position"][slots]
        kept.arrays["base"][slots] = 0.0
        kept.arrays["scope"][slots] = NOWHERE
        kept.unlist(slots)
        values, scopes = kept.arrays["value"], kept.arrays["scope"][: kept.count]
        gone = np.unique(values[slots])
        said_by_others = values[: kept.count][scopes != NOWHERE]
        kept.said.forget(gone[~np.isin(gone, said_by_others)].tolist())

    def _known(self, facts: Sequence[str]) -> list[int]:
        slot_of = self._facts.slot_of
        return [slot_of[fact] for fact in facts if fact in slot_of]

    def _asserted(self, event: Recorded) -> tuple[Any, ...]:
        fact, header = event.payload, event.header
        assert isinstance(fact, FactAsserted)
        start, end = validity_us(fact)
        return self._row(
            (event.position, LIVE, header.hlc, header.recorded_at, start, end,
             fact.confidence, LIVE),
            fact.id or id_text(header.event_id), fact.cid, fact.entity, fact.relation,
            fact.value.type, fact.value.v, fact.source, fact.scope, fact.garden_id,
            header.actor, event.peer, header.origin, fact.attestation is not None,
        )  # fmt: skip

    def _row(
        self,
        numbers: tuple[int, int, int, int, int, int, float, int],
        fact: str,
        cid: str,
        entity: str,
        relation: str,
        value_type: str,
        value_v: str,
        source: str,
        scope: str,
        garden: str | None,
        actor: str,
        peer: str | None,
        origin: str,
        attested: bool,
    ) -> tuple[Any, ...]:
        """Give one fact's texts numbers, list its slot, and return its row of columns."""
        facts = self._facts
        slot = facts.slots
        facts.slots += 1
        facts.slot_of[fact] = slot
        facts.by_cid.add(cid_number(cid), slot)
        if attested:
            facts.attested.append(slot)
        entity_number = facts.entities.add(entity)
        relation_number = facts.relations.add(relation)
        scope_number = SCOPE_NUMBERS[scope]
        garden_number = -1 if garden is None else facts.gardens.add(garden)
        key = facts.key_number((entity_number, relation_number, scope_number, garden_number))
        value_number = facts.said.add(value_type, value_v)
        object_number = -1
        if value_type == "ref":
            object_number = facts.entities.add(normalize_ref(value_v))
            facts.by_object.add(object_number, slot)
        facts.by_entity.add(entity_number, slot)
        if is_reserved(entity):
            facts.reserved.add("", slot)
        if relation == RELATION:
            facts.passages[slot] = value_v
            facts.summaries.add("", slot)
        facts.by_key.add(key, slot)
        source_number = facts.sources.add(source)
        facts.by_source.add(source_number, slot)
        terms = facts.tokenize(lexical_text(entity, relation, value_type, value_v))
        facts.by_term.add_all(terms, slot)
        start, end, hlc, recorded_at, valid_from, valid_until, base, set_aside = numbers
        warrant = warrant_of(
            source=source, entity=entity, scope=scope, actor=actor,
            keyed=self._trust.keyed(actor, start), received=peer is not None,
        )  # fmt: skip
        return (
            start, end, entity_number, relation_number, source_number, scope_number,
            garden_number, value_number, _TYPE_NUMBERS[value_type], key, object_number,
            hlc, recorded_at, valid_from, valid_until, base, set_aside, len(terms),
            len(value_v.encode()), warrant,
            asking_percent(value_v), zlib.crc32(fact.encode()), facts.origins.add(origin),
            -1 if peer is None else facts.sources.add(peer), PLAIN.classification,
        )  # fmt: skip


@contextmanager
def _without_collector() -> Generator[None, None, None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
