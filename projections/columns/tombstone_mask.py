"""Which facts tombstones hide: a column of bits per entity, tested before all counting."""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engramlog.projections.arrays import I8, I32, Bool
from engramlog.projections.ascending import distinct, places
from engramlog.projections.columns.fact_columns import ColumnView
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import SCOPES

_BIT = {scope: 1 << number for number, scope in enumerate(SCOPES)}
_BIT_OF_NUMBER = np.array([*(_BIT[scope] for scope in SCOPES), 0], dtype=np.uint8)
"""By scope number; the last entry is for erased facts, which lie in no scope (-1)."""


class Tombstone(Struct, frozen=True):
    """The part of a tombstone in force that readers need; ``node_id`` signed it (None: this
    node)."""

    tombstone_id: str
    entity: str
    entity_uri: str
    scopes: frozenset[str]
    created_at: str
    legal_hold: bool
    node_id: str | None


class Hiding:
    """What the tombstones in force hide. Immutable, so readers keep what they pinned.

    Args:
        tombstones: in the order in which they were set.
        entities: the memory image's numbers of entities.
        notes: by slot of a resolution's note, the number of the entity it is about.
    """

    def __init__(
        self,
        tombstones: Iterable[Tombstone],
        entities: Interner,
        notes: Mapping[int, int],
    ) -> None:
        self.tombstones = tuple(tombstones)
        self.names: dict[str, int] = {}
        for stone in self.tombstones:
            for scope in stone.scopes:
                self.names[stone.entity] = self.names.get(stone.entity, 0) | _BIT[scope]
        numbered = {
            number: bits
            for name, bits in self.names.items()
            if (number := entities.number(name)) is not None
        }
        self._bits: NDArray[np.uint8] = np.zeros(max(numbered, default=-1) + 2, dtype=np.uint8)
        for number, bits in numbered.items():
            self._bits[number] = bits
        noted = sorted((slot, entity) for slot, entity in notes.items() if entity in numbered)
        self._noted: I32 = np.array([slot for slot, _ in noted], dtype=np.int32)
        self._about: I32 = np.array([entity for _, entity in noted], dtype=np.int32)

    def __bool__(self) -> bool:
        return bool(self.names)

    def covers(self, entity: str, scope: str) -> bool:
        """Whether facts about an entity in a scope are hidden."""
        return bool(self.names.get(entity, 0) & _BIT[scope])

    def covers_everywhere(self, entity: str) -> bool:
        """Whether facts about an entity are hidden in every scope."""
        return self.names.get(entity, 0) == sum(_BIT.values())

    def over(self, view: "ColumnView", slots: I32) -> list[Tombstone]:
        """The tombstones that hide some of ``slots``."""
        hidden = self.mask(slots, view.entity[slots], view.object[slots], view.scope[slots])
        slots = slots[hidden]
        at, noted = places(self._noted, slots)
        about = (view.entity[slots], view.object[slots], self._about[at[noted]])
        scopes = (view.scope[slots], view.scope[slots], view.scope[slots[noted]])
        pairs = np.concatenate(about).astype(np.int64) * len(SCOPES) + np.concatenate(scopes)
        met: dict[int, int] = {}
        for pair in distinct(pairs).tolist():
            number, scope = divmod(pair, len(SCOPES))
            met[number] = met.get(number, 0) | _BIT[SCOPES[scope]]
        return [
            stone
            for stone in self.tombstones
            if (number := view.entities.number(stone.entity)) is not None
            and met.get(number, 0) & sum(_BIT[scope] for scope in stone.scopes)
        ]

    def mask(self, slots: I32 | None, entity: I32, target: I32, scope: I8) -> Bool:
        """Which facts are hidden: facts about a hidden entity, refs to one, and resolutions' notes
        about one. The columns are those of ``slots`` (None: of all slots)."""
        last = len(self._bits) - 1  # the bits of "no entity"
        bits = self._bits[np.minimum(entity, last)]
        bits |= self._bits[np.where(target < 0, last, np.minimum(target, last))]
        hidden: Bool = (bits & _BIT_OF_NUMBER[scope]) != 0
        if len(self._noted):
            if slots is None:
                noted = self._noted[self._noted < len(scope)]
                about = self._about[: len(noted)]
            else:
                at, there = places(self._noted, slots)
                noted, about = np.flatnonzero(there), self._about[at[there]]
            hidden[noted] |= (self._bits[about] & _BIT_OF_NUMBER[scope[noted]]) != 0
        return hidden
