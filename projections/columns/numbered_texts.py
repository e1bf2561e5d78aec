"""Ids and values of facts by number: sealed ones in a table, newer ones in dictionaries.

Unlike names, they can be forgotten; a forgotten number is not used again.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from engramlog.projections.columns.growing_dict import present_entries
from engramlog.projections.text.terms import searchable_value
from engramlog.projections.text_table import TextTable, key_of

VALUE_TYPES = ("string", "text", "number", "boolean", "datetime", "ref", "null")
_DIGITS = {name: str(number) for number, name in enumerate(VALUE_TYPES)}
"""The type of a value, as the digit before its text in the table."""


class FactIds:
    """Slots of facts by id. One thread changes them, any may read."""

    def __init__(self) -> None:
        self.sealed = TextTable()
        self.gone: set[int] = set()
        """Slots of sealed facts that are forgotten."""
        self._fresh: dict[str, int] = {}

    def rest(self, sealed: TextTable) -> None:
        """Keep the first ids in a table. Until now there are no ids, or exactly these."""
        self.sealed = sealed

    def get(self, fact: str) -> int | None:
        """The slot of a fact, or None."""
        slot = self._fresh.get(fact)
        if slot is None and len(self.sealed):
            slot = self.sealed.number(key_of(fact))
            return None if slot in self.gone else slot
        return slot

    def __getitem__(self, fact: str) -> int:
        slot = self.get(fact)
        if slot is None:
            raise KeyError(fact)
        return slot

    def __contains__(self, fact: str) -> bool:
        return self.get(fact) is not None

    def __setitem__(self, fact: str, slot: int) -> None:
        self._fresh[fact] = slot

    def __delitem__(self, fact: str) -> None:
        slot = self[fact]
        if slot < len(self.sealed):
            self.gone.add(slot)
        else:
            del self._fresh[fact]

    def __iter__(self) -> Iterator[str]:
        return (fact for fact, _ in self.items())

    def __len__(self) -> int:
        return self.sealed.texts_held - len(self.gone) + len(self._fresh)

    def items(self) -> Iterator[tuple[str, int]]:
        """Every id and its slot, by slot."""
        for slot, fact in enumerate(self.sealed.texts()):
            if fact and slot not in self.gone:
                yield fact, slot
        yield from present_entries(self._fresh).items()

    def fresh_keys(self, count: int) -> list[bytes]:
        """The ids after the sealed ones and below ``count``, by slot; empty if forgotten."""
        return _by_number(
            ((key_of(fact), slot) for fact, slot in present_entries(self._fresh).items()),
            len(self.sealed),
            count,
        )


class SaidValues(Sequence[str]):
    """Numbers of values by type and text; as a sequence, the searched text of each.
    One thread adds, any may read."""

    def __init__(self) -> None:
        self.sealed = TextTable()
        self.gone: set[int] = set()
        """Numbers of sealed values that are forgotten."""
        self._first = 0
        self._numbers: dict[tuple[str, str], int] = {}
        self._said: list[str] = []

    def rest(self, sealed: TextTable) -> None:
        """Keep the first values in a table. Until now there are no values, or exactly these."""
        self.sealed = sealed
        self._first = len(sealed)

    def number(self, value_type: str, text: str) -> int | None:
        """The number of a value, or None if no fact has it."""
        number = self._numbers.get((value_type, text))
        if number is None and self._first:
            number = self.sealed.number(_value_key(value_type, text))
            return None if number in self.gone else number
        return number

    def add(self, value_type: str, text: str) -> int:
        """The number of a value; a new value gets a new number."""
        number = self.number(value_type, text)
        if number is None:
            number = self._first + len(self._said)
            self._said.append(searchable_value(value_type, text))
            self._numbers[value_type, text] = number
        return number

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget values that no fact has any more; a value that returns gets another number."""
        gone = frozenset(numbers)
        for value in [value for value, number in self._numbers.items() if number in gone]:
            del self._numbers[value]
        for number in gone:
            if number < self._first:
                self.gone.add(number)
            else:
                self._said[number - self._first] = ""

    def fresh_keys(self, count: int) -> list[bytes]:
        """The values after the sealed ones and below ``count``, as a table holds them; empty if
        forgotten."""
        values = present_entries(self._numbers).items()
        keys = ((_value_key(kind, text), number) for (kind, text), number in values)
        return _by_number(keys, self._first, count)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if index >= self._first:
            return self._said[index - self._first]
        text = "" if index in self.gone else self.sealed.text(index)
        return searchable_value(VALUE_TYPES[int(text[0])], text[1:]) if text else ""

    def __len__(self) -> int:
        return self._first + len(self._said)


def _value_key(value_type: str, text: str) -> bytes:
    return key_of(_DIGITS[value_type] + text)


def _by_number(keys: Iterable[tuple[bytes, int]], first: int, count: int) -> list[bytes]:
    found = [b""] * (count - first)
    for key, number in keys:
        if number < count:
            found[number - first] = key
    return found


Key = tuple[int, int, int, int]
_pack = struct.Struct("<4i").pack


class KeyNumbers:
    """Numbers of keys: (entity, relation, scope, garden), each by its number. One thread adds, any
    may read."""

    def __init__(self) -> None:
        self.sealed = TextTable()
        self._first = 0
        self._fresh: dict[Key, int] = {}

    def rest(self, sealed: TextTable) -> None:
        """Keep the first keys in a table. Until now there are no keys, or exactly these."""
        self.sealed = sealed
        self._first = len(sealed)

    def number(self, key: Key) -> int | None:
        """The number of a key, or None."""
        number = self._fresh.get(key)
        if number is None and self._first:
            return self.sealed.number(_pack(*key))
        return number

    def add(self, key: Key) -> int:
        """Give a new key its number."""
        number = self._fresh[key] = self._first + len(self._fresh)
        return number

    def __len__(self) -> int:
        return self._first + len(self._fresh)

    def fresh_keys(self, count: int) -> list[bytes]:
        """The keys after the sealed ones and below ``count``, as a table holds them."""
        return [_pack(*key) for key in list(self._fresh)[: count - self._first]]
