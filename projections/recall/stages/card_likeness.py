"""Similarity to a whole entity: the cosine of the question with its memory card.

Only cards with survivors of this request in their entity, scope and garden count, and only those
for readers with the caller's ceiling: another card may show facts that the caller may not read. And
only in live questions: a card's vector is of its present text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import F32, F64, I32
from engramlog.projections.cards.inputs import slots_of_key
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.facts.cards import CardKey

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey

CARDS_MAX = 100
"""The most similar cards that raise scores of their entity's facts."""


def card_scores(survey: Survey, query: F32, floor: float) -> tuple[I32, F64]:
    """Survivors about entities with a similar card, ascending by slot, and ``(cosine - floor) / (1
    - floor)`` of that card."""
    semantics, view, moment = survey.semantics, survey.view, survey.moment
    found: dict[int, float] = {}
    present = moment.position == view.position and moment.valid_at_us is None
    if semantics is None or semantics.cards is None or not present:
        return _sorted(found)
    count, ceiling = 0, survey.authorization.ceiling
    for key, cosine in semantics.cards.nearest(query, floor):
        if count >= CARDS_MAX:
            break
        if key != CardKey(key.entity, key.scope, key.garden).of(ceiling):
            continue
        slots = slots_of_key(view, key)
        slots = slots[survey.survivor_mask[slots]]
        slots = slots[view.scope[slots] == SCOPES.index(key.scope)]
        count += bool(len(slots))
        score = (cosine - floor) / (1.0 - floor)
        for slot in slots.tolist():
            found[slot] = score
    return _sorted(found)


def _sorted(found: dict[int, float]) -> tuple[I32, F64]:
    slots: I32 = np.array(sorted(found), dtype=np.int32)
    return slots, np.array([found[slot] for slot in slots.tolist()], dtype=np.float64)
