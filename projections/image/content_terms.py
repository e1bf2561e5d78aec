"""The terms of facts' values, without those of entity and relation.

The lexicon reads entity path, relation and value as one text; this subtracts the terms of the two
names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from engramlog.projections.arrays import I32
from engramlog.projections.columns.names.name_terms import NameTerms
from engramlog.projections.text.terms import uri_path

if TYPE_CHECKING:
    from engramlog.projections.interner import Interner


class Lexicon(Protocol):
    """Columns and posting lists of the lexicon."""

    entity: I32
    relation: I32
    length: I32
    entities: Interner
    relations: Interner

    def postings(self, term: str) -> tuple[I32, I32]: ...


class ContentTerms:
    """Terms of values; see the module."""

    def __init__(
        self, entities: Interner, relations: Interner, tokenize: Callable[[str], list[str]]
    ) -> None:
        self._entities = NameTerms(
            lambda start: [uri_path(each) for each in entities.since(start)], tokenize
        )
        self._relations = NameTerms(relations.since, tokenize)

    def postings(self, view: Lexicon, term: str) -> tuple[I32, I32]:
        """(slots, frequencies) of the facts whose values hold a term."""
        slots, frequencies = view.postings(term)
        of_entity = self._entities.frequencies(term, len(view.entities))
        of_relation = self._relations.frequencies(term, len(view.relations))
        said = frequencies - of_entity[view.entity[slots]] - of_relation[view.relation[slots]]
        held = said > 0
        return slots[held], said[held]

    def lengths(self, view: Lexicon) -> I32:
        """By slot: the terms of each value."""
        of_entity = self._entities.lengths(len(view.entities))[view.entity]
        return view.length - of_entity - self._relations.lengths(len(view.relations))[view.relation]
