"""Likeness of meaning: the cosine of the query's vector with the survivors', exactly.

``score = (cosine - floor) / (1 - floor)`` for cosines above ``floor``. Facts that are to have
a vector and have none yet are left out, and the stage's outcome says how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta, Struct

from projections.arrays import F32, F64, I32
from projections.recall.candidates import Candidates, StageDisabled
from projections.recall.stages.card_likeness import card_scores

if TYPE_CHECKING:
    from projections.recall.survey import Survey

COMPARED_MIN = 6_000
"""Up to this many survivors are all compared exactly; of more, those that a sketch of the
vectors holds nearest, and at least ``COMPARED_SHARE`` of them."""
COMPARED_SHARE = 0.02


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the cosine that counts as no likeness at all. ``card_share``: how much of the
    likeness of its entity's memory card a fact gets where it has less itself; 0 leaves cards
    out."""

    floor: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    card_share: Annotated[float, Meta(ge=0, le=1)] = 0.0


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """Every survivor that is like the query, ascending by slot.

    Raises:
        StageDisabled: there are no embeddings, none of the survivors has one yet, or the
            query says nothing.
        EmbeddingError: the query could not be embedded.
    """
    semantics = survey.semantics
    if semantics is None:
        raise StageDisabled("embeddings are off")
    if not survey.request.query.strip():
        raise StageDisabled("the query is empty")
    slots = survey.confident(semantics.min_confidence)
    present = semantics.present(slots)
    missing = len(slots) - int(np.count_nonzero(present))
    query = semantics.query(survey.request.query)
    if missing == len(slots) > 0:
        raise StageDisabled("no fact is embedded yet")
    if missing:
        slots = slots[present]
    compared = max(COMPARED_MIN, int(len(slots) * COMPARED_SHARE))
    if len(slots) > compared:
        slots = slots[semantics.likely(query, slots, compared)]
    cosines, present = semantics.cosines(query, slots)
    near = present & (cosines > parameters.floor)
    slots, cosines = slots[near], cosines[near]
    scores: F64 = (cosines - parameters.floor) / (1.0 - parameters.floor)
    found = Candidates(
        slots,
        scores,
        np.zeros(len(slots), dtype=np.int32),
        lambda slot: [f"semantic: cosine {_at(slots, cosines, slot):.3f} with the query"],
        detail=f"partial: {missing} facts are not embedded yet" if missing else "",
    )
    return _lifted(survey, parameters, query, found) if parameters.card_share else found


def _lifted(survey: Survey, parameters: Parameters, query: F32, found: Candidates) -> Candidates:
    """``found`` with the share that facts have in the likeness of their entity's card, where
    that is more than their own."""
    about, likeness = card_scores(survey, query, parameters.floor)
    share = parameters.card_share * likeness
    slots = np.union1d(found.slots, about).astype(np.int32)
    own, given = np.zeros(len(slots)), np.zeros(len(slots))
    own[np.searchsorted(slots, found.slots)] = found.scores
    given[np.searchsorted(slots, about)] = share

    def why(slot: int) -> list[str]:
        reasons = found.why(slot) if _holds(found.slots, slot) else []
        if _at(slots, given, slot) > _at(slots, own, slot):
            entity = survey.view.entities.text(int(survey.view.entity[slot]))
            reasons = [*reasons, f"semantic: by the card of {entity}"]
        return reasons

    return Candidates(
        slots, np.maximum(own, given), np.zeros(len(slots), dtype=np.int32), why, found.detail
    )


def _at(slots: I32, numbers: F64, slot: int) -> float:
    return float(numbers[np.searchsorted(slots, slot)])


def _holds(slots: I32, slot: int) -> bool:
    at = int(np.searchsorted(slots, slot))
    return at < len(slots) and int(slots[at]) == slot
