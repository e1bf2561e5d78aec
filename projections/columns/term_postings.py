"""Posting lists of terms: the facts that hold a term, and how often.

The writer appends a slot for each occurrence of the term in a fact. The first question about a term
counts its list and keeps the counts; later appends only extend them. Sealed lists were counted when
written.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from engramlog.projections.arrays import I32, I64, grown
from engramlog.projections.columns.slot_lists import NOTHING, Lists, Postings
from engramlog.projections.text_table import TextTable, key_of

COUNTED_ENTRIES_MAX = 8_000_000
"""Counted entries kept in all (8 bytes each); the least recently used terms are dropped first."""
COUNTED_FROM = 64
"""Shorter lists, and those of this length, are counted again each time."""


class _Counted:
    """Distinct slots of the first ``raw`` entries of a list, and their counts. Entries below
    ``used`` never change, so readers may keep slices."""

    __slots__ = ("frequencies", "raw", "slots", "used")

    def __init__(self) -> None:
        self.raw = 0
        self.used = 0
        self.slots: I32 = np.empty(0, dtype=np.int32)
        self.frequencies: I32 = np.empty(0, dtype=np.int32)

    def extend(self, repeated: I32) -> None:
        """Count more entries; their slots all follow those already counted."""
        slots, frequencies = count(repeated)
        total = self.used + len(slots)
        if total > len(self.slots):
            room = max(total, 5 * self.used // 4)
            self.slots = grown(self.slots[: self.used], room)
            self.frequencies = grown(self.frequencies[: self.used], room)
        self.slots[self.used : total] = slots
        self.frequencies[self.used : total] = frequencies
        self.used = total
        self.raw += len(repeated)


class SealedTerms:
    """Sealed lists by term: each slot once, and how often its fact holds the term."""

    def __init__(self, table: TextTable, starts: I64, slots: I32, often: np.ndarray[Any, Any]):
        self.table = table
        self.starts = starts
        self.all_slots = slots
        self.often = often

    @property
    def lists(self) -> Lists:
        """The lists by term number, with frequencies beside the slots."""
        return Lists(self.starts, [self.all_slots, self.often])

    def counted(self, term: str) -> tuple[I32, I32]:
        """(slots, how often each holds the term)."""
        number = self.table.number(key_of(term))
        if number is None:
            return NOTHING, NOTHING
        at = slice(self.starts[number], self.starts[number + 1])
        return self.all_slots[at], self.often[at].astype(np.int32)

    def slots(self, name: str) -> I32:
        return np.repeat(*self.counted(name))

    def names(self) -> Iterator[str]:
        return self.table.texts()


class TermPostings(Postings):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._counted: OrderedDict[str, _Counted] = OrderedDict()
        self._entries = 0

    def counted(self, term: str, below: int) -> tuple[I32, I32]:
        """(slots below ``below``, how often each holds the term); ascending, read-only. Ask only
        about published slots: the entries of their facts are complete."""
        fresh = self._counted_fresh(term, below)
        if not isinstance(self.sealed, SealedTerms):
            return fresh
        slots, often = self.sealed.counted(term)
        if len(self.dropped) and len(slots):
            stays = self._stays(slots)
            slots, often = slots[stays], often[stays]
        if not len(slots):
            return fresh
        if not len(fresh[0]):
            return slots, often
        return np.concatenate((slots, fresh[0])), np.concatenate((often, fresh[1]))

    def _counted_fresh(self, term: str, below: int) -> tuple[I32, I32]:
        found = self._lists.get(term)
        if not isinstance(found, array) or len(found) <= COUNTED_FROM:
            return count(self._fresh(term, below))
        with self._lock:
            # Looked up again: the counts of a list that an erasure replaced would stay.
            found = self._lists.get(term)
            if not isinstance(found, array):
                return count(self._fresh(term, below))
            known = self._counted.get(term)
            if known is None:
                known = self._counted[term] = _Counted()
            self._counted.move_to_end(term)
            if len(found) > known.raw:
                self._count_more(known, found, below)
            slots, frequencies = known.slots[: known.used], known.frequencies[: known.used]
        if len(slots) and slots[-1] >= below:
            held = int(slots.searchsorted(below))
            return slots[:held], frequencies[:held]
        return slots, frequencies

    def drop(self, slots: Collection[int], names: Iterable[Any] | None = None) -> None:
        terms = None if names is None else frozenset(names)
        super().drop(slots, terms)
        with self._lock:
            for term in self._counted.keys() & (self._counted if terms is None else terms):
                self._entries -= self._counted.pop(term).used

    def _count_more(self, known: _Counted, found: array[int], below: int) -> None:
        # Slicing copies under the interpreter lock: the writer may append meanwhile.
        fresh: I32 = np.frombuffer(found[known.raw :].tobytes(), dtype=np.int32)
        self._entries -= known.used
        known.extend(fresh[: int(fresh.searchsorted(below))])
        self._entries += known.used
        while self._entries > COUNTED_ENTRIES_MAX and len(self._counted) > 1:
            _, dropped = self._counted.popitem(last=False)
            self._entries -= dropped.used


def count(repeated: I32) -> tuple[I32, I32]:
    """Distinct slots of an ascending list, and their counts."""
    if not len(repeated):
        return repeated, repeated
    starts = np.flatnonzero(np.concatenate(([True], repeated[1:] != repeated[:-1])))
    if len(starts) == len(repeated):
        return repeated, np.ones(len(repeated), dtype=np.int32)
    ends = np.append(starts[1:], len(repeated))
    return repeated[starts], (ends - starts).astype(np.int32)
