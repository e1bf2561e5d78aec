"""Texts and their numbers in arrays: a sealed dictionary that is searched in place.

Texts are stored in the order of their numbers. A hash table with open addressing and a salted hash
finds a number, so chosen texts cannot crowd it. A number with an empty text is a gap: its text was
removed and is not found any more.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, pairwise

import numpy as np

from engramlog.projections.arrays import I32, I64, U8, U64, Bool
from engramlog.projections.sealed_sections import Laid, Sections

SALT_BYTES = 16
PIECE = 4_096
"""Texts read in one step."""
WORD = 8
"""Bytes of texts compared in one step."""
_FIRST_BYTES: U64 = np.array(
    [(1 << 64) - (1 << 8 * (WORD - n)) for n in range(WORD + 1)], np.uint64
)
"""By number: a mask of a word's first bytes."""


def key_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class TextTable:
    """Texts and their numbers; empty without sections."""

    def __init__(self, sections: Sections | None = None, name: str = "") -> None:
        if sections is None:
            data, starts, hashes, index, salt = _build_table([], os.urandom(SALT_BYTES))
        else:
            data, starts, hashes, index, salt = (
                sections.array(f"{name}.{part}") for part in _PARTS
            )
        self.data: U8 = data
        self.starts: I64 = starts
        self.hashes: U64 = hashes
        self.salt = salt.tobytes()
        self._bytes = memoryview(data)
        self._start = memoryview(starts)
        self._hash_index = memoryview(index)
        self._mask = _mask(len(hashes))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def texts_held(self) -> int:
        """How many numbers are not gaps."""
        return int(np.count_nonzero(np.diff(self.starts)))

    def number(self, key: bytes) -> int | None:
        if not key:
            return None
        at = int.from_bytes(_hash(key, self.salt), "little") & self._mask
        start, held = self._start, self._bytes
        while (number := self._hash_index[at]) >= 0:
            if held[start[number] : start[number + 1]].tobytes() == key:
                return number
            at += 1
        return None

    def key(self, number: int) -> bytes:
        """The text of a number below the length."""
        return bytes(self._bytes[self._start[number] : self._start[number + 1]])

    def text(self, number: int) -> str:
        """The text of a number below the length, as a string."""
        held = self._bytes[self._start[number] : self._start[number + 1]]
        return str(held, "utf-8", "surrogatepass")

    def between(self, numbers: I32, after: bytes, last: bytes) -> I32:
        """The numbers whose texts sort after ``after``, up to ``last``, in the order given.
        Compares eight bytes at a time, without making strings of the texts."""
        kept = numbers[self._compared(numbers, after) > 0] if after else numbers
        return kept[self._compared(kept, last) <= 0]

    def _compared(self, numbers: I32, bound: bytes) -> I64:
        """Of each text: below 0 if it comes before ``bound``, above 0 if behind it, else 0."""
        begun = self.starts[numbers]
        lengths = self.starts[numbers + 1] - begun
        order: I64 = lengths - len(bound)  # where the shorter one is how the other begins
        inside = begun + len(bound) + WORD <= len(self.data)
        for n in np.flatnonzero(~inside).tolist():
            key = self.key(int(numbers[n]))
            order[n] = (key > bound) - (key < bound)
        left = np.flatnonzero(inside)
        words = np.ndarray((max(0, len(self.data) - WORD + 1),), ">u8", self.data, 0, (1,))
        for offset in range(0, len(bound), WORD):
            if not len(left):
                break
            own = np.clip(lengths[left] - offset, 0, WORD)
            word: U64 = words[begun[left] + offset].astype(np.uint64) & _FIRST_BYTES[own]
            limit = np.uint64(
                int.from_bytes(bound[offset : offset + WORD].ljust(WORD, b"\0"), "big")
            )
            order[left[word < limit]] = -1
            order[left[word > limit]] = 1
            left = left[word == limit]
        return order

    def texts(self, start: int = 0) -> Iterator[str]:
        """All texts from a number on, gaps included."""
        for first in range(start, len(self), PIECE):
            starts: list[int] = self.starts[first : first + PIECE + 1].tolist()
            data = self.data[starts[0] : starts[-1]].tobytes()
            for begun, end in pairwise(starts):
                yield data[begun - starts[0] : end - starts[0]].decode("utf-8", "surrogatepass")


_PARTS = ("data", "starts", "hashes", "index", "salt")


def table_sections(
    name: str, table: TextTable, fresh: Sequence[bytes], gone: Collection[int] = ()
) -> Iterator[Laid]:
    """The sections of a table with more texts after its own. ``gone``: numbers that become gaps."""
    if gone:
        gaps = frozenset(gone)
        texts = chain((table.key(number) for number in range(len(table))), fresh)
        kept = [b"" if number in gaps else text for number, text in enumerate(texts)]
        arrays = _build_table(kept, table.salt)
    else:
        data, starts, hashes, _, salt = _build_table(fresh, table.salt)
        starts = np.concatenate((table.starts, starts[1:] + table.starts[-1]))
        hashes = np.concatenate((table.hashes, hashes))
        data = np.concatenate((table.data, data))
        arrays = (data, starts, hashes, _hash_index(hashes, np.diff(starts) > 0), salt)
    return (Laid(f"{name}.{part}", array) for part, array in zip(_PARTS, arrays, strict=True))


def _hash(key: bytes, salt: bytes) -> bytes:
    return blake2b(key, digest_size=8, salt=salt).digest()


def _mask(count: int) -> int:
    return (1 << max(3, (2 * count).bit_length())) - 1


def _build_table(texts: Sequence[bytes], salt: bytes) -> tuple[U8, I64, U64, I32, U8]:
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    starts = np.fromiter(accumulate(map(len, texts), initial=0), np.int64, len(texts) + 1)
    digests = b"".join([_hash(text, salt) for text in texts])
    hashes: U64 = np.frombuffer(digests, dtype="<u8").astype(np.uint64)
    index = _hash_index(hashes, np.diff(starts) > 0)
    return data, starts, hashes, index, np.frombuffer(salt, dtype=np.uint8)


def _hash_index(hashes: U64, held: Bool) -> I32:
    """The hash table: each number in the first free place at or after that of its hash."""
    mask = _mask(len(hashes))
    numbers = np.flatnonzero(held)
    home = (hashes[numbers] & np.uint64(mask)).astype(np.int64)
    order = np.argsort(home, kind="stable")
    steps = np.arange(len(order))
    places = np.maximum.accumulate(home[order] - steps) + steps
    size = max(mask + 1, int(places[-1]) + 1 if len(places) else 0) + 1
    index: I32 = np.full(size, -1, dtype=np.int32)
    index[places] = numbers[order]
    return index
