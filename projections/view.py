"""A pinned view of the mirror: what every read-side stage works on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from projections.arrays import F64, I8, I32, I64, Bool
from projections.authorization import Authorization
from projections.interner import Interner
from projections.mirror_state import MirrorState
from projections.moment import LIVE, Moment


class View:
    """The mirror as of one published position; its length never changes.

    ``to_position`` and ``set_aside`` may still be closed underneath by later events, but
    only with positions beyond ``position``, which no question at or before it can see.
    """

    def __init__(self, mirror: MirrorState) -> None:
        columns = mirror.columns
        self._mirror = mirror
        self.position = mirror.position
        self.count = count = mirror.published
        arrays = columns.arrays
        self.from_position: I64 = arrays["from_position"][:count]
        self.to_position: I64 = arrays["to_position"][:count]
        self.entity: I32 = arrays["entity"][:count]
        self.relation: I32 = arrays["relation"][:count]
        self.source: I32 = arrays["source"][:count]
        self.scope: I8 = arrays["scope"][:count]
        self.garden: I32 = arrays["garden"][:count]
        self.value: I32 = arrays["value"][:count]
        self.value_type: I8 = arrays["value_type"][:count]
        self.key: I32 = arrays["key"][:count]
        self.object: I32 = arrays["object"][:count]
        self.hlc: I64 = arrays["hlc"][:count]
        self.recorded_at: I64 = arrays["recorded_at"][:count]
        self.valid_from: I64 = arrays["valid_from"][:count]
        self.valid_until: I64 = arrays["valid_until"][:count]
        self.base: F64 = arrays["base"][:count]
        self.set_aside: I64 = arrays["set_aside"][:count]
        self.length: I32 = arrays["length"][:count]
        self.asking: I8 = arrays["asking"][:count]
        self.entities: Interner = mirror.entities
        self.relations: Interner = mirror.relations
        self.sources: Interner = mirror.sources
        self.gardens: Interner = mirror.gardens
        self.tokenize: Callable[[str], list[str]] = mirror.tokenize

    # -- slot lists ---------------------------------------------------------------------

    def entity_slots(self, entity: int) -> I32:
        """Facts about an entity."""
        return self._mirror.by_entity.slots(entity, self.count)

    def key_slots(self, key: int) -> I32:
        """Facts of one (entity, relation, scope, garden)."""
        return self._mirror.by_key.slots(key, self.count)

    def object_slots(self, entity: int) -> I32:
        """Ref facts that point at an entity."""
        return self._mirror.by_object.slots(entity, self.count)

    def source_slots(self, source: int) -> I32:
        """Facts from a source, in the order they were asserted."""
        return self._mirror.by_source.slots(source, self.count)

    def postings(self, term: str) -> tuple[I32, I32]:
        """(slots, term frequencies) of a term of the lexicon."""
        repeated = self._mirror.by_term.slots(term, self.count)
        if not len(repeated):
            return repeated, repeated
        starts = np.flatnonzero(np.diff(repeated, prepend=-1))
        frequencies = np.diff(starts, append=len(repeated))
        return repeated[starts], frequencies.astype(np.int32)

    def slot_at(self, position: int) -> int | None:
        """The slot of the fact asserted at a position."""
        slot = int(np.searchsorted(self.from_position, position))
        return slot if slot < self.count and self.from_position[slot] == position else None

    # -- what a moment makes of a fact ----------------------------------------------------

    def ended(self, slots: I32, moment: Moment) -> Bool:
        """Which facts had been retracted by the moment."""
        ended: Bool = self.to_position[slots] <= moment.position
        return ended

    def confidence(self, slots: I32, moment: Moment) -> F64:
        """Confidence at the moment: decayed, and 0 where retracted."""
        confidence = self._mirror.decay.confidence(self, slots, moment.position)
        confidence[self.ended(slots, moment)] = 0.0
        return confidence

    def trust(self, slots: I32, moment: Moment) -> F64:
        """How far this node trusted each fact's source at the moment, in [0, 1]."""
        return self._mirror.trust.at(self.source[slots], moment.position)

    def access_count(self, slots: I32, moment: Moment) -> I64:
        """How often recalls had returned each fact by the moment."""
        return self._mirror.accesses.at(slots, moment.position)

    def is_set_valued(self, relation: int, moment: Moment) -> bool:
        """Whether a relation may hold several values at once, as declared at the moment."""
        return self._mirror.set_valued.covers(self.relations.text(relation), moment.position)

    def contradicted(self, slots: I32, moment: Moment, authorization: Authorization) -> Bool:
        """Which of ``slots`` have a live sibling with another value that the caller may see,
        or have themselves lost such a conflict. Set-valued relations never do."""
        flags: Bool = self.set_aside[slots] <= moment.position
        rivals: dict[int, I32] = {}
        shared_key = self._mirror.crowded[self.key[slots]]
        for index in np.flatnonzero(~flags & shared_key & (self.base[slots] > 0.0)):
            slot = int(slots[index])
            key = int(self.key[slot])
            if key not in rivals:
                rivals[key] = self._claimants(slot, key, moment, authorization)
            flags[index] = self._overlaps(slot, rivals[key])
        return flags

    def _claimants(self, slot: int, key: int, moment: Moment, authorization: Authorization) -> I32:
        """Standing facts of a key; none where they cannot contradict each other."""
        siblings = self.key_slots(key)
        if len(siblings) < 2 or self.is_set_valued(int(self.relation[slot]), moment):
            return siblings[:0]
        siblings = siblings[self.standing(siblings, moment)]
        siblings = siblings[authorization.mask(self, siblings)]
        values = self.value[siblings]
        return siblings[:0] if (values == values[:1]).all() else siblings

    def _overlaps(self, slot: int, siblings: I32) -> bool:
        """Whether a sibling with another value is valid at some time that the fact is."""
        if not len(siblings):
            return False
        return bool(
            (
                (self.value[siblings] != self.value[slot])
                & (self.valid_from[siblings] < self.valid_until[slot])
                & (self.valid_from[slot] < self.valid_until[siblings])
            ).any()
        )

    def standing(self, slots: I32, moment: Moment) -> Bool:
        """Which facts count as claims at the moment and have not expired."""
        return self.claimed(slots, moment) & (self.valid_until[slots] > moment.valid_us)

    def claimed(self, slots: I32, moment: Moment) -> Bool:
        """Which facts are claims at the moment, expired or not: asserted, not retracted, not
        set aside by a resolution, with confidence above 0."""
        return (
            (self.from_position[slots] <= moment.position)
            & (self.to_position[slots] > moment.position)
            & (self.set_aside[slots] > moment.position)
            & (self.base[slots] > 0.0)
        )


def everything(view: View) -> I32:
    """All slots of a view."""
    return np.arange(view.count, dtype=np.int32)


__all__ = ["LIVE", "View", "everything"]
