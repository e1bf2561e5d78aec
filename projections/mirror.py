"""The mirror: the columns every query filters by, in memory, append-only.

Filled from ``projections.db`` at start and fed by the writer after each commit. Only the
writer's thread changes it; readers pin a ``View`` at a published position and never wait.
"""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from eventlog.event import Recorded
from eventlog.kinds import (
    ConflictResolved,
    ContentReviewed,
    DecaySwept,
    FactAsserted,
    FactAttributes,
    FactAttributesSet,
    FactErased,
    FactFeedback,
    FactRetracted,
    GardenCreated,
    KeyIssued,
    MemoriesMerged,
    QuarantineReviewed,
    RecallServed,
    RecallUse,
    SetValuedDeclared,
    SourceTrustSet,
    TombstoneRevoked,
    TombstoneSet,
    TrustPolicySet,
)
from projections.access import load_accesses
from projections.attribute_rules import CONFIDENTIAL, PLAIN, as_received, may_set
from projections.attributes import load_attributes
from projections.contradictions import load_notes
from projections.database import open_reader, query, tables_position
from projections.decay import load_sweeps
from projections.derivations import load_parents
from projections.erasures import load_erased
from projections.facts import fact_id, validity_us
from projections.feedback import counts_of, load_feedback
from projections.foreign import admitted, id_of
from projections.foreign_ends import ENDING_KINDS
from projections.garden_directory import all_reviews, every_garden
from projections.hiding import Hiding, Tombstone, known_of
from projections.histories import uses_by_slot
from projections.lexicon import lexical_text, said_text
from projections.mirror_state import MirrorState
from projections.moment import LIVE
from projections.normalization import SCOPES, is_reserved, normalize_ref
from projections.policies import load_set_valued
from projections.questions import asking_percent
from projections.recall_times import instants_of
from projections.sanitizing import verdict_of
from projections.summaries.naming import RELATION
from projections.tombstones import standing_tombstones
from projections.trust import load_key_sources, load_trust, load_trust_policies
from projections.trust_formula import warrant_of
from projections.verdicts import load_verdicts
from projections.view import View, everything

FILL_PAGE_ROWS = 20_000
VALUE_TYPES = ("string", "text", "number", "boolean", "datetime", "ref", "null")

_FILL = """
SELECT from_position, to_position, id, entity, relation, source, scope, garden_id, value_type,
    value_v, hlc, recorded_at, valid_from_us, valid_until_us, base_confidence, set_aside, cid,
    actor, received_from, attestation IS NOT NULL, origin
FROM facts WHERE from_position>? ORDER BY from_position LIMIT ?
"""

NOWHERE = -1
"""The scope of an erased fact: no right covers it."""
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

    def has_key(self, entity: str, relation: str, scope: str, garden: str | None) -> bool:
        """Whether any fact of the key was ever published."""
        entity_number = self.entities.number(entity)
        relation_number = self.relations.number(relation)
        if entity_number is None or relation_number is None:
            return False
        garden_number = -1 if garden is None else self.gardens.number(garden)
        if garden_number is None:
            return False
        key = (entity_number, relation_number, _SCOPE_NUMBERS[scope], garden_number)
        return key in self.key_numbers

    # -- filling --------------------------------------------------------------------------

    def fill(
        self,
        db: apsw.Connection,
        position: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Load everything from the tables, which stand at ``position``."""
        for at, source in load_key_sources(db):  # before the facts, whose warrant asks for it
            self.trust.add_key(at, source)
        for garden_id, quarantine in every_garden(db):
            self._add_garden(garden_id, quarantine=quarantine)
        with _without_collector():  # nothing made here is garbage
            after = 0
            while rows := query(db, _FILL, (after, FILL_PAGE_ROWS)):
                self.columns.append([self._row_of(row) for row in rows])
                after = int(rows[-1][0])
                if progress is not None:
                    progress(len(rows))
        self._fill_histories(db)
        for fact, flags, decision in load_verdicts(db):
            slot = self.slot_of.get(fact)
            if slot is not None:
                self.flags.judge(slot, flags, decision)
        for at, fact, decision in all_reviews(db):
            self._note_review(at, fact, decision)
        self._publish(position)

    def _fill_histories(self, db: apsw.Connection) -> None:
        self.erased.update(load_erased(db))
        for note, about in load_notes(db):
            self._note(note, about)
        self._hide({each.tombstone_id: known_of(each) for each in standing_tombstones(db)})
        for at, sweep in load_sweeps(db):
            self.decay.add(at, sweep)
        for at, source, trust in load_trust(db):
            self.trust.add(at, source, trust)
        for at, policy in load_trust_policies(db):
            self.trust.add_policy(at, policy)
        starts = self.columns.arrays["from_position"][: self.columns.count]
        for at, hashes in load_parents(db):
            self._derive(int(np.searchsorted(starts, at)), hashes)
        for at, fact, attributes in load_attributes(db):
            slot = self.slot_of.get(fact)
            if slot is not None:
                self._attribute(slot, at, attributes)
        for at, patterns in load_set_valued(db):
            self.set_valued.add(at, patterns)
        for at, fact, count, instants in load_accesses(db):
            slot = self.slot_of.get(fact)
            if slot is not None:
                self.accesses.add(at, [(slot, count)])
                self.recall_times.add(at, slot, instants)
        for at, fact, cited, rejected in load_feedback(db):
            self._note_feedback(at, fact, cited, rejected)

    def _row_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        (start, end, fact, entity, relation, source, scope, garden, value_type, value_v, hlc,
         recorded_at, valid_from, valid_until, base, set_aside, cid, actor, peer,
         attested, origin) = row  # fmt: skip
        if attested:
            self.attested.append(self.slots)
        return self._index(
            fact, cid, entity, relation, value_type, value_v, source, scope, garden,
            (start, end, hlc, recorded_at, valid_from, valid_until, base, set_aside),
            self._warrant(start, source, entity, scope, actor, peer), origin, PLAIN.classification,
        )  # fmt: skip

    # -- following ------------------------------------------------------------------------

    def apply(self, events: Sequence[Recorded], position: int) -> None:
        """Take in committed events and publish ``position``."""
        start = 0
        for index, event in enumerate(events):
            if isinstance(event.payload, FactErased):  # what follows asks what was erased
                self._take_in(events[start : index + 1])
                start = index + 1
        self._take_in(events[start:])
        self._publish(position)

    def _take_in(self, events: Sequence[Recorded]) -> None:
        pending: list[tuple[Any, ...]] = []
        for event in admitted(events, self._stands_at):
            payload = event.payload
            if isinstance(payload, FactAsserted):
                pending.append(self._row_from(event, payload))
                continue
            if pending:
                self.columns.append(pending)
                pending = []
            handler = _HANDLERS.get(type(payload))
            if event.peer is not None and event.header.kind in ENDING_KINDS:
                continue  # another node's word takes effect through an event of ours
            if handler is not None:
                handler(self, event)
        if pending:
            self.columns.append(pending)

    def _stands_at(self, event_id: bytes) -> int | None:
        fact = id_of(event_id)
        slot = self.slot_of.get(fact)
        if slot is None:  # what was erased may not come again
            return 0 if fact in self.erased else None
        return int(self.columns.arrays["from_position"][slot])

    def _publish(self, position: int) -> None:
        self.published = self.columns.count
        self.position = position

    def _row_from(self, event: Recorded, fact: FactAsserted) -> tuple[Any, ...]:
        start, end = validity_us(fact)
        header = event.header
        if fact.derived_from:
            self._derive(self.slots, [parent.hash for parent in fact.derived_from])
        flags = verdict_of(fact).flags
        if flags:
            self.flags.judge(self.slots, flags)
        if fact.attestation is not None:
            self.attested.append(self.slots)
        if fact.attributes is not None:
            self.attributes[self.slots] = [(event.position, as_received(event, fact.attributes))]
            self.confidential |= fact.attributes.classification >= CONFIDENTIAL
        return self._index(
            fact_id(event), fact.cid, fact.entity, fact.relation, fact.value.type, fact.value.v,
            fact.source, fact.scope, fact.garden_id,
            (event.position, LIVE, header.hlc, header.recorded_at, start, end,
             fact.confidence, LIVE),
            self._warrant(event.position, fact.source, fact.entity, fact.scope, header.actor,
                          event.peer),
            header.origin, (fact.attributes or PLAIN).classification,
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
        warrant: int,
        origin: str,
        classification: int,
    ) -> tuple[Any, ...]:
        """Number one fact's texts, list its slot, and return its row of columns."""
        slot = self.slots
        self.slots += 1
        self.slot_of[fact] = slot
        self.by_cid.add(cid_number(cid), slot)
        entity_number = self._numbered(entity)
        relation_number = self.relations.add(relation)
        scope_number = _SCOPE_NUMBERS[scope]
        garden_number = -1 if garden is None else self.gardens.add(garden)
        key = (entity_number, relation_number, scope_number, garden_number)
        key_number = self._key_number(key)
        value_number = self.value_numbers.setdefault((value_type, value_v), len(self.value_numbers))
        if value_number == len(self.said):
            self.said.append(said_text(value_type, value_v))
        object_number = -1
        if value_type == "ref":
            object_number = self._numbered(normalize_ref(value_v))
            self.by_object.add(object_number, slot)
        self.by_entity.add(entity_number, slot)
        if is_reserved(entity):
            self.reserved.add("", slot)
        if relation == RELATION:
            self.passages[slot] = value_v
            self.summaries.add("", slot)
        self.by_key.add(key_number, slot)
        source_number = self.sources.add(source)
        self.by_source.add(source_number, slot)
        terms = self.tokenize(lexical_text(entity, relation, value_type, value_v))
        self.by_term.add_all(terms, slot)
        start, end, hlc, recorded_at, valid_from, valid_until, base, set_aside = numbers
        return (
            start, end, entity_number, relation_number, source_number, scope_number,
            garden_number, value_number, _TYPE_NUMBERS[value_type], key_number, object_number,
            hlc, recorded_at, valid_from, valid_until, base, set_aside, len(terms), warrant,
            asking_percent(value_v), zlib.crc32(fact.encode()), self.origins.add(origin),
            classification,
        )  # fmt: skip

    def _numbered(self, entity: str) -> int:
        """The number of an entity, which a tombstone may have been waiting for."""
        count = len(self.entities)
        number = self.entities.add(entity)
        if number == count and entity in self.hiding.names:
            self._hide(self.hiding.standing)
        return number

    def hide_as(self, other: View) -> None:
        """Hide what is hidden for another view, whatever the events of this mirror say: what
        hides is a matter of the present, and this mirror may be of the past."""
        self._hide(other.hiding.standing)

    def _hide(self, standing: Mapping[str, Tombstone]) -> None:
        self.hiding = Hiding(standing, self.entities, self.notes)
        self.remembered.clear()

    def _note(self, note: str, about: str) -> None:
        """Remember of which entity the note of a resolution speaks."""
        slot, known = self.slot_of.get(note), self.slot_of.get(about)
        if slot is not None and known is not None:
            self.notes[slot] = int(self.columns.arrays["entity"][known])

    def _warrant(
        self, position: int, source: str, entity: str, scope: str, actor: str, peer: str | None
    ) -> int:
        return warrant_of(
            source=source,
            entity=entity,
            scope=scope,
            actor=actor,
            keyed=self.trust.keyed(actor, position),
            received=peer is not None,
        )

    def _derive(self, slot: int, hashes: Sequence[str]) -> None:
        """Note what the fact of a slot was derived from."""
        self.parents[slot] = tuple(sorted({int(each[:16], 16) for each in hashes}))

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
        self._note(payload.resolution_fact_id, payload.winner_id)
        if self.hiding:
            self._hide(self.hiding.standing)
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

    def _erase(self, event: Recorded) -> None:
        """Erased facts keep their slots, as numbers of other processes do, and are nothing
        else: their interval is empty, no list leads to them, and nothing says what they said."""
        payload = event.payload
        assert isinstance(payload, FactErased)
        self.erased.update(payload.fact_ids)
        slots = [
            slot for fact in payload.fact_ids if (slot := self.slot_of.pop(fact, None)) is not None
        ]
        columns = self.columns.arrays
        for slot in slots:
            columns["to_position"][slot] = columns["from_position"][slot]
            columns["base"][slot] = 0.0
            columns["scope"][slot] = NOWHERE
            self.parents.pop(slot, None)
            self.attributes.pop(slot, None)
            self.recall_times.drop(slot)
            self.passages.pop(slot, None)
            self.notes.pop(slot, None)
        for postings in (self.by_entity, self.by_key, self.by_object, self.by_source,
                         self.by_cid, self.reserved, self.summaries, self.by_term):  # fmt: skip
            postings.drop(slots)
        self._unsay(slots)
        self.remembered.clear()

    def _set_attributes(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, FactAttributesSet)
        slot = self.slot_of.get(payload.fact_id)
        if slot is not None:
            origin = self.origins.text(int(self.columns.arrays["origin"][slot]))
            if may_set(event, origin):
                self._attribute(slot, event.position, as_received(event, payload.attributes))

    def _attribute(self, slot: int, position: int, attributes: FactAttributes) -> None:
        """Note a fact's attributes; its newest classification counts for the past as well."""
        self.attributes.setdefault(slot, []).append((position, attributes))
        self.confidential |= attributes.classification >= CONFIDENTIAL
        self.columns.arrays["classification"][slot] = attributes.classification

    def _unsay(self, slots: Sequence[int]) -> None:
        """Forget what these facts said, where no other says the same."""
        columns, count = self.columns.arrays, self.columns.count
        numbers = np.unique(columns["value"][slots])
        standing = columns["value"][:count][columns["scope"][:count] != NOWHERE]
        for number in numbers[~np.isin(numbers, standing)].tolist():
            self.said[number] = ""
        self.forget_derived()

    def _trust(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, SourceTrustSet)
        self.trust.add(event.position, payload.source, payload.trust)

    def _trust_policy(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, TrustPolicySet)
        self.trust.add_policy(event.position, payload.policy)

    def _key(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, KeyIssued)
        self.trust.add_key(event.position, payload.entity_uri)

    def _count(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, RecallServed)
        self.accesses.add(event.position, uses_by_slot(payload.uses, self.slot_of))
        by_slot: dict[int, list[RecallUse]] = {}
        for use in payload.uses:
            slot = self.slot_of.get(use.fact_id)
            if slot is not None:
                by_slot.setdefault(slot, []).append(use)
        for slot, uses in by_slot.items():
            self.recall_times.add(event.position, slot, instants_of(uses))

    def _feed_back(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, FactFeedback)
        for fact, cited, rejected in counts_of(payload):
            self._note_feedback(event.position, fact, cited, rejected)

    def _merge(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, MemoriesMerged)
        slot = self.slot_of.get(payload.kept_id)
        if slot is not None and payload.recalls:
            self.accesses.add(event.position, [(slot, payload.recalls)])
            self.recall_times.add(event.position, slot, payload.instants_us)
        told = (payload.citations, payload.rejections)
        self._note_feedback(event.position, payload.kept_id, *told)

    def _note_feedback(self, position: int, fact: str, cited: int, rejected: int) -> None:
        slot = self.slot_of.get(fact)
        if slot is not None:
            self.cited.add(position, [(slot, cited)] if cited else [])
            self.rejected.add(position, [(slot, rejected)] if rejected else [])

    def _found_garden(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, GardenCreated)
        self._add_garden(payload.garden_id, quarantine=payload.quarantine)

    def _add_garden(self, garden_id: str, *, quarantine: bool) -> None:
        number = self.gardens.add(garden_id)
        if quarantine:
            self.quarantines.add(number)

    def _quarantine_review(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, QuarantineReviewed)
        self._note_review(event.position, payload.fact_id, payload.decision)

    def _note_review(self, position: int, fact: str, decision: str) -> None:
        slot = self.slot_of.get(fact)
        if slot is not None:
            self.reviews.setdefault(slot, (position, decision))

    def _tombstone(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, TombstoneSet)
        added = {payload.tombstone_id: known_of(payload)}
        self._hide(self.hiding.standing | added)

    def _revoke_tombstone(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, TombstoneRevoked)
        standing = dict(self.hiding.standing)
        standing.pop(payload.tombstone_id, None)
        self._hide(standing)

    def _declare(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, SetValuedDeclared)
        self.set_valued.add(event.position, payload.relations)

    def _review(self, event: Recorded) -> None:
        payload = event.payload
        assert isinstance(payload, ContentReviewed)
        slot = self.slot_of.get(payload.fact_id)
        if slot is not None:
            self.flags.review(slot, payload.decision)


def fill_at_once(mirror: Mirror, path: Path) -> None:
    """Load one state of a file that another connection may be writing."""
    db = open_reader(path)
    try:
        with db:
            mirror.fill(db, tables_position(db))
    finally:
        db.close()


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
    FactErased: Mirror._erase,  # pyright: ignore[reportPrivateUsage]
    FactRetracted: Mirror._retract,  # pyright: ignore[reportPrivateUsage]
    ConflictResolved: Mirror._resolve,  # pyright: ignore[reportPrivateUsage]
    DecaySwept: Mirror._sweep,  # pyright: ignore[reportPrivateUsage]
    GardenCreated: Mirror._found_garden,  # pyright: ignore[reportPrivateUsage]
    QuarantineReviewed: Mirror._quarantine_review,  # pyright: ignore[reportPrivateUsage]
    SourceTrustSet: Mirror._trust,  # pyright: ignore[reportPrivateUsage]
    TrustPolicySet: Mirror._trust_policy,  # pyright: ignore[reportPrivateUsage]
    KeyIssued: Mirror._key,  # pyright: ignore[reportPrivateUsage]
    FactAttributesSet: Mirror._set_attributes,  # pyright: ignore[reportPrivateUsage]
    FactFeedback: Mirror._feed_back,  # pyright: ignore[reportPrivateUsage]
    MemoriesMerged: Mirror._merge,  # pyright: ignore[reportPrivateUsage]
    RecallServed: Mirror._count,  # pyright: ignore[reportPrivateUsage]
    SetValuedDeclared: Mirror._declare,  # pyright: ignore[reportPrivateUsage]
    TombstoneSet: Mirror._tombstone,  # pyright: ignore[reportPrivateUsage]
    TombstoneRevoked: Mirror._revoke_tombstone,  # pyright: ignore[reportPrivateUsage]
    ContentReviewed: Mirror._review,  # pyright: ignore[reportPrivateUsage]
}
