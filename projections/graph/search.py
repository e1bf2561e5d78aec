"""Search as you type: entities by name or alias, and facts by text.

It finds any part of a word, ignoring case and accents. It reads only facts that the caller may read
at the moment, so no order or count reveals others.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.names.entity_names import phrase_of, words_of
from engramlog.projections.columns.substring_index import strip_diacritics
from engramlog.projections.graph.smallest_names import with_most
from engramlog.projections.image.fact_texts import PieceOfFacts
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live_mask
from engramlog.projections.moment import Moment

PIECES_MAX = 8
"""The most words of a text that are searched."""
COMPARED_MAX = 2_000
"""The most entities whose names are compared for ordering, those with the most facts; and the most
facts that are ordered, the newest."""
FIRST_LOOK = 4_096
"""Facts read first, the newest; then twice as many, until enough are found."""


class NamedEntity(Struct, frozen=True):
    """An entity with its number of facts; ``alias`` if that name was found."""

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
    """At most ``limit`` entities and facts that hold every word of ``text``. ``aliases``: the live
    names at the moment, and the entities they mean."""
    pieces = strip_diacritics(text).split()[:PIECES_MAX]
    if not pieces:
        return SearchHits([], np.empty(0, dtype=np.int32))
    mask = live_mask(view, authorization, moment)
    mask[view.reserved_slots()] = False
    held = [view.texts.holding(view, moment, piece) for piece in pieces]
    counts = np.bincount(view.entity[mask], minlength=len(view.entities))
    return SearchHits(
        _entities(view, counts, pieces, held, aliases, limit),
        _facts(view, np.flatnonzero(mask).astype(np.int32), held, limit),
    )


def _entities(
    view: View,
    counts: I64,
    pieces: list[str],
    held: list[PieceOfFacts],
    aliases: Iterable[tuple[str, str]],
    limit: int,
) -> list[NamedEntity]:
    """The entities whose name or alias holds every piece, best first; ``counts``: readable facts by
    entity number."""
    numbers = np.flatnonzero(counts).astype(np.int32)
    for each in held:
        numbers = numbers[each.entities(numbers)]
    entities: dict[str, NamedEntity] = {}
    for number in with_most(view.entities, numbers, counts[numbers], COMPARED_MAX).tolist():
        entity = view.entities.text(number)
        entities[entity] = NamedEntity(entity, int(counts[number]), None)
    names = {entity: entity for entity in entities}
    for alias, entity in aliases:
        number = view.entities.number(entity)
        if number is None or entity in entities or not number < len(counts) or not counts[number]:
            continue
        if all(piece in strip_diacritics(alias) for piece in pieces):
            entities[entity] = NamedEntity(entity, int(counts[number]), alias)
            names[entity] = alias
    wanted = " ".join(words_of(" ".join(pieces)))
    best = sorted(entities.values(), key=lambda each: _rank(names[each.entity], wanted, each.facts))
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


def _facts(view: View, slots: I32, held: list[PieceOfFacts], limit: int) -> I32:
    """Those of ``slots`` that hold every piece, of many the newest. Facts whose value alone holds
    all come first, then the shorter ones."""
    found = _newest(slots, held)
    said: Bool = np.ones(len(found), dtype=np.bool_)
    for each in held:
        said &= each.in_values(found)
    order = np.lexsort((-view.hlc[found], view.length[found], ~said))
    return found[order[:limit]]


def _newest(slots: I32, held: list[PieceOfFacts]) -> I32:
    """The newest ``COMPARED_MAX`` of ``slots`` that hold every piece. Reads few facts for a
    frequent piece, all for a rare one."""
    rows: list[I32] = []
    count, end, size = 0, len(slots), FIRST_LOOK
    rarest = list(held)
    while end > 0 and count < COMPARED_MAX:
        chosen = slots[max(0, end - size) : end]
        shares: list[tuple[float, int]] = []
        for n, each in enumerate(rarest):
            if not len(chosen):
                break
            before = len(chosen)
            chosen = chosen[each.anywhere(chosen)]
            shares.append((len(chosen) / before, n))
        if len(shares) == len(rarest):
            rarest = [rarest[n] for _, n in sorted(shares)]
        rows.append(chosen)
        count += len(chosen)
        end, size = end - size, 2 * size
    return np.concatenate(rows[::-1])[-COMPARED_MAX:] if rows else slots
