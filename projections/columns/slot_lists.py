"""Lists of slots by name: sealed ones in arrays, newer slots in lists that grow."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool, grown
from engramlog.projections.ascending import ranges
from engramlog.projections.columns.growing_dict import present_entries

PIECE = 1 << 20
"""Entries of sealed lists that are moved in one step."""
NOTHING: I32 = np.zeros(0, dtype=np.int32)


class SealedSlots(Protocol):
    """Lists that do not grow. An empty list may or may not have a name."""

    def slots(self, name: Any) -> I32:
        """The slots under a name, ascending; read-only."""
        ...

    def names(self) -> Iterator[Any]:
        """Every name with a list."""
        ...


class Postings:
    """Lists of increasing slots by number or term, limited to the rows that a reader pinned. A list
    of one slot is stored as a plain integer: most lists have one, and an array takes four times the
    memory. The sealed part comes first and is older than every reader."""

    def __init__(self) -> None:
        self._lists: dict[Any, int | array[int]] = {}
        self.sealed: SealedSlots | None = None
        self.dropped: I32 = NOTHING
        """Slots in the sealed lists that were dropped since."""

    def add(self, name: Any, slot: int) -> None:
        """List a slot under a name."""
        found = self._lists.get(name)
        if found is None:
            self._lists[name] = slot
        elif isinstance(found, array):
            found.append(slot)
        else:
            self._lists[name] = array("i", (found, slot))

    def add_all(self, names: Sequence[Any], slot: int) -> None:
        """List a slot under each name, once per occurrence."""
        lists = self._lists
        for name in names:
            found = lists.get(name)
            if found is None:
                lists[name] = slot
            elif isinstance(found, array):
                found.append(slot)
            else:
                lists[name] = array("i", (found, slot))

    def drop(self, slots: Collection[int], names: Iterable[Any] | None = None) -> None:
        """Remove slots from the lists under ``names``, which are all that hold any; without names,
        from every list, which reads them all."""
        gone = frozenset(slots)
        first, last = min(gone, default=0), max(gone, default=-1)
        dropped = np.array(sorted(gone), dtype=np.int32)
        if self.sealed is not None:
            self.dropped = np.union1d(self.dropped, dropped)
        if names is None:
            lists = list(self._lists.items())
        else:
            lists = [(name, self._lists.get(name)) for name in names]
        for name, found in lists:
            if isinstance(found, array):
                if not _has_between(found, first, last):
                    continue
                listed: I32 = np.frombuffer(found.tobytes(), dtype=np.int32)
                kept = listed[np.isin(listed, dropped, invert=True)]
                if len(kept):
                    self._lists[name] = array("i", kept.tobytes())
                else:
                    del self._lists[name]
            elif found in gone:
                del self._lists[name]

    def slots(self, name: Any, count: int) -> I32:
        """The slots below ``count``, in order; read-only."""
        fresh = self._fresh(name, count)
        if self.sealed is None:
            return fresh
        sealed = self.sealed.slots(name)
        if len(sealed):
            sealed = sealed[self._stays(sealed)] if len(self.dropped) else sealed
            return np.concatenate((sealed, fresh)) if len(fresh) else sealed
        return fresh

    def joined(self, numbers: I32, count: int) -> tuple[I32, I64]:
        """``slots`` of several numbers, one list after the other, and the length of each list."""
        names: list[int] = numbers.tolist()
        sealed = self.sealed
        if sealed is None:
            return _flat(map(self._lists.get, names), count)
        if not isinstance(sealed, NumberedLists) or len(self.dropped):
            lists = [self.slots(name, count) for name in names]
            lengths = np.array([len(each) for each in lists], dtype=np.int64)
            return np.concatenate([NOTHING, *lists]), lengths
        slots, lengths = sealed.joined(numbers)
        if not self._lists.keys().isdisjoint(names):
            fresh, more = _flat(map(self._lists.get, names), count)
            slots = np.insert(slots, np.repeat(lengths.cumsum(), more), fresh)
            lengths += more
        return slots, lengths

    def _fresh(self, name: Any, count: int) -> I32:
        found = self._lists.get(name)
        if found is None:
            return NOTHING
        if isinstance(found, int):
            return np.full(int(found < count), found, dtype=np.int32)
        # tobytes copies under the interpreter lock and exports no buffer, so the writer may append
        # in its thread.
        slots: I32 = np.frombuffer(found.tobytes(), dtype=np.int32)
        if len(slots) and slots[-1] >= count:
            return slots[: int(np.searchsorted(slots, count))]
        return slots

    def _stays(self, slots: I32) -> Bool:
        return np.isin(slots, self.dropped, invert=True)

    def __iter__(self) -> Iterator[Any]:
        """The names of all lists."""
        if self.sealed is None:
            return iter(self._lists)
        sealed = (name for name in self.sealed.names() if len(self.slots(name, 1 << 31)))
        return iter(dict.fromkeys(chain(sealed, self._lists)))

    def rest(self, sealed: SealedSlots) -> None:
        """Keep the first slots in sealed lists. Until now this holds no slots, or exactly these."""
        self.sealed = sealed

    def grown(self, count: int) -> Grown:
        """The slots after the sealed lists and below ``count``; the writer may append meanwhile."""
        lists = present_entries(self._lists)
        slots, lengths = _flat(lists.values(), count)
        return Grown(list(lists), lengths, slots)


_ORDER = "little" if np.little_endian else "big"


def _has_between(slots: array[int], first: int, last: int) -> bool:
    """Whether increasing slots have one in a range: reading them all takes long."""
    at = bisect_left(slots, first)
    return at < len(slots) and slots[at] <= last


def _flat(lists: Iterable[int | array[int] | None], count: int) -> tuple[I32, I64]:
    """The slots below ``count``, one list after the other, and the length of each list. Copies
    under the interpreter lock: the writer may append meanwhile."""
    parts = [
        b""
        if found is None
        else found.tobytes()
        if isinstance(found, array)
        else found.to_bytes(4, _ORDER)
        for found in lists
    ]
    slots: I32 = np.frombuffer(b"".join(parts), dtype=np.int32)
    lengths = np.fromiter(map(len, parts), np.int64, len(parts)) // 4
    known = slots < count
    if known.all():
        return slots, lengths
    list_of = np.repeat(np.arange(len(parts)), lengths)
    return slots[known], np.bincount(list_of[known], minlength=len(parts))


class Grown(Struct, frozen=True):
    """Lists in one array: their names, their lengths, and all slots."""

    names: list[Any]
    lengths: I64
    slots: I32


class NumberedLists:
    """Sealed lists by small numbers: list ``n`` is ``slots[starts[n]:starts[n + 1]]``."""

    def __init__(self, starts: I64, slots: I32) -> None:
        self.starts = starts
        self.all_slots = slots

    def slots(self, name: int) -> I32:
        if not 0 <= name < len(self.starts) - 1:
            return NOTHING
        return self.all_slots[self.starts[name] : self.starts[name + 1]]

    def joined(self, numbers: I32) -> tuple[I32, I64]:
        """See ``Postings.joined``."""
        known = np.minimum(numbers, len(self.starts) - 2)
        first, lengths = self.starts[known], self.starts[known + 1] - self.starts[known]
        lengths[known < numbers] = 0
        return self.all_slots[ranges(first, first + lengths)], lengths

    def names(self) -> Iterator[int]:
        return iter(np.flatnonzero(np.diff(self.starts)).tolist())


class HashedSlots:
    """Sealed slots by 64-bit number, few slots each: two parallel arrays, ascending."""

    def __init__(self, numbers: np.ndarray[Any, np.dtype[np.uint64]], slots: I32) -> None:
        self.numbers = numbers
        self.all_slots = slots

    def slots(self, name: int) -> I32:
        number = np.uint64(name)
        start = int(self.numbers.searchsorted(number))
        return self.all_slots[start : int(self.numbers.searchsorted(number, side="right"))]

    def names(self) -> Iterator[int]:
        return iter(dict.fromkeys(self.numbers.tolist()))


class Lists(Struct, frozen=True):
    """Lists by row: the start of each, and the columns of their entries."""

    starts: I64
    columns: list[np.ndarray[Any, Any]]


def without(lists: Lists, gone: Bool) -> Lists:
    """Lists without some of their entries."""
    kept = np.concatenate(([0], np.cumsum(~gone)))
    return Lists(kept[lists.starts], [column[~gone] for column in lists.columns])


def appended(lists: Lists, rows: I64, lengths: I64, fresh: Sequence[Any], count: int) -> Lists:
    """Lists with more entries at the end of some.

    Args:
        rows: the lists that grow, ascending; ``lengths`` by how many entries each.
        fresh: the columns of the new entries.
        count: the number of lists afterwards.
    """
    old = grown(np.diff(lists.starts), count)
    more: I64 = np.zeros(count, dtype=np.int64)
    more[rows] = lengths
    starts: I64 = np.concatenate(([0], np.cumsum(old + more)))
    total = int(starts[-1])
    columns = [np.empty(total, dtype=column.dtype) for column in fresh]
    _place(columns, lists.columns, starts[:-1], old)
    _place(columns, fresh, starts[:-1] + old, more)
    return Lists(starts, columns)


def _place(
    columns: Sequence[np.ndarray[Any, Any]], source: Sequence[Any], firsts: I64, lengths: I64
) -> None:
    """Copy consecutive runs to their new starts."""
    ends = np.cumsum(lengths)
    row = 0
    while row < len(lengths):
        begun = int(ends[row] - lengths[row])
        last = max(row + 1, int(ends.searchsorted(begun + PIECE, side="right")))
        some = lengths[row:last]
        until = int(ends[last - 1])
        shift = firsts[row:last] - (ends[row:last] - some)
        at = np.arange(begun, until) + np.repeat(shift, some)
        for column, of in zip(columns, source, strict=True):
            column[at] = of[begun:until]
        row = last
