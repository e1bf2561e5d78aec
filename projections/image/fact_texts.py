"""The texts of facts for searches letter by letter (abmind's two trigram tables).

Content: value and keywords. Original: the user's own words. Anywhere: entity path, relation and
content. Facts share names and values, so each is stored once.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal

import numpy as np

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.arrays import I32, Bool
from engramlog.projections.columns.fact_columns import ColumnView
from engramlog.projections.columns.growing_dict import present_entries
from engramlog.projections.columns.substring_index import (
    Folded,
    Holding,
    occurrences,
    strip_diacritics,
)
from engramlog.projections.interner import Interner
from engramlog.projections.moment import Moment
from engramlog.projections.text.terms import uri_path

Which = Literal["content", "original"]
History = dict[int, list[tuple[int, "FactAttributes"]]]


class OwnTexts:
    """One attribute of the facts that have it, in the order of its first setting. Later settings
    are read one by one."""

    def __init__(self, attributes: History, name: Literal["keywords", "original"]) -> None:
        self._attributes = attributes
        self._name = name
        self._entries: list[tuple[int, int]] = []
        self.folded = Folded(self.texts_from)

    def texts_from(self, start: int) -> list[str]:
        fresh = list(islice(present_entries(self._attributes).items(), start, None))
        self._entries += [(slot, history[0][0]) for slot, history in fresh]
        return [getattr(history[0][1], self._name) for _, history in fresh]

    def by_slot(
        self, view: ColumnView, moment: Moment, numbers: I32, measure: Callable[[str], int]
    ) -> I32:
        """``numbers`` of the entries as a column by slot, as of the moment. ``measure`` computes
        the number of one folded text."""
        column = np.zeros(view.count, dtype=np.int32)
        if not len(numbers):
            return column
        entries = np.array(self._entries[: len(numbers)], dtype=np.int64)
        held = (numbers > 0) & (entries[:, 1] <= moment.position) & (entries[:, 0] < view.count)
        column[entries[held, 0]] = numbers[held]
        for slot, history in present_entries(self._attributes).items():
            if len(history) > 1 and slot < view.count:
                standing = [each for at, each in history if at <= moment.position]
                text = getattr(standing[-1], self._name) if standing else ""
                column[slot] = measure(strip_diacritics(text))
        return column


class PieceOfFacts:
    """Which facts and entities hold a piece; only requested ones are searched."""

    def __init__(
        self,
        view: ColumnView,
        own: I32 | None,
        entities: Holding,
        relations: Holding,
        said: Holding,
    ) -> None:
        self._view = view
        self._own = own
        self._entities = entities
        self._relations = relations
        self._said = said

    def entities(self, numbers: I32) -> Bool:
        """Whether the path of each entity holds it."""
        return self._entities[numbers]

    def in_values(self, slots: I32) -> Bool:
        """Whether the value of each fact holds it."""
        return self._said[self._view.value[slots]]

    def anywhere(self, slots: I32) -> Bool:
        """Whether the path, the relation, the value or the keywords of each fact hold it."""
        held = self.in_values(slots)
        for part, column in (
            (self._entities, self._view.entity),
            (self._relations, self._view.relation),
        ):
            rest = np.flatnonzero(~held)
            held[rest] = part[column[slots[rest]]]
        return held if self._own is None else held | (self._own[slots] > 0)


class FactTexts:
    """Searches in the texts of facts; see the module."""

    def __init__(
        self,
        entities: Interner,
        relations: Interner,
        said: Sequence[str],
        attributes: History,
    ) -> None:
        self._entities = Folded(lambda start: [uri_path(each) for each in entities.since(start)])
        self._relations = Folded(relations.since)
        self._said = Folded(lambda start: said[start:])
        self._keywords = OwnTexts(attributes, "keywords")
        self._original = OwnTexts(attributes, "original")

    def counts(self, view: ColumnView, moment: Moment, which: Which, piece: str) -> I32:
        """By slot: how often the fact's texts hold a folded piece, as of the moment."""
        own = self._original if which == "original" else self._keywords
        numbers = own.folded.counts(piece)
        counts = own.by_slot(view, moment, numbers, lambda text: occurrences(piece, text))
        if which == "content" and (numbers := self._said.counts(piece)).any():
            counts += numbers[view.value]
        return counts

    def holding(self, view: ColumnView, moment: Moment, piece: str) -> PieceOfFacts:
        """Which facts and entities hold a folded piece, as of the moment."""
        numbers = self._keywords.folded.counts(piece)
        own = None
        if numbers.any():
            own = self._keywords.by_slot(
                view, moment, numbers, lambda text: occurrences(piece, text)
            )
        parts = (self._entities, self._relations, self._said)
        return PieceOfFacts(view, own, *(part.holding(piece) for part in parts))

    def lengths(self, view: ColumnView, moment: Moment, which: Which) -> I32:
        """By slot: bytes of the fact's folded texts, as of the moment."""
        own = self._original if which == "original" else self._keywords
        lengths = own.by_slot(view, moment, own.folded.lengths(), lambda text: len(text.encode()))
        if which == "content":
            lengths += self._said.lengths()[view.value]
        return lengths
