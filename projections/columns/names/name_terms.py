"""The terms of names: which of an interner's texts hold a term, and how many terms each has.

Built on the first request, because not every node needs it; afterwards it only grows. Safe from any
thread.
"""

import threading
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from engramlog.projections.arrays import I32


class NameTerms:
    """See the module. ``names_from(n)`` are the names from number n on."""

    def __init__(
        self, names_from: Callable[[int], Sequence[str]], tokenize: Callable[[str], list[str]]
    ) -> None:
        self._names_from = names_from
        self._tokenize = tokenize
        self._holding: dict[str, array[int]] = {}
        self._lengths: array[int] = array("i")
        self._lock = threading.Lock()

    def frequencies(self, term: str, count: int) -> I32:
        """How often each of the first ``count`` names holds the term, by number."""
        with self._lock:
            self._read_on()
            numbers = np.array(self._holding.get(term, ()), dtype=np.int64)
        return np.bincount(numbers[numbers < count], minlength=count).astype(np.int32)

    def lengths(self, count: int) -> I32:
        """How many terms each of the first ``count`` names has, by number."""
        with self._lock:
            self._read_on()
            return np.array(self._lengths[:count], dtype=np.int32)

    def _read_on(self) -> None:
        for name in self._names_from(len(self._lengths)):
            terms = self._tokenize(name)
            for term in terms:
                self._holding.setdefault(term, array("i")).append(len(self._lengths))
            self._lengths.append(len(terms))
