"""Likeness of meaning: the cosine of the query's vector with every survivor's, exactly.

``score = (cosine - floor) / (1 - floor)`` for cosines above ``floor``. Where the profile has a
``context``, a fact's cosine is its own or that with its neighbours, the greater.
Facts that are to have a vector and have none yet are left out, and the stage's outcome says
how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta, Struct

from projections.arrays import F32, F64, I32
from projections.embedding.vectors import COSINE_DECIMALS
from projections.recall.candidates import Candidates, StageDisabled, best_indices
from projections.recall.context import conversations, surroundings

if TYPE_CHECKING:
    from projections.embedding.semantics import Semantics
    from projections.recall.survey import Survey


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
    slots = survey.survivors
    confidence = survey.view.confidence(slots, survey.moment)
    slots = slots[confidence > semantics.min_confidence]
    query = semantics.query(survey.request.query)
    cosines, present = semantics.cosines(query, slots)
    missing = int(np.count_nonzero(~present))
    if missing == len(slots) > 0:
        raise StageDisabled("no fact is embedded yet")
    slots, cosines = slots[present], cosines[present]
    near_query, lent = cosines, np.zeros(len(slots), dtype=np.bool_)
    if survey.context is not None:
        near_query = _in_context(survey, semantics, query, slots, cosines)
        lent = near_query > cosines
    near = near_query > parameters.floor
    slots, cosines, lent = slots[near], near_query[near], lent[near]

    def why(slot: int) -> list[str]:
        at = np.searchsorted(slots, slot)
        where = " in its context" if lent[at] else ""
        return [f"semantic: cosine {cosines[at]:.3f}{where} with the query"]

    return Candidates(
        slots,
        (cosines - parameters.floor) / (1.0 - parameters.floor),
        np.zeros(len(slots), dtype=np.int32),
        why,
        detail=f"partial: {missing} facts are not embedded yet" if missing else "",
    )


def _in_context(survey: Survey, semantics: Semantics, query: F32, slots: I32, cosines: F64) -> F64:
    """The cosines, but of the best facts and their neighbours that of the fact's vector plus
    shares of its neighbours' with the query, where it is the greater of the two."""
    context = survey.context
    assert context is not None
    best = slots[best_indices(cosines, context.pool)]
    talk = conversations(survey, context, best)
    pool: I32 = np.intersect1d(surroundings(talk, context, best), slots, assume_unique=True)
    around = talk.around(pool, context)
    wanted = surroundings(talk, context, pool)
    rows, _ = semantics.rows(wanted)
    total = rows[np.searchsorted(wanted, pool)]
    for share, near in around:
        found = near >= 0
        total[found] += np.float32(share) * rows[np.searchsorted(wanted, near[found])]
    # Each row by itself: a product's last bits would depend on which others there are.
    length: F64 = np.sqrt(np.einsum("ij,ij->i", total, total, dtype=np.float64))
    product: F64 = np.einsum("ij,j->i", total, query, dtype=np.float64)
    at = np.searchsorted(slots, pool)
    raised = cosines.copy()
    raised[at] = np.maximum(
        cosines[at], np.round(product / np.maximum(length, 1e-9), COSINE_DECIMALS)
    )
    return raised
