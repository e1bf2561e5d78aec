"""A cache of written cards that drops the least recently used first."""

import threading
from collections import OrderedDict

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.inputs import CardInputs
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardKey

CACHED_BYTES_MAX = 67_108_864
"""Text and slot lists of all cached cards, in bytes."""
_ENTRY_BYTES = 2_048


class CachedCard(Struct, frozen=True):
    """A card with its inputs, to check whether it is still valid. ``authorization``: that of its
    first reader, which its refresh uses too."""

    card: Card
    fingerprint: bytes
    members: I32
    contested: I32
    authorization: Authorization
    moment: Moment

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        text = len(self.card.markdown) + len(self.card.summary)
        shown = sum(len(fact.value) for fact in self.card.shown)
        return _ENTRY_BYTES + text + shown + self.members.nbytes

    def divergent(self, view: View, now: CardInputs) -> I32 | None:
        """The facts that make the card untrue (seed §20.4.5); None if it is only stale. A card is
        untrue if a fact under it is gone, also the weak side of a contradiction, or if a fact that
        it does not show disputes it. The result holds both sides of such disputes."""
        gone = np.concatenate(
            (
                ~np.isin(self.members, now.members, assume_unique=True),
                ~np.isin(self.contested, now.slots, assume_unique=True),
            )
        )
        fresh = np.setdiff1d(now.slots[now.disputed], self.contested, assume_unique=True)
        fresh = fresh[np.isin(view.key[fresh], view.key[self.members])]
        return fresh if len(fresh) or gone.any() else None


class CardCache:
    """By key. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[CardKey, CachedCard] = OrderedDict()
        self._of_entity: dict[str, set[CardKey]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: CardKey) -> bool:
        return key in self._entries

    def get(self, key: CardKey) -> CachedCard | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, entry: CachedCard) -> list[CardKey]:
        """Store a card, unless a later one exists. Returns the dropped keys."""
        key = entry.card.key
        with self._lock:
            held = self._entries.get(key)
            if held is not None and held.moment.position > entry.moment.position:
                return []
            self._remove(key)
            self._entries[key] = entry
            self._of_entity.setdefault(key.entity, set()).add(key)
            self._bytes += entry.size
            gone: list[CardKey] = []
            while self._bytes > CACHED_BYTES_MAX:
                gone.append(next(iter(self._entries)))
                self._remove(gone[-1])
            return gone

    def drop(self, key: CardKey) -> None:
        """Drop a card. Idempotent."""
        with self._lock:
            self._remove(key)

    def keys(self) -> list[CardKey]:
        with self._lock:
            return list(self._entries)

    def of_entity(self, entity: str) -> list[CardKey]:
        with self._lock:
            return list(self._of_entity.get(entity, ()))

    def _remove(self, key: CardKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._bytes -= entry.size
        siblings = self._of_entity[key.entity]
        siblings.discard(key)
        if not siblings:
            del self._of_entity[key.entity]
