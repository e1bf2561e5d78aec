"""Texts for substring searches: lower case, without accents, in one long string.

``Folded`` uses its owner's numbers of texts and counts a piece in each at the speed of
``bytes.find``. It is filled on the first request and grows with its texts, which alone determine
it. It takes the bytes of the texts plus 8 per text.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.text.normal_forms import normal_form

BLOCK = 32_768
"""Texts in one string; other threads run between strings."""

PIECES_KEPT = 4_096

FREQUENT = 1_000
"""From this many matches in a string, finding all at once is cheaper than one by one."""

_MARKS = re.compile("[\u0300-\u036f]")
_END = b"\xff"
"""Ends each text; UTF-8 never holds it, so no match spans two texts."""


def strip_diacritics(text: str) -> str:
    """Lower case without combining marks; letters that do not decompose (ß, ø, ł) stay."""
    if text.isascii():
        return text.lower()
    return _MARKS.sub("", normal_form("NFD", text)).lower()


def occurrences(piece: str, text: str) -> int:
    """How often a folded text holds a folded piece; matches may overlap."""
    return len(_places(text.encode(), piece.encode()))


@lru_cache(maxsize=PIECES_KEPT)
def beginning(piece: str) -> Callable[[str], bool]:
    """A function: whether a word of a folded text begins with the piece."""
    search = re.compile(rf"(?<!\w){re.escape(strip_diacritics(piece))}").search
    return lambda text: search(text) is not None


class _Block(Struct, frozen=True):
    """Texts from one number on: the start of each, plus the end of the last."""

    first: int
    data: bytes
    starts: I64


class Folded:
    """See the module. ``texts_from(n)`` are the owner's texts from number n on."""

    def __init__(self, texts_from: Callable[[int], Sequence[str]]) -> None:
        self._texts_from = texts_from
        self._lock = threading.Lock()
        self._blocks: tuple[_Block, ...] = ()
        self._count = 0

    def counts(self, piece: str) -> I32:
        """How often each text holds the folded piece, by number."""
        blocks = self._grown()
        total = blocks[-1].first + len(blocks[-1].starts) - 1 if blocks else 0
        counts = np.zeros(total, dtype=np.int32)
        for block, at in _found(blocks, piece.encode()):
            texts = block.starts.searchsorted(at, side="right") - 1
            size = len(block.starts) - 1
            counts[block.first : block.first + size] = np.bincount(texts, minlength=size)
        return counts

    def holding(self, piece: str) -> Holding:
        """Which texts hold the folded piece."""
        return Holding(self._grown(), piece.encode())

    def lengths(self) -> I32:
        """The bytes of each folded text, by number."""
        lists = [np.diff(block.starts) - 1 for block in self._grown()]
        return np.concatenate(lists).astype(np.int32) if lists else np.empty(0, dtype=np.int32)

    def _grown(self) -> tuple[_Block, ...]:
        with self._lock:
            fresh = self._texts_from(self._count)
            for at in range(0, len(fresh), BLOCK):
                self._append([strip_diacritics(text) for text in fresh[at : at + BLOCK]])
            return self._blocks

    def _append(self, texts: Sequence[str]) -> None:
        """Add texts, to the last block until it is full."""
        data = [text.encode() + _END for text in texts]
        starts = np.concatenate(([0], np.cumsum([len(each) for each in data])))
        blocks, block = self._blocks, _Block(self._count, b"".join(data), starts)
        if blocks and len(blocks[-1].starts) + len(texts) <= BLOCK:
            last = blocks[-1]
            joined = np.concatenate((last.starts[:-1], starts + len(last.data)))
            blocks, block = blocks[:-1], _Block(last.first, last.data + block.data, joined)
        self._blocks = (*blocks, block)
        self._count += len(texts)


class Holding:
    """Which texts hold a piece; searches each block when a text of it is requested."""

    def __init__(self, blocks: Sequence[_Block], piece: bytes) -> None:
        self._blocks = blocks
        self._piece = piece
        self._firsts = np.array([block.first for block in blocks], dtype=np.int64)
        self._ends = [block.first + len(block.starts) - 1 for block in blocks]
        self._held: dict[int, I64] = {}

    def __getitem__(self, numbers: I32) -> Bool:
        """Whether each text of ``numbers`` holds the piece."""
        holds: Bool = np.zeros(len(numbers), dtype=np.bool_)
        if not len(numbers) or not self._blocks:
            return holds
        # not all from the first to the last: new facts share an old value or entity
        block_of = self._firsts.searchsorted(numbers, side="right") - 1
        requested: list[int] = np.flatnonzero(np.bincount(block_of)).tolist()
        texts_of = {at: self._of_block(at) for at in requested}
        if not any(map(len, texts_of.values())):
            return holds
        begin = self._blocks[requested[0]].first
        spread: Bool = np.zeros(self._ends[requested[-1]] - begin, dtype=np.bool_)
        for at, texts in texts_of.items():
            spread[texts + (self._blocks[at].first - begin)] = True
        return spread[numbers - begin]

    def _of_block(self, at: int) -> I64:
        """The texts of a block that hold the piece, numbered from its first."""
        texts = self._held.get(at)
        if texts is None:
            block = self._blocks[at]
            places = _places(block.data, self._piece)
            texts = np.unique(block.starts.searchsorted(places, side="right") - 1)
            self._held[at] = texts
        return texts


def _found(blocks: Sequence[_Block], piece: bytes) -> Iterator[tuple[_Block, I64]]:
    """The matches of a piece in each block that holds it."""
    for block in blocks:
        matches = _places(block.data, piece)
        if len(matches):
            yield block, matches


def _places(data: bytes, piece: bytes) -> I64:
    """The matches of a piece, ascending; they may overlap."""
    known = data.count(piece) if piece else 0
    if known >= FREQUENT:
        return _frequent(data, piece)
    places: array[int] = array("q")
    at = data.find(piece) if known else -1
    while at >= 0:
        places.append(at)
        at = data.find(piece, at + 1)
    return np.frombuffer(places, dtype=np.int64)


def _frequent(data: bytes, piece: bytes) -> I64:
    """``_places`` for a frequent piece: letter by letter, all matches at once."""
    letters = np.frombuffer(data, dtype=np.uint8)
    room = max(0, len(letters) - len(piece) + 1)
    places: I64 = np.flatnonzero(letters[:room] == piece[0])
    for n, letter in enumerate(piece[1:], 1):
        places = places[letters[places + n] == letter]
    return places
