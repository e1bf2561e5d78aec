"""A pinned view of the memory image, for every stage that reads."""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from engramlog.eventlog.kinds import FactAttributes, TrustPolicy
from engramlog.projections.arrays import F64, I32, I64, U8, Bool, Keys, Slots
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.fact_columns import ColumnView
from engramlog.projections.columns.names.machine_names import MachineNames
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.columns.spoken_texts import SpokenTexts
from engramlog.projections.columns.tombstone_mask import Hiding
from engramlog.projections.image.fact_texts import FactTexts
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.tables.conflicts.denials import DenialsPart
from engramlog.projections.tables.facts.verdicts import flags_at

VOICE_BASE = 1 << 32
"""A voice modulo this is its source's number."""


class View(ColumnView):
    """The memory image as of one published position.

    Later events may still close ``to_position`` and ``set_aside``, but only with positions beyond
    ``position``, which no question at or before it can see. From ``facts_position`` to
    ``position``, only the counts of recalls and feedback changed.
    """

    def __init__(self, image: MemoryImage) -> None:
        self.position = image.position
        self.facts_position = min(image.facts_position, self.position)
        super().__init__(image.facts, image.published)
        self._image = image
        self._flags: U8 = image.verdicts.array  # after the count: flags come before facts
        # After the count: newer tombstones may hide counted facts.
        self.hiding: Hiding = image.tombstones.hiding
        self.tokenize: Callable[[str], list[str]] = image.facts.tokenize
        self.remembered: Remembered = image.remembered
        self.said: Sequence[str] = image.facts.said
        """By value number: the searched text of the value."""
        self.spoken: SpokenTexts = image.spoken
        self._postings: dict[str, tuple[I32, I32]] = {}

    def ages(self, slots: I32) -> Keys:
        """Sort keys of facts, for ``np.lexsort``: the older first, by the clock of the node that
        stated them. Unlike the order of slots, which is that of arrival, this order is the same on
        every node."""
        return self.tie[slots], self.hlc[slots]

    def by_age(self, slots: I32, groups: I32 | I64 | None = None) -> I32:
        """``slots``, the older first; within each of ``groups``, if given, which never decrease."""
        hlc = self.hlc[slots]
        follows = hlc[1:] > hlc[:-1]
        if groups is not None:
            follows |= groups[1:] != groups[:-1]
        if follows.all():  # facts of one node, and facts that arrived in order
            return slots
        keys = self.ages(slots) if groups is None else (*self.ages(slots), groups)
        return slots[np.lexsort(keys)]

    def facts_read(self, authorization: Authorization, moment: Moment) -> tuple[Hashable, ...]:
        """A key for what a reader sees of the facts at the Moment's position. Their expiry, which
        also depends on the clock, is not in it."""
        at = self.facts_position
        if not at <= moment.position <= self.position:
            at = moment.position
        return self.facts_position, self.count, at, authorization.as_reader(self)

    @property
    def confidential(self) -> bool:
        """Whether the classification of any fact restricts who may read it."""
        return self._image.attributes.confidential

    @property
    def has_quarantine(self) -> bool:
        """Whether there is any quarantine garden."""
        return bool(self._image.gardens.quarantines)

    def in_quarantine(self, slots: I32) -> Bool:
        """Which facts were stated in a quarantine garden."""
        numbers = list(self._image.gardens.quarantines)
        if not numbers:
            return np.zeros(len(slots), dtype=np.bool_)
        garden = self.garden[slots]
        if not len(garden) or int(garden.max()) < 0:
            return np.zeros(len(slots), dtype=np.bool_)
        return np.isin(garden, np.array(numbers, dtype=garden.dtype))

    def review(self, slot: int, moment: Moment) -> str | None:
        """The decision on a quarantined fact as of the moment: ``admitted`` or ``rejected``."""
        position, decision = self._image.gardens.reviews.get(slot, (LIVE, ""))
        return decision if position <= moment.position else None

    def attested(self, slots: I32) -> Bool:
        """Which facts carry a source's own signature, checked here: no peer's."""
        signed = np.frombuffer(self._image.facts.attested.tobytes(), dtype=np.int32)
        return np.isin(slots, signed) & (self.peer[slots] < 0)

    def attributes(self, slots: I32, moment: Moment) -> list[FactAttributes]:
        """Each fact's attributes for abmind's ranking, as of the moment."""
        return [stated or PLAIN for stated in self.stated_attributes(slots, moment)]

    def stated_attributes(self, slots: I32, moment: Moment) -> list[FactAttributes | None]:
        """Each fact's attributes as of the moment; None for facts without any."""
        if not self._image.attributes.by_slot:
            return [None] * len(slots)
        return [self.attributes_of(slot, moment) for slot in slots.tolist()]

    def attributes_of(self, slot: int, moment: Moment) -> FactAttributes | None:
        """The attributes of one fact; None if it has none."""
        standing: FactAttributes | None = None
        for position, attributes in self._image.attributes.by_slot.get(slot, ()):
            if position <= moment.position:
                standing = attributes
        return standing

    def attributed_slots(self) -> I32:
        """Facts that ever had attributes, ascending."""
        slots = np.array(list(self._image.attributes.by_slot), dtype=np.int32)
        return np.sort(slots[slots < self.count])

    def entity_slots(self, entity: int) -> I32:
        """Facts about an entity."""
        return self._image.facts.by_entity.slots(entity, self.count)

    def entity_lists(self, entities: I32) -> tuple[I32, I64]:
        """``entity_slots`` of several entities, one list after the other, and their lengths."""
        return self._image.facts.by_entity.joined(entities, self.count)

    def slots_about(self, entity: str | None) -> I32:
        """Facts about an entity by its name; none for an unknown one."""
        number = None if entity is None else self.entities.number(entity)
        return np.empty(0, dtype=np.int32) if number is None else self.entity_slots(number)

    def key_slots(self, key: int) -> I32:
        """Facts of one (entity, relation, scope, garden)."""
        return self._image.facts.by_key.slots(key, self.count)

    def key_lists(self, keys: I32) -> tuple[I32, I64]:
        """``key_slots`` of several keys, one list after the other, and their lengths."""
        return self._image.facts.by_key.joined(keys, self.count)

    def crowded(self, slots: Slots) -> Bool:
        """Which facts share their key with others, now or ever, readable or not."""
        crowded: Bool = self._image.facts.crowded[self.key[slots]]
        return crowded

    def object_slots(self, entity: int) -> I32:
        """Ref facts that point at an entity."""
        return self._image.facts.by_object.slots(entity, self.count)

    def object_lists(self, entities: I32) -> tuple[I32, I64]:
        """``object_slots`` of several entities, one list after the other, and their lengths."""
        return self._image.facts.by_object.joined(entities, self.count)

    def source_slots(self, source: int) -> I32:
        """Facts from a source, in the order of assertion."""
        return self._image.facts.by_source.slots(source, self.count)

    def voices(self, slots: I32) -> I64:
        """Who stated each fact: a source, and the peer that it came through. A peer's facts in a
        source's name are another voice."""
        peers: I64 = self.peer[slots].astype(np.int64) + 1
        return peers * VOICE_BASE + self.source[slots]

    def postings(self, term: str) -> tuple[I32, I32]:
        """(slots, term frequencies) of a term of the texts. Looked up once: the stages of a
        recall ask for the same terms."""
        known = self._postings.get(term)
        if known is None:
            known = self._postings[term] = self._image.facts.by_term.counted(term, self.count)
        return known

    def content_postings(self, term: str) -> tuple[I32, I32]:
        """(slots, term frequencies) of a term in the values alone, without entity and relation."""
        return self._image.content_terms.postings(self, term, *self.postings(term))

    def content_lengths(self) -> I32:
        """By slot: how many terms each fact's value has."""
        return self._image.content_terms.lengths(self)

    def cid_slots(self, number: int) -> I32:
        """Facts whose content id begins with these 64 bits (see ``fact_columns.cid_number``)."""
        return self._image.facts.by_cid.slots(number, self.count)

    def reserved_slots(self) -> I32:
        """Facts about the protocol's own records, such as resolutions."""
        return self._image.facts.reserved.slots("", self.count)

    def entities_named(self, phrase: str) -> list[int]:
        """Entities with this display name (``entity_names.phrase_of``), readable or not."""
        return self._image.names.numbers(phrase)

    def spelled_out(self, text: str, entities: I32) -> list[int]:
        """Those of the entities whose display name is in a text and is more than stop-words."""
        return self._image.names.spelled_out(text, entities.tolist())

    def summary_slots(self) -> I32:
        """Facts that are paragraphs of summaries."""
        return self._image.facts.summaries.slots("", self.count)

    def passage(self, slot: int) -> str:
        """The text of a paragraph of a summary; empty once it was erased."""
        return self._image.facts.passages.get(slot, "")

    def parents(self, slot: int) -> tuple[int, ...]:
        """The parents of a fact, as ``cid_number`` of each, without repeats."""
        return self._image.derivations.parents.get(slot, ())

    @property
    def has_derivations(self) -> bool:
        """Whether any fact was ever derived from another."""
        return bool(self._image.derivations.parents)

    def value_text_of(self, slot: int) -> str:
        """The searched text of a fact's value."""
        return self.said[int(self.value[slot])]

    def value_numbers(self, text: str) -> list[int]:
        """Numbers of the values with this text: of type string and of type text."""
        said = self._image.facts.said
        kinds = ("string", "text")
        return [number for kind in kinds if (number := said.number(kind, text)) is not None]

    @property
    def machines(self) -> MachineNames:
        """Which entities are assistants, tools and other machines."""
        return self._image.machines

    @property
    def machine_sources(self) -> MachineNames:
        """Which sources are assistants, tools and other machines."""
        return self._image.machine_sources

    @property
    def machine_relations(self) -> MachineNames:
        """Which relations have a word for a machine."""
        return self._image.machine_relations

    def sources_with(self, words: Sequence[str]) -> I32:
        """Sources with all these ``words_of`` a text in their display name, readable or not."""
        return self._image.source_words.numbers(words)

    @property
    def texts(self) -> FactTexts:
        """The texts of facts for searches letter by letter."""
        return self._image.texts

    def signatures(self, slots: I32, version: int) -> U8:
        """(slots, 32): signatures of the facts' values (see ``signatures``)."""
        return self._image.simhashes[version].rows(self.said, self.value[slots])

    def slot_of(self, fact_id: str) -> int | None:
        """The slot of a fact id, readable or not: the caller applies the authorization."""
        slot = self._image.facts.slot_of.get(fact_id)
        return slot if slot is not None and slot < self.count else None

    def slot_at(self, position: int) -> int | None:
        """The slot of the fact asserted at a position."""
        slot = int(self.from_position.searchsorted(position))
        return slot if slot < self.count and self.from_position[slot] == position else None

    def flags(self, slots: Slots) -> U8:
        """The flags of sanitizer and reviewers for each fact (``sanitizing.VALUE_FLAG`` and the
        like), as pinned."""
        return flags_at(self._flags, slots)

    def settled_by_note(self) -> tuple[I32, I32]:
        """Notes of resolutions, and beside each a fact that it is about, by slot. A note with
        several such facts is there several times."""
        notes, settled = self._image.resolutions.pairs()
        pinned = np.maximum(notes, settled) < self.count
        return notes[pinned], settled[pinned]

    def hidden(self, slots: Slots | None = None) -> Bool | None:
        """Which facts (all, or those given) tombstones hide; None without tombstones. The same at
        every moment: present rights decide."""
        if not self.hiding:
            return None
        if slots is None:
            return self.hiding.mask(None, self.entity, self.object, self.scope)
        many = np.atleast_1d(slots)
        hidden = self.hiding.mask(many, self.entity[many], self.object[many], self.scope[many])
        return hidden.reshape(np.shape(slots))

    def flagged(self) -> I32:
        """Facts with findings of the sanitizer."""
        return np.flatnonzero(self._flags[: self.count]).astype(np.int32)

    def ended(self, slots: Slots, moment: Moment) -> Bool:
        """Which facts were retracted by the moment."""
        ended: Bool = self.to_position[slots] <= moment.position
        return ended

    def confidence(self, slots: Slots, moment: Moment) -> F64:
        """Confidence at the moment: decayed, and 0 if retracted."""
        confidence = self._image.decay.confidence(self, slots, moment.position)
        confidence *= self.to_position[slots] > moment.position
        return confidence

    def more_confident(self, slots: I32, moment: Moment, bound: float) -> Bool:
        """``confidence(slots, moment) > bound`` (at least 0)."""
        above = self._image.decay.above(self, slots, moment.position, bound)
        above &= ~self.ended(slots, moment)
        return above

    def trust(self, slots: Slots, moment: Moment) -> F64:
        """This node's trust in each fact's source and in the peer that it came through, at the
        moment, in [0, 1]."""
        return self._image.trust.at(self.source, self.warrant, self.peer, moment.position, slots)

    def trust_policy(self, moment: Moment) -> TrustPolicy:
        return self._image.trust.policy(moment.position)

    def access_count(self, slots: I32, moment: Moment) -> I64:
        """How often recalls returned each fact by the moment."""
        return self._image.accesses.counts.at(slots, moment.position)

    def recall_times(self, slots: I32, moment: Moment) -> list[tuple[int, ...]]:
        """When the last (up to 20) recalls before the moment returned each fact, ascending (us)."""
        times = self._image.accesses.times
        return [times.at(slot, moment.position) for slot in slots.tolist()]

    def feedback(self, slots: I32, moment: Moment) -> tuple[I64, I64]:
        """How often each fact was cited, and rejected, by the moment."""
        feedback, at = self._image.feedback, moment.position
        return feedback.cited.at(slots, at), feedback.rejected.at(slots, at)

    def sweep_positions(self) -> list[int]:
        """Positions of all decay sweeps up to this view, ascending."""
        return self._image.decay.positions(self.position)

    @property
    def denials(self) -> DenialsPart:
        """The records that deny facts."""
        return self._image.denials

    def is_set_valued(self, relation: int, moment: Moment) -> bool:
        """Whether a relation may hold several values at once, as declared at the moment."""
        return self._image.set_valued.covers(self.relations.text(relation), moment.position)


def everything(view: View) -> I32:
    """All slots of a view."""
    return np.arange(view.count, dtype=np.int32)
