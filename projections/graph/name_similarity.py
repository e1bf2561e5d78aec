"""Similar names: the entities, among those that a caller knows, that a name might mean.

Entities are compared by their last segment (``entity_display``); a shared place before it adds a
little. A signature of letter pairs selects the few for exact comparison.
"""

from difflib import SequenceMatcher

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.names.name_signatures import signature_of
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.interner import Interner
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import entity_display

COMPARED_MAX = 2000
ELSEWHERE = 0.9
"""Factor for a name in another place (authority and type)."""
SCORE_DIGITS = 4
COMPARED_CHARS_MAX = 64
"""The beginnings that are compared: the time grows with the product of two names' lengths."""
NOT_EQUAL_MAX = 1.0 - 10.0**-SCORE_DIGITS


class Like(Struct, frozen=True):
    """An entity and its similarity, in [0, 1]."""

    entity: str
    score: float


def entities_seen(view: View, authorization: Authorization, moment: Moment) -> I32:
    """Numbers of the entities that readable live facts are about or point at."""
    slots = live(view, authorization, moment)
    objects = view.object[slots]
    found = np.union1d(view.entity[slots], objects[objects >= 0])
    return found.astype(np.int32)


def names_like(
    name: str,
    entities: Interner,
    seen: I32,
    signatures: NDArray[np.uint64],
    *,
    threshold: float,
    limit: int,
) -> list[Like]:
    """Entities of ``seen`` other than ``name`` that score ``threshold`` and more, best first."""
    if not limit or not len(seen):
        return []
    shared = np.bitwise_count(signatures[seen] & np.uint64(signature_of(name)))
    texts = _closest(entities, seen, shared)
    scored = (Like(text, likeness(name, text)) for text in texts if text != name)
    kept = [each for each in scored if each.score >= threshold]
    return sorted(kept, key=lambda each: (-each.score, each.entity))[:limit]


def _closest(entities: Interner, seen: I32, shared: NDArray[np.uint8]) -> list[str]:
    """At most ``COMPARED_MAX`` names that share the most pairs. Ties go by name, so that hidden
    facts never decide which names are compared."""
    if len(seen) <= COMPARED_MAX:
        return entities.texts(seen.tolist())
    least = int(np.partition(shared, len(shared) - COMPARED_MAX)[len(shared) - COMPARED_MAX])
    above = entities.texts(seen[shared > least].tolist())
    ties = sorted(entities.texts(seen[shared == least].tolist()))
    return above + ties[: COMPARED_MAX - len(above)]


def likeness(one: str, other: str) -> float:
    """The similarity of two names, in [0, 1]; 1 only for equal ones."""
    display, shown = entity_display(one), entity_display(other)
    begun, meant = display[:COMPARED_CHARS_MAX], shown[:COMPARED_CHARS_MAX]
    ratio = SequenceMatcher(None, begun, meant, autojunk=False).ratio()
    if display != shown:
        ratio = min(ratio, NOT_EQUAL_MAX)
    same_place = one.removesuffix(display) == other.removesuffix(shown)
    return round(ratio * (1.0 if same_place else ELSEWHERE), SCORE_DIGITS)
