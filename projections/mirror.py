"""The mirror: the columns every query filters by, in memory, append-only.

Filled from ``projections.db`` at start and fed by the writer after each commit. Only the
writer's thread changes it; readers pin a ``View`` at a published position and never wait.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import numpy as np

from eventlog.event import Recorded
from eventlog.kinds import (
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactRetracted,
    RecallServed,
    SetValuedDeclared,
    SourceTrustSet,
)
from projections.access import load_accesses
from projections.database import query
from projections.decay import load_sweeps
from projections.facts import fact_id, validity_us
from projections.histories import uses_by_slot
from projections.lexicon import lexical_text
from projections.mirror_state import MirrorState
from projections.moment import LIVE
from projections.normalization import SCOPES, normalize_ref
from projections.policies import load_set_valued
from projections.questions import asking_percent
from projections.trust import load_trust
from projections.view import View, everything

FILL_PAGE_ROWS = 20_000
VALUE_TYPES = ("string", "text", "number", "boolean", "datetime", "ref", "null")

_FILL = """
SELECT from_position, to_position, id, entity, relation, source, scope, garden_id, value_type,
    value_v, hlc, recorded_at, valid_from_us, valid_until_us, base_confidence, set_aside, cid
FROM facts WHERE from_position>? ORDER BY from_position LIMIT ?
"""

_SCOPE_NUMBERS = {scope: number for number, scope in enumerate(SCOPES)}
_TYPE_NUMBERS = {name: number for number, name in enumerate(VALUE_TYPES)}


def cid_number(cid: str) -> int:
    """The first 64 bits of a content id: enough to find a fact, not to identify it."""
    return int(cid[7:23], 16)


class Mirror(MirrorState):
    """See the module."""

    def pin(self) -> View:
        """The mirror as last published."""
        return View(self)

    def has_key(self, entity: str, relation: str, scope: str) -> bool:
        """Whether any fact of (entity, relation, scope) outside gardens was ever published."""
        entity_number = self.entities.number(entity)
        relation_number = self.relations.number(relation)
        if entity_number is None or relation_number is None:
            return False
        return (entity_number, relation_number, _SCOPE_NUMBERS[scope], -1) in self.key_numbers

    # -- filling --------------------------------------------------------------------------

    def fill(
        self,
        db: apsw.Connection,
        position: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Load everything from the tables, which stand at ``position``."""
        with _without_collector():  # nothing made here is garbage
            after = 0
            while rows := query(db, _FILL, (after, FILL_PAGE_ROWS)):
                self.columns.append([self._row_of(row) for row in rows])
                after = int(rows[-1][0])
                if progress is not None:
                    progress(len(rows))
        for at, sweep in load_sweeps(db):
            self.decay.add(at, sweep)
        for at, source, trust in load_trust(db):
            self.trust.add(at, source, trust)
        for at, patterns in load_set_valued(db):
            self.set_valued.add(at, patterns)
        for at, fact, count in load_accesses(db):
            slot = self.slot_of.get(fact)
            if slot is not None:
                self.accesses.add(at, [(slot, count)])
        self._publish(position)

    def _row_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        (start, end, fact, entity, relation, source, scope, garden, value_type, value_v, hlc,
         recorded_at, valid_from, valid_until, base, set_aside, cid) = row  # fmt: skip
        return self._index(
            fact, cid, entity, relation, value_type, value_v, source, scope, garden,
            (start, end, hlc, recorded_at, valid_from, valid_until, base, set_aside),
        )  # fmt: skip

    # -- following ------------------------------------------------------------------------

    def apply(self, events: Sequence[Recorded], position: int) -> None:
        """Take in committed events and publish ``position``."""
        pending: list[tuple[Any, ...]] = []
        for event in events:
            payload = event.payload
            if isinstance(payload, FactAsserted):
                pending.append(self._row_from(event, payload))
                continue
            if pending:
                self.columns.append(pending)
                pending = []
            handler = _HANDLERS.get(type(payload))
            if handler is not None:
                handler(self, event)
        if pending:
            self.columns.append(pending)
        self._publish(position)

    def _publish(self, position: int) -> None:
        self.published = self.columns.count
        self.position = position

    def _row_from(self, event: Recorded, fact: FactAsserted) -> tuple[Any, ...]:
        start, end = validity_us(fact)
        header = event.header
        return self._index(
            fact_id(event), fact.cid, fact.entity, fact.relation, fact.value.type, fact.value.v,
            fact.source, fact.scope, None,
            (event.position, LIVE, header.hlc, header.recorded_at, start, end,
             fact.confidence, LIVE),
        )  # fmt: skip

    def _index(
        self,
        fact: str,
        cid: str,
        entity: str,
        relation: str,
        value_type: str,
        value_v: str,
        source: str,
        scope: str,
        garden: str | None,
        numbers: tuple[int, int, int, int, int, int, float, int],
    ) -> tuple[Any, ...]:
        """Number one fact's texts, list its slot, and return its row of columns."""
        slot = len(self.slot_of)
        self.slot_of[fact] = slot
        self.by_cid.add(cid_number(cid), slot)
        entity_number = self.entities.add(entity)
        relation_number = self.relations.add(relation)
        scope_number = _SCOPE_NUMBERS[scope]
        garden_number = -1 if garden is None else self.gardens.add(garden)
        key = (entity_number, relation_number, scope_number, garden_number)
        key_number = self._key_number(key)
        value_number = self.value_numbers.setdefault((value_type, value_v), len(self.value_numbers))
        object_number = -1
        if value_type == "ref":
            object_number = self.entities.add(normalize_ref(value_v))
            self.by_object.add(object_number, slot)
        self.by_entity.add(entity_number, slot)
        self.by_key.add(key_number, slot)
        source_number = self.sources.add(source)
        self.by_source.add(source_number, slot)
        terms = self.tokenize(lexical_text(entity, relation, value_type, value_v))
        self.by_term.add_all(terms, slot)
        start, end, hlc, recorded_at, valid_from, valid_until, base, set_aside = numbers
        return (
            start, end, entity_number, relation_number, source_number, scope_number,
            garden_number, value_number, _TYPE_NUMBERS[value_type], key_number, object_number,
            hlc, recorded_at, valid_from, valid_until, base, set_aside, len(terms),
            asking_percent(value_v),
        )  # fmt: skip

    def _key_number(self, key: tuple[int, int, int, int]) -> int:
        number = self.key_numbers.get(key)
        if number is not None:
            self.crowded[number] = True
            return number
        number = self.key_numbers[key] = len(self.key_numbers)
        if number >= len(self.crowded):
            self.crowded = np.concatenate([self.crowded, np.zeros_like(self.crowded)])
        return number

    def _retract(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, FactRetracted)
        slots = [self.slot_of[fact] for fact in payload.fact_ids if fact in self.slot_of]
        self.columns.end(slots, event.position)

    def _resolve(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, ConflictResolved)
        column = self.columns.arrays["set_aside"]
        for fact in payload.loser_ids:
            slot = self.slot_of.get(fact)
            if slot is not None and column[slot] == LIVE:
                column[slot] = event.position

    def _sweep(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, DecaySwept)
        self.published, self.position = self.columns.count, event.position - 1
        view = self.pin()
        slots = everything(view)
        live = slots[(view.to_position == LIVE) & (view.base > 0.0)]
        self.columns.end(self.decay.ended_by(view, payload, event.position, live), event.position)
        self.decay.add(event.position, payload)

    def _trust(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, SourceTrustSet)
        self.trust.add(event.position, payload.source, payload.trust)

    def _count(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, RecallServed)
        self.accesses.add(event.position, uses_by_slot(payload.uses, self.slot_of))

    def _declare(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, SetValuedDeclared)
        self.set_valued.add(event.position, payload.relations)


@contextmanager
def _without_collector() -> Generator[None, None, None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_HANDLERS: dict[type[object], Callable[[Mirror, Recorded], None]] = {
    FactRetracted: Mirror._retract,  # pyright: ignore[reportPrivateUsage]
    ConflictResolved: Mirror._resolve,  # pyright: ignore[reportPrivateUsage]
    DecaySwept: Mirror._sweep,  # pyright: ignore[reportPrivateUsage]
    SourceTrustSet: Mirror._trust,  # pyright: ignore[reportPrivateUsage]
    RecallServed: Mirror._count,  # pyright: ignore[reportPrivateUsage]
    SetValuedDeclared: Mirror._declare,  # pyright: ignore[reportPrivateUsage]
}
