"""Numbers of keys: (entity, relation, scope, garden), each by its number."""

import struct

from engramlog.projections.text_table import TextTable

Key = tuple[int, int, int, int]
_pack = struct.Struct("<4i").pack


class KeyNumbers:
    """Sealed keys in a table, and the newer ones. One thread adds, any may read."""

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
