"""64-bit signatures of entities' names; names that share pairs of letters get similar ones."""

import threading
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display


class NameSignatures:
    """64-bit signatures of entities' last segments, made as entities appear."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)

    def of(self, entities: Interner) -> NDArray[np.uint64]:
        """The signatures of all current entities, by number."""
        with self._lock:
            known, count = len(self._made), len(entities)
            if known < count:
                fresh = [signature_of(entities.text(number)) for number in range(known, count)]
                self._made = np.concatenate([self._made, np.array(fresh, dtype=np.uint64)])
            return self._made[:count]


def signature_of(entity: str) -> int:
    """One bit for each pair of letters in the last segment of an entity."""
    text = f" {entity_display(entity)} "
    bits = 0
    for pair in pairwise(text):
        bits |= 1 << (crc32("".join(pair).encode()) & 63)
    return bits
