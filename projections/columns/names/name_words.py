"""The words of names: which of an interner's names hold a word."""

import threading
from array import array
from collections.abc import Sequence
from functools import reduce

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display


class NameWords:
    """The numbers of names by each word of their display name. Built on the first request, because
    not every node needs it; afterwards it only grows. Safe from any thread."""

    def __init__(self, names: Interner) -> None:
        self._names = names
        self._holding: dict[str, array[int]] = {}
        self._read = 0
        self._lock = threading.Lock()

    def numbers(self, words: Sequence[str]) -> I32:
        """The names with all of these ``words_of`` a text, ascending; none without words."""
        with self._lock:
            for number in range(self._read, len(self._names)):
                for each in set(words_of(entity_display(self._names.text(number)))):
                    self._holding.setdefault(each, array("i")).append(number)
            self._read = len(self._names)
            lists = [np.array(self._holding.get(word, ()), dtype=np.int32) for word in words]
        return reduce(np.intersect1d, lists) if lists else np.empty(0, dtype=np.int32)
