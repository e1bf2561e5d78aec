"""The terms of facts' values, without those of entity and relation.

The searched text has entity path, relation and value as one; this subtracts the terms of the two
names.
"""

import threading
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.columns.fact_columns import ColumnView
from engramlog.projections.interner import Interner
from engramlog.projections.text.terms import uri_path


class NameTerms:
    """Which of an interner's texts hold a term, and how many terms each has. Built on the first
    request, because not every node needs it; afterwards it only grows. Safe from any thread.
    ``names_from(n)`` are the names from number n on."""

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


class ContentTerms:
    """Terms of values; see the module."""

    def __init__(
        self, entities: Interner, relations: Interner, tokenize: Callable[[str], list[str]]
    ) -> None:
        self._entities = NameTerms(
            lambda start: [uri_path(each) for each in entities.since(start)], tokenize
        )
        self._relations = NameTerms(relations.since, tokenize)

    def postings(
        self, view: ColumnView, term: str, slots: I32, frequencies: I32
    ) -> tuple[I32, I32]:
        """(slots, frequencies) of the facts whose values hold a term, given those of the facts that
        hold it at all."""
        of_entity = self._entities.frequencies(term, len(view.entities))
        of_relation = self._relations.frequencies(term, len(view.relations))
        said = frequencies - of_entity[view.entity[slots]] - of_relation[view.relation[slots]]
        held = said > 0
        return slots[held], said[held]

    def lengths(self, view: ColumnView) -> I32:
        """By slot: the terms of each value."""
        of_entity = self._entities.lengths(len(view.entities))[view.entity]
        return view.length - of_entity - self._relations.lengths(len(view.relations))[view.relation]
