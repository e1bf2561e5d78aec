"""The facts in memory: one slot each, in position order, with their names and slot lists."""

from __future__ import annotations

from array import array

import numpy as np

from engramlog.projections.arrays import I32, Bool, Slots, grown
from engramlog.projections.columns.columns import Columns, FactArrays
from engramlog.projections.columns.numbered_texts import FactIds, KeyNumbers, SaidValues
from engramlog.projections.columns.slot_lists import Postings
from engramlog.projections.columns.term_postings import TermPostings
from engramlog.projections.interner import Interner
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.text.terms import Tokenizer, lexical_text

NOWHERE = -1
"""The scope of an erased fact: no right covers it."""
SCOPE_NUMBERS = {scope: number for number, scope in enumerate(SCOPES)}


def cid_number(cid: str) -> int:
    """The first 64 bits of a content id: they find a fact but do not identify it."""
    return int(cid[7:23], 16)


class FactColumns(Columns):
    """All columns of the facts. The facts' part of the memory image (``tables.facts.facts``) fills
    them; other parts set their own columns."""

    def __init__(self, capacity: int = 1024) -> None:
        super().__init__(capacity)
        self.entities = Interner()
        self.relations = Interner()
        self.sources = Interner()
        self.gardens = Interner()
        self.origins = Interner()
        self.said = SaidValues()
        """The values, and by number the searched text of each."""
        self.keys = KeyNumbers()
        self.crowded: Bool = np.zeros(1024, dtype=np.bool_)
        """By key number: whether the key has more than one fact."""
        self.slots: int = 0
        """How many slots are taken, those of erased facts included."""
        self.slot_of = FactIds()
        self.attested: array[int] = array("i")
        """Slots of facts with a source's own signature, ascending."""
        self.passages: dict[int, str] = {}
        """By slot of a paragraph of a summary: its text."""
        self.by_entity = Postings()
        self.by_key = Postings()
        self.by_object = Postings()
        self.by_source = Postings()
        self.by_term = TermPostings()
        self.by_cid = Postings()
        self.reserved = Postings()
        """Slots of facts about the protocol's own records, under ``""``."""
        self.summaries = Postings()
        """Slots of the paragraphs of summaries, under ``""``."""
        self.tokenize = Tokenizer()

    def has_key(self, entity: str, relation: str, scope: str, garden: str | None) -> bool:
        """Whether the key ever had a fact."""
        entity_number = self.entities.number(entity)
        relation_number = self.relations.number(relation)
        if entity_number is None or relation_number is None:
            return False
        garden_number = -1 if garden is None else self.gardens.number(garden)
        if garden_number is None:
            return False
        key = (entity_number, relation_number, SCOPE_NUMBERS[scope], garden_number)
        return self.keys.number(key) is not None

    def key_number(self, key: tuple[int, int, int, int]) -> int:
        """The number of (entity, relation, scope, garden), for one more fact of it."""
        number = self.keys.number(key)
        if number is not None:
            self.crowded[number] = True
            return number
        number = self.keys.add(key)
        if number >= len(self.crowded):
            self.crowded = grown(self.crowded, 2 * number)
        return number

    def unlist(self, slots: list[int]) -> None:
        """Remove facts from every list."""
        by_column = {"entity": self.by_entity, "key": self.by_key, "object": self.by_object,
                     "source": self.by_source}  # fmt: skip
        for column, postings in by_column.items():
            postings.drop(slots, np.unique(self.arrays[column][slots]).tolist())
        self.by_term.drop(slots, {term for slot in slots for term in self._terms(slot)})
        for postings in (self.by_cid, self.reserved, self.summaries):
            postings.drop(slots)

    def _terms(self, slot: int) -> list[str]:
        """The terms of a fact's searched text."""
        entity, relation, value = (
            int(self.arrays[column][slot]) for column in ("entity", "relation", "value")
        )
        named = self.entities.text(entity), self.relations.text(relation)
        return self.tokenize(lexical_text(*named, "string", self.said[value]))

    def cut(self) -> ColumnView:
        """Every row, published or not."""
        return ColumnView(self, self.count)


class ColumnView(FactArrays):
    """The columns up to one count of rows; the length never changes. Later events may still close
    ``to_position`` and ``set_aside``, but only with their own, later positions."""

    def __init__(self, facts: FactColumns, count: int) -> None:
        self.count = count
        for name, column in facts.arrays.items():
            setattr(self, name, column[:count])
        self.entities: Interner = facts.entities
        self.relations: Interner = facts.relations
        self.sources: Interner = facts.sources
        self.gardens: Interner = facts.gardens

    def are_rivals(self, slots: I32, others: I32) -> Bool:
        """Pair by pair: another value, and at some time both are valid."""
        rival: Bool = (
            (self.value[others] != self.value[slots])
            & (self.valid_from[others] < self.valid_until[slots])
            & (self.valid_from[slots] < self.valid_until[others])
        )
        return rival

    def voice(self, slot: int) -> tuple[int, int]:
        """The numbers of the node that stated a fact, and of the peer it came through: a peer can
        wrap facts as another node's."""
        return int(self.origin[slot]), int(self.peer[slot])

    def of_voice(self, slots: I32, voice: tuple[int, int]) -> I32:
        """Those of ``slots`` with this voice; all if none has it."""
        origin, peer = voice
        own = slots[(self.origin[slots] == origin) & (self.peer[slots] == peer)]
        return own if len(own) else slots

    def competing_claims(self, slots: Slots, moment: Moment) -> Bool:
        """Which facts are claims at the moment and have not expired; with ``valid_at``, only those
        that are valid then."""
        competing = self.claimed(slots, moment) & (self.valid_until[slots] > moment.valid_us)
        if moment.valid_at_us is not None:
            competing &= self.valid_from[slots] <= moment.valid_at_us
        return competing

    def claimed(self, slots: Slots, moment: Moment) -> Bool:
        """Which facts are claims at the moment, expired or not: asserted, not retracted, not set
        aside by a resolution, with confidence above 0."""
        return (
            (self.from_position[slots] <= moment.position)
            & (self.to_position[slots] > moment.position)
            & (self.set_aside[slots] > moment.position)
            & (self.base[slots] > 0.0)
        )
