"""Numbers of keys: (entity, relation, scope, garden), each by its own number."""

from __future__ import annotations

import struct

from engramlog.projections.text_table import TextTable

Key = tuple[int, int, int, int]
_pack = struct.Struct("<4i").pack


class KeyNumbers:
    """Sealed ones in a table, and those that came since. One thread adds, any may read."""

    def __init__(self) -> None:
        self.sealed = TextTable()
        self._first = 0
        self._fresh: dict[Key, int] = {}

    def rest(self, sealed: TextTable) -> None:
        """Have the first keys lie in a table, of none so far, or of the same as before."""
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
        """The keys behind the sealed ones as a table holds them, below ``count``."""
        return [_pack(*key) for key in list(self._fresh)[: count - self._first]]
