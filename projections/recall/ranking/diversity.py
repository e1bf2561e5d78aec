"""Which candidate comes next: by score alone, or by maximal marginal relevance (seed §20.3.4).

A chooser proposes one candidate at a time. Packing answers with ``take`` or ``reject``, so only
packed facts count as selected.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32, F64, I32, Bool
from engramlog.projections.embedding.vectors.in_memory import COSINE_DECIMALS

TOKENS_MAX = 256
"""Distinct tokens of one text that similarity compares."""


class Chooser(Protocol):
    """Proposes indices of candidates, best first, each at most once."""

    def propose(self) -> int | None:
        """The next candidate, or None when all were answered."""
        ...

    def take(self, index: int) -> None:
        """The proposed candidate was packed."""
        ...

    def reject(self, index: int) -> None:
        """The proposed candidate was not packed; it is not offered again."""
        ...


class Similarity(Protocol):
    """Similarity within a list of candidates."""

    def to(self, index: int) -> F64:
        """The similarity of every candidate to one of them, in [0, 1]."""
        ...


class Material(Struct, frozen=True):
    """The input of similarities: the terms of each candidate, its unit vector if ``embedded`` (None
    if no candidate is), and its ``words``, split at spaces."""

    terms: Collection[Sequence[str]]
    vectors: F32 | None = None
    embedded: Bool | None = None
    words: Collection[Sequence[str]] = ()


class ByScore:
    """Candidates in the given order (already sorted)."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    def propose(self) -> int | None:
        return self._next if self._next < self._count else None

    def take(self, index: int) -> None:
        self._next = index + 1

    reject = take


class Crowding(Struct, frozen=True):
    """``number``: of each candidate's conversation, -1 for none. A taken candidate lowers the
    others of its conversation by ``penalty``."""

    number: I32
    penalty: float

    def beside(self, index: int) -> F64:
        """What taking a candidate costs each."""
        same = (self.number == self.number[index]) & (self.number >= 0)
        return np.where(same, self.penalty, 0.0)


class ByMarginalRelevance:
    """``argmax of lambda * score - (1 - lambda) * max similarity to the taken``. Among equals it
    proposes the first candidate. Candidates after ``firsts`` are proposed only when no earlier one
    is left. ``crowding`` lowers the others of a taken fact's conversation."""

    def __init__(
        self,
        scores: F64,
        similarity: Similarity,
        lambda_mmr: float,
        firsts: int | None = None,
        crowding: Crowding | None = None,
    ) -> None:
        self._relevance = lambda_mmr * scores
        self._penalty_weight = 1.0 - lambda_mmr
        self._similarity = similarity
        self._crowding = crowding
        self._nearest: F64 = np.zeros(len(scores))
        self._left = len(scores)
        self._firsts = len(scores) if firsts is None else firsts
        self._firsts_left = self._firsts

    def propose(self) -> int | None:
        if self._left == 0:
            return None
        marginal = self._relevance - self._penalty_weight * self._nearest
        if self._firsts_left:
            marginal = marginal[: self._firsts]
        return int(marginal.argmax())

    def take(self, index: int) -> None:
        self.reject(index)
        np.maximum(self._nearest, self._similarity.to(index), out=self._nearest)
        if self._crowding is not None:
            self._relevance -= self._crowding.beside(index)

    def reject(self, index: int) -> None:
        self._relevance[index] = -np.inf
        self._left -= 1
        self._firsts_left -= index < self._firsts


class Jaccard:
    """Shared tokens over all tokens of two texts; two empty texts have similarity 0."""

    def __init__(self, material: Material) -> None:
        texts = material.terms
        distinct = [list(dict.fromkeys(text))[:TOKENS_MAX] for text in texts]
        numbers = {token: number for number, token in enumerate(set(chain(*distinct)))}
        self._tokens = [list(map(numbers.__getitem__, tokens)) for tokens in distinct]
        self._size = np.array([len(tokens) for tokens in self._tokens], dtype=np.int64)
        # Token-major: the shared counts of a candidate are a sum of a few short rows.
        self._held = np.zeros((len(numbers), len(texts)), dtype=np.uint8)
        everything = np.fromiter(chain(*self._tokens), dtype=np.int64)
        self._held[everything, np.repeat(np.arange(len(texts)), self._size)] = 1

    def to(self, index: int) -> F64:
        shared = self._held[self._tokens[index]].sum(axis=0, dtype=np.int64)
        return shared / np.maximum(self._size + self._size[index] - shared, 1)


class Cosine:
    """Cosine of two vectors, 0 if negative; Jaccard if one of them has no vector."""

    def __init__(self, material: Material) -> None:
        none = np.zeros(len(material.terms), dtype=np.bool_)
        self._embedded = none if material.embedded is None else material.embedded
        # Splitting texts into terms costs more than everything else: only for missing vectors.
        self._words = None if self._embedded.all() else Jaccard(material)
        self._rows = material.vectors

    def to(self, index: int) -> F64:
        if self._rows is None or not self._embedded[index]:
            return np.empty(0) if self._words is None else self._words.to(index)
        # Each row by itself: the last bits of a matrix product depend on the other rows.
        cosines: F64 = np.vecdot(self._rows, self._rows[index]).astype(np.float64)
        # Same as ``clip``, without its costly checks of arguments.
        cosines = np.minimum(np.maximum(cosines, 0.0), 1.0).round(COSINE_DECIMALS)
        if self._words is None:
            return cosines
        return np.where(self._embedded, cosines, self._words.to(index))


def jaccard_of_words(material: Material) -> Similarity:
    """Jaccard over space-separated words, in lower case (abmind's seed)."""
    return Jaccard(Material(material.words))


SIMILARITIES: dict[str, Callable[[Material], Similarity]] = {
    "jaccard": Jaccard,
    "jaccard_words": jaccard_of_words,
    "cosine": Cosine,
}
