"""Vectors of bare texts, which show whether two memories mean the same (abmind A12).

They are made before a write is queued and kept in memory alone: the writer compares existing ones
and never calls a model. Each memory's vector is made first, so of two memories stored at once the
second finds the first one's.
"""

from collections.abc import Sequence

import numpy as np

from engramlog.projections.arrays import F32
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.embedding.cache import text_key
from engramlog.projections.embedding.embedder import UncachedEmbedder

KEPT_MAX = 2048
"""Vectors kept, 3 MB of 384 dimensions."""
UNKNOWN = -1.0
DIGITS = 6
"""Cosines are rounded as in recall."""


class ContentVectors:
    """Vectors by text. Safe from several threads."""

    def __init__(self, embedder: UncachedEmbedder) -> None:
        self._embedder = embedder
        self._rows = Remembered(KEPT_MAX)

    def make(self, texts: Sequence[str]) -> None:
        """Make the vectors of texts that the model can read; keeps the most recently used. Raises
        EmbeddingError if the provider does not answer."""
        keys = {text_key(text): text for text in texts if self._embedder.reads(text)}
        missing = {key: text for key, text in keys.items() if self._rows.get(key) is None}
        if missing:
            rows = self._embedder.uncached(list(missing.values()))
            for key, row in zip(missing, rows, strict=True):
                self._rows.put(key, row)

    def vector(self, text: str) -> F32 | None:
        return self._rows.get(text_key(text))

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        """See ``memory_rules.Likeness``."""
        mine = self.vector(text)
        if mine is None:
            return [UNKNOWN] * len(others)
        rows = [self.vector(other) for other in others]
        return [UNKNOWN if row is None else _cosine(mine, row) for row in rows]

    def forget_all(self) -> None:
        """Drop all after an erasure; needed ones are made again."""
        self._rows.clear()


def _cosine(one: F32, other: F32) -> float:
    dot = np.dot(one.astype(np.float64), other.astype(np.float64))
    return round(float(dot), DIGITS)
