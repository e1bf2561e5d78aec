"""Signatures of texts: 256 bits, similar for texts that share words.

Version 1 is abmind's, bit for bit: ASCII tokens in 256 buckets, planes of ±1 drawn by mulberry32
from seed 42, a bit set if the sum is above 0. Version 2 corrects its faults: terms as in search
without stop-words, a plane per term (BLAKE2b), repeated words weighted by ``1 + ln(frequency)``,
and ties decided by a separate plane.
"""

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from engramlog.projections.arrays import F32, I32, U8, grown
from engramlog.projections.text.stop_words import without_stop_words

BITS = 256
BYTES = BITS // 8
SEED = 42
TERMS_KEPT = 131_072
"""How many terms keep their bucket and plane in a cache."""
BLOCK = 4_096
"""Texts signed in one step; other threads run between steps."""
AT_ONCE = 65_536
"""Texts signed for one question at most, in about two seconds."""

_MASK = 0xFFFFFFFF
_TOKEN = re.compile(r"[a-z][a-z0-9_-]+", re.ASCII)
_EMPTY = bytes(BYTES)


def tokens(text: str) -> list[str]:
    """The tokens of version 1: ASCII words of at least two characters, with repeats."""
    return _TOKEN.findall(text.lower())


@lru_cache(maxsize=TERMS_KEPT)
def bucket(token: str) -> int:
    """``h = 31 h + code`` in 32 bits, without its sign, modulo 256."""
    number = 0
    for character in token:
        number = (number * 31 + ord(character)) & _MASK
    return (number & 0x7FFFFFFF) % BITS


def mulberry32(seed: int) -> Callable[[], float]:
    """abmind's generator for planes: numbers in [0, 1)."""
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
    """32 bytes per text; all zero for a text without tokens."""
    held = [row * BITS + bucket(token) for row, text in enumerate(texts) for token in tokens(text)]
    flat = np.bincount(np.array(held, dtype=np.int64), minlength=len(texts) * BITS)
    counts: F32 = flat.astype(np.float32).reshape(len(texts), BITS)
    return np.packbits(counts @ planes().T > 0, axis=1, bitorder="little")


@lru_cache(maxsize=TERMS_KEPT)
def _plane(term: str) -> F32:
    """-1 or 1 per bit, from a hash of the term."""
    drawn = np.frombuffer(hashlib.blake2b(term.encode(), digest_size=BYTES).digest(), np.uint8)
    return np.unpackbits(drawn, bitorder="little").astype(np.float32) * 2.0 - 1.0


def sign_v2(terms: Sequence[str], weights: Mapping[str, float] | None = None) -> bytes:
    """The signature of a text's terms. ``weights``: the weight of each term (default: equal). The
    plane of the empty term decides equal sums, so that few words leave no gaps."""
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
    """``1 - hamming / 256`` between each row and one signature."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    differing = np.bitwise_count(words ^ np.frombuffer(one, dtype=np.uint64))
    return 1.0 - differing.sum(axis=1, dtype=np.int64) / BITS


class StillSigning(Exception):
    """Some of the requested texts have no signature yet."""


class TextSignatures:
    """Signatures of numbered texts, made on first use and kept. Each is 32 bytes and depends only
    on its text."""

    def __init__(self, sign: Callable[[Sequence[str]], U8]) -> None:
        self._sign = sign
        self._lock = threading.Lock()
        self._rows: U8 = np.empty((0, BYTES), dtype=np.uint8)
        self._signed = 0

    def rows(self, texts: Sequence[str], numbers: I32) -> U8:
        """The signatures of ``numbers``. ``texts`` are all texts; they only grow. Raises
        StillSigning: the request needs too many new signatures at once; finished ones are kept."""
        wanted = int(numbers.max(initial=-1)) + 1
        last = min(wanted, self._signed + AT_ONCE)
        while self._signed < last:
            with self._lock:
                self._sign_more(texts, last)
        if self._signed < wanted:
            # No count in the message: the caller may not see every text behind it.
            raise StillSigning("signatures are still being made")
        return self._rows[numbers]

    def _sign_more(self, texts: Sequence[str], wanted: int) -> None:
        start = self._signed
        end = min(wanted, start + BLOCK)
        if end <= start:
            return
        if end > len(self._rows):
            self._rows = grown(self._rows[:start], max(end, 5 * start // 4))
        self._rows[start:end] = self._sign(texts[start:end])
        self._signed = end


def signers(tokenize: Callable[[str], list[str]]) -> dict[int, Callable[[Sequence[str]], U8]]:
    """The signing functions by version; ``tokenize`` splits texts for version 2."""

    def second(texts: Sequence[str]) -> U8:
        signed = b"".join(sign_v2(tokenize(without_stop_words(text))) for text in texts)
        return np.frombuffer(signed, dtype=np.uint8).reshape(len(texts), BYTES)

    return {1: sign_v1, 2: second}
