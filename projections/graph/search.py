"""What is called or says something: entities by name or alias, and facts by what they say.

For a reader who types: any part of a word is found, ignoring case and accents. Only what
the caller may read at the moment is looked at, so nothing else shows in an order or a count.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.entity_names import phrase_of, words_of
from engramlog.projections.columns.substring_index import strip_diacritics
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live_mask
from engramlog.projections.moment import Moment

PIECES_MAX = 8
"""Words of a text that are looked for; what comes after them is not."""
COMPARED_MAX = 2_000
"""Entities whose names are compared with the text to order them; of more, those with most facts."""


class NamedEntity(Struct, frozen=True):
    """An entity with its number of facts; ``alias`` where that is the name that was found."""

    entity: str
    facts: int
    alias: str | None


class SearchHits(Struct, frozen=True):
    """Entities, and slots of facts, the best first."""

    entities: list[NamedEntity]
    slots: I32


def search(
    view: View,
    authorization: Authorization,
    moment: Moment,
    text: str,
    aliases: Iterable[tuple[str, str]],
    limit: int,
) -> SearchHits:
    """At most ``limit`` entities and facts in which every word of ``text`` is found.

    ``aliases``: the live names at the moment, and the entities they mean.
    """
    pieces = strip_diacritics(text).split()[:PIECES_MAX]
    mask = live_mask(view, authorization, moment)
    mask[view.reserved_slots()] = False
    if not pieces:
        return SearchHits([], np.empty(0, dtype=np.int32))
    counts = np.bincount(view.entity[mask], minlength=len(view.entities))
    return SearchHits(
        _entities(view, counts, pieces, aliases, limit),
        _facts(view, moment, mask, pieces, limit),
    )


def _entities(
    view: View, counts: I64, pieces: list[str], aliases: Iterable[tuple[str, str]], limit: int
) -> list[NamedEntity]:
    held = counts > 0
    for piece in pieces:
        named = view.texts.entity_counts(piece)[: len(counts)] > 0
        held[len(named) :] = False
        held[: len(named)] &= named
    numbers = np.flatnonzero(held)
    if len(numbers) > COMPARED_MAX:
        most = np.argsort(-counts[numbers], kind="stable")[:COMPARED_MAX]
        numbers = numbers[most]
    found: dict[str, NamedEntity] = {}
    for number in numbers.tolist():
        entity = view.entities.text(number)
        found[entity] = NamedEntity(entity, int(counts[number]), None)
    names = {entity: entity for entity in found}
    for alias, entity in aliases:
        number = view.entities.number(entity)
        if number is None or entity in found or not number < len(counts) or not counts[number]:
            continue
        if all(piece in strip_diacritics(alias) for piece in pieces):
            found[entity] = NamedEntity(entity, int(counts[number]), alias)
            names[entity] = alias
    wanted = " ".join(words_of(" ".join(pieces)))
    best = sorted(found.values(), key=lambda each: _rank(names[each.entity], wanted, each.facts))
    return best[:limit]


def _rank(name: str, wanted: str, facts: int) -> tuple[int, int, int, str]:
    """The whole name first, then its beginning, then the beginning of a word, then the rest."""
    phrase = strip_diacritics(phrase_of(name))
    if phrase == wanted:
        place = 0
    elif phrase.startswith(wanted):
        place = 1
    elif f" {wanted}" in f" {phrase}":
        place = 2
    else:
        place = 3 if wanted in phrase else 4
    return (place, -facts if place == 0 else len(phrase), -facts, name)


def _facts(view: View, moment: Moment, mask: Bool, pieces: list[str], limit: int) -> I32:
    """Facts that hold every piece; those whose value alone holds them first, then the shorter."""
    said = mask.copy()
    for piece in pieces:
        mask = mask & (view.texts.counts(view, moment, "everything", piece) > 0)
        in_value = view.texts.value_counts(piece)
        said &= in_value[view.value] > 0
    slots = np.flatnonzero(mask).astype(np.int32)
    order = np.lexsort((-view.hlc[slots], view.length[slots], ~said[slots]))
    return slots[order[:limit]]
