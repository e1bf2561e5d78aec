"""Signatures of texts: 256 bits that are alike where the texts share words.

Version 1 is abmind's, bit for bit: ASCII tokens in 256 buckets, planes of ±1 drawn by
mulberry32 from seed 42, a bit set where the sum is above 0. Version 2 mends its faults: the
lexicon's terms without stop-words, a plane a term (BLAKE2b), repeated words by
``1 + ln(frequency)``, and ties decided by their own plane.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from engramlog.projections.arrays import F32, I32, U8
from engramlog.projections.text.stop_words import without_stop_words

BITS = 256
BYTES = BITS // 8
SEED = 42
TERMS_KEPT = 131_072
"""Buckets and planes of this many terms are remembered."""
BLOCK = 4_096
"""Texts signed in one go; then others get their turn."""
AT_ONCE = 65_536
"""Texts signed for one question, in about two seconds."""

_MASK = 0xFFFFFFFF
_TOKEN = re.compile(r"[a-z][a-z0-9_-]+", re.ASCII)
_EMPTY = bytes(BYTES)


def tokens(text: str) -> list[str]:
    """What version 1 sees of a text: ASCII words of at least two characters, with repeats."""
    return _TOKEN.findall(text.lower())


@lru_cache(maxsize=TERMS_KEPT)
def bucket(token: str) -> int:
    """``h = 31 h + code`` in 32 bits, without its sign, modulo 256."""
    number = 0
    for character in token:
        number = (number * 31 + ord(character)) & _MASK
    return (number & 0x7FFFFFFF) % BITS


def mulberry32(seed: int) -> Callable[[], float]:
    """The generator that abmind draws its planes from: numbers in [0, 1)."""
    state = seed & _MASK

    def draw() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) & _MASK
        mixed = ((state ^ (state >> 15)) * (1 | state)) & _MASK
        mixed = ((mixed + ((mixed ^ (mixed >> 7)) * (61 | mixed))) & _MASK) ^ mixed
        return ((mixed ^ (mixed >> 14)) & _MASK) / 2**32

    return draw


@cache
def planes() -> F32:
    """(bit, bucket): -1 or 1, drawn bit by bit."""
    draw = mulberry32(SEED)
    drawn = [-1.0 if draw() < 0.5 else 1.0 for _ in range(BITS * BITS)]
    return np.array(drawn, dtype=np.float32).reshape(BITS, BITS)


def sign_v1(texts: Sequence[str]) -> U8:
    """A row of 32 bytes a text; all zero where it holds no token."""
    held = [row * BITS + bucket(token) for row, text in enumerate(texts) for token in tokens(text)]
    flat = np.bincount(np.array(held, dtype=np.int64), minlength=len(texts) * BITS)
    counts: F32 = flat.astype(np.float32).reshape(len(texts), BITS)
    return np.packbits(counts @ planes().T > 0, axis=1, bitorder="little")


@lru_cache(maxsize=TERMS_KEPT)
def _plane(term: str) -> F32:
    """-1 or 1 a bit, from a hash of the term."""
    drawn = np.frombuffer(hashlib.blake2b(term.encode(), digest_size=BYTES).digest(), np.uint8)
    return np.unpackbits(drawn, bitorder="little").astype(np.float32) * 2.0 - 1.0


def sign_v2(terms: Sequence[str], weights: Mapping[str, float] | None = None) -> bytes:
    """The signature of a text's terms. ``weights`` says what a term tells (all alike without);
    equal sums are decided by the plane of the empty term, so that few words leave no gaps."""
    counted = Counter(terms)
    if not counted:
        return _EMPTY
    total: F32 = np.zeros(BITS, dtype=np.float32)
    for term in sorted(counted):  # the order of a sum may decide its last bits
        weight = 1.0 if weights is None else weights.get(term, 0.0)
        total += np.float32((1.0 + math.log(counted[term])) * weight) * _plane(term)
    set_bits = np.where(total == 0, _plane("") > 0, total > 0)
    return np.packbits(set_bits, bitorder="little").tobytes()


def similarities(rows: U8, one: bytes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """``1 - hamming / 256`` of each row with one signature."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    differing = np.bitwise_count(words ^ np.frombuffer(one, dtype=np.uint64))
    return 1.0 - differing.sum(axis=1, dtype=np.int64) / BITS


class StillSigning(Exception):
    """Some of the requested texts have no signature yet."""


class TextSignatures:
    """Signatures of numbered texts, made on first use and kept: 32 bytes a
    text, a pure function of the texts."""

    def __init__(self, sign: Callable[[Sequence[str]], U8]) -> None:
        self._sign = sign
        self._lock = threading.Lock()
        self._rows: U8 = np.empty((0, BYTES), dtype=np.uint8)
        self._signed = 0

    def rows(self, texts: Sequence[str], numbers: I32) -> U8:
        """The signatures of ``numbers``; ``texts`` are all there are, which only ever grow.

        Raises:
            StillSigning: there was too much to sign for one question; what was signed is kept.
        """
        wanted = int(numbers.max(initial=-1)) + 1
        last = min(wanted, self._signed + AT_ONCE)
        while self._signed < last:
            with self._lock:
                self._sign_more(texts, last)
        if self._signed < wanted:
            # How many there are is not said: not all of them are the asker's to read.
            raise StillSigning("signatures are still being made")
        return self._rows[numbers]

    def _sign_more(self, texts: Sequence[str], wanted: int) -> None:
        start = self._signed
        end = min(wanted, start + BLOCK)
        if end <= start:
            return
        if end > len(self._rows):
            room: U8 = np.zeros((max(end, 5 * start // 4), BYTES), dtype=np.uint8)
            room[:start] = self._rows[:start]
            self._rows = room
        self._rows[start:end] = self._sign(texts[start:end])
        self._signed = end


def signers(
    tokenize: Callable[[str], list[str]],
) -> dict[int, Callable[[Sequence[str]], U8]]:
    """How texts are signed, by version; ``tokenize`` cuts them for version 2."""

    def second(texts: Sequence[str]) -> U8:
        signed = b"".join(sign_v2(tokenize(without_stop_words(text))) for text in texts)
        return np.frombuffer(signed, dtype=np.uint8).reshape(len(texts), BYTES)

    return {1: sign_v1, 2: second}
