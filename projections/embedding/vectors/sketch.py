"""A sketch of unit vectors, one bit per dimension: which of very many may be near a query.

Two vectors at an angle differ in the sign of about ``angle / pi`` of their dimensions. Counting
differing signs ranks them roughly, at a thirtieth of the memory to read. The sketch only preselects
for exact comparison and never gives a score.
"""

import numpy as np

from engramlog.projections.arrays import F32, I64, U16, U64

WORD_BITS = 64
_SUM_WORDS = 3
"""Words whose differing bits one byte can count."""


def words_of(dimensions: int) -> int:
    """64-bit words per vector's signs."""
    return -(-dimensions // WORD_BITS)


def signs(rows: F32) -> U64:
    """The signs of each row, packed: one column per row, one line per word."""
    count, dimensions = rows.shape
    bits = np.zeros((count, words_of(dimensions) * WORD_BITS), dtype=np.bool_)
    np.greater(rows, 0.0, out=bits[:, :dimensions])
    packed: U64 = np.packbits(bits, axis=1).view(np.uint64)
    return np.ascontiguousarray(packed.T)


def differing(held: U64, query: U64) -> U16:
    """In how many signs each column differs from the query's one column."""
    count = held.shape[1]
    total: U16 = np.zeros(count, dtype=np.uint16)
    word: U64 = np.empty(count, dtype=np.uint64)
    bits = np.empty(count, dtype=np.uint8)
    for first in range(0, len(held), _SUM_WORDS):
        subtotal = np.zeros(count, dtype=np.uint8)
        for line in range(first, min(first + _SUM_WORDS, len(held))):
            np.bitwise_xor(held[line], query[line, 0], out=word)
            np.bitwise_count(word, out=bits)
            subtotal += bits
        total += subtotal
    return total


def nearest(differences: U16, count: int) -> I64:
    """Indices of the ``count`` smallest differences, ascending, with all ties of the last."""
    if len(differences) <= count:
        return np.arange(len(differences), dtype=np.int64)
    limit = np.partition(differences, count - 1)[count - 1]
    return np.flatnonzero(differences <= limit)
