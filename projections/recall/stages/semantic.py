"""Likeness of meaning: the cosine of the query's vector with the survivors', exactly.

``score = (cosine - floor) / (1 - floor)`` for cosines above ``floor``. Facts that are to have
a vector and have none yet are left out, and the stage's outcome says how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta, Struct

from projections.recall.candidates import Candidates, StageDisabled

if TYPE_CHECKING:
    from projections.recall.survey import Survey

COMPARED_MIN = 6_000
"""Up to this many survivors are all compared exactly; of more, those that a sketch of the
vectors holds nearest, and at least ``COMPARED_SHARE`` of them."""
COMPARED_SHARE = 0.02


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the cosine that counts as no likeness at all."""

    floor: Annotated[float, Meta(ge=0, lt=1)] = 0.0


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

    def why(slot: int) -> list[str]:
        return [f"semantic: cosine {cosines[slots.searchsorted(slot)]:.3f} with the query"]

    return Candidates(
        slots,
        (cosines - parameters.floor) / (1.0 - parameters.floor),
        np.zeros(len(slots), dtype=np.int32),
        why,
        detail=f"partial: {missing} facts are not embedded yet" if missing else "",
    )
