"""Similarity of meaning: the exact cosine of the query's vector with the survivors'.

``score = (cosine - floor) / (1 - floor)`` for cosines above ``floor``. If the profile has a
``context``, a fact's cosine is the greater of its own and that with its neighbours. With ``own``, a
share of the score is for what the fact alone says (see ``distinct``). Facts whose vector is still
missing are left to the other stages, and the stage's outcome gives their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F32, F64, I32, I64
from engramlog.projections.ascending import among
from engramlog.projections.embedding.vectors.in_memory import COSINE_DECIMALS
from engramlog.projections.recall.conversation.context import shares_of
from engramlog.projections.recall.conversation.conversations import (
    Windows,
    bounded,
    conversations,
    surroundings,
)
from engramlog.projections.recall.conversation.speakers import (
    PlainQuestion,
    question_vector,
    without_speakers,
)
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled, best_indices
from engramlog.projections.recall.stages.card_likeness import card_scores
from engramlog.projections.recall.stages.distinct import Own, distinct_cosines

if TYPE_CHECKING:
    from engramlog.projections.embedding.semantics import Semantics
    from engramlog.projections.recall.request_facts import Survey

COMPARED_MIN = 6_000
"""Up to this many survivors are all compared exactly. Of more, only those that a sketch of the
vectors ranks nearest are, at least ``COMPARED_SHARE`` of them."""
COMPARED_SHARE = 0.02


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the cosine that counts as no similarity. ``card_share``: how much of its entity's
    card's similarity a fact gets if its own is lower; 0 leaves cards out. ``threshold``: least
    cosine of a candidate, inclusive. ``name_share``: how much of the named speakers stays in the
    question's vector (see ``speakers``); None leaves the question unchanged. ``own``: the share of
    the score that a fact's distinct cosine decides, and how that is counted; None counts none."""

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    floor: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    card_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    name_share: Annotated[float, Meta(ge=0, le=1)] | None = None
    own: Own | None = None


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """Every survivor similar to the query, ascending by slot.

    Raises: StageDisabled: embeddings are off, no survivor has a vector yet, or the query is empty.
    EmbeddingError: the query could not be embedded.
    """
    semantics = survey.semantics
    if semantics is None:
        raise StageDisabled("embeddings are off")
    if not survey.request.query.strip():
        raise StageDisabled("the query is empty")
    slots = survey.confident(semantics.min_confidence)
    present = semantics.vectors.present(slots)
    missing = len(slots) - int(np.count_nonzero(present))
    asked = PlainQuestion(survey.request.query)
    if parameters.name_share is not None:
        asked = without_speakers(survey)
    query = question_vector(semantics, asked, parameters.name_share or 0.0)
    if missing == len(slots) > 0:
        raise StageDisabled("no fact is embedded yet")
    embedded, waiting = (slots[present], slots[~present]) if missing else (slots, None)
    compared = max(COMPARED_MIN, int(len(embedded) * COMPARED_SHARE))
    slots = embedded
    if len(slots) > compared:
        slots = slots[semantics.vectors.likely(query, slots, compared)]
    cosines, _ = semantics.vectors.cosines(query, slots)
    near_query = cosines
    if survey.context is not None:
        slots, cosines, near_query = _in_context(survey, semantics, query, embedded, slots, cosines)
    distinct = cosines
    if parameters.own is not None:
        distinct = distinct_cosines(survey, semantics, query, slots, cosines, parameters.own)
    near = (near_query > parameters.floor) & (near_query >= parameters.threshold)
    lent = (near_query > cosines)[near]
    slots, cosines, distinct = slots[near], near_query[near], distinct[near]

    def why(chosen: I32) -> list[list[str]]:
        at = slots.searchsorted(chosen)
        alone = "" if parameters.own is None else ", {:.3f} for what only it says"
        return [
            [
                f"semantic: cosine {cosine:.3f}{' in its context' if near else ''} with the query"
                + alone.format(own)
            ]
            for cosine, own, near in zip(
                cosines[at].tolist(), distinct[at].tolist(), lent[at].tolist(), strict=True
            )
        ]

    scores: F64 = (cosines - parameters.floor) / (1.0 - parameters.floor)
    if parameters.own is not None:
        scores = parameters.own.blended(scores, distinct, parameters.floor)
    details = [f"partial: {missing} facts are not embedded yet"] if missing else []
    if asked.names:
        details.append(f"the names {', '.join(asked.names)} count {parameters.name_share:g}")
    found = Candidates(
        slots,
        scores,
        np.zeros(len(slots), dtype=np.int32),
        why,
        detail="; ".join(details),
        ages=survey.view.ages,
        unjudged=waiting,
    )
    return _with_card_scores(survey, parameters, query, found) if parameters.card_share else found


def _in_context(
    survey: Survey, semantics: Semantics, query: F32, embedded: I32, slots: I32, cosines: F64
) -> tuple[I32, F64, F64]:
    """The compared slots and the embedded neighbours of the best of them, their cosines, and their
    cosines with context. With context, the best facts and their neighbours add shares of their
    neighbours' vectors to their own, if that gives a greater cosine."""
    context = survey.context
    assert context is not None
    best = slots[best_indices(cosines, context.pool, lambda at: survey.view.ages(slots[at]))]
    talk = conversations(survey, context, best)
    pool = surroundings(talk, context, best)
    pool = pool[among(pool, embedded)]
    others = pool[~among(pool, slots)]
    if len(others):
        besides, _ = semantics.vectors.cosines(query, others)
        slots = np.concatenate([slots, others])
        order = np.argsort(slots)
        slots, cosines = slots[order], np.concatenate([cosines, besides])[order]
    windows = talk.windows(pool, context)
    kept = bounded(survey.view.length[windows.members], context)
    product, length = _with_neighbours(windows, shares_of(context), kept, semantics, query)
    at = np.searchsorted(slots, pool)
    raised = cosines.copy()
    blended = np.round(product / np.maximum(length, 1e-9), COSINE_DECIMALS)
    raised[at] = np.where(length > 0.0, np.maximum(cosines[at], blended), cosines[at])
    return slots, cosines, raised


def _with_neighbours(
    windows: Windows, shares: Mapping[int, float], kept: F64, semantics: Semantics, query: F32
) -> tuple[F64, F64]:
    """For each fact's vector plus its neighbours' shares: the product with the query, and the
    length; both 0 for facts outside conversations. ``kept``: the factor that each member's length
    puts on the shares that it gets and gives.

    The sums themselves are never built: a few products of each vector with the next ones suffice,
    and all near facts share them.
    """
    rows, _ = semantics.vectors.rows(windows.members)
    count = len(rows)
    at = {step: _indices(windows.places + step, count) for step in (0, *shares)}
    known = _padded(kept, count)
    own = known[at[0]]
    weights = {n: share * own * known[at[n]] * windows.steps[n] for n, share in shares.items()}
    weights[0] = (windows.places < count).astype(np.float64)
    steps = sorted(weights)
    # Each row by itself: the last bits of a matrix product depend on the other rows.
    products = _padded(np.vecdot(rows, query), count)
    overlaps = [
        _padded(np.vecdot(rows[: max(0, count - apart)], rows[apart:]), count)
        for apart in range(steps[-1] - steps[0] + 1)
    ]
    product, squared = np.zeros(len(windows.places)), np.zeros(len(windows.places))
    for number, step in enumerate(steps):
        product += weights[step] * products[at[step]]
        squared += weights[step] ** 2 * overlaps[0][at[step]]
        for later in steps[number + 1 :]:
            overlap = overlaps[later - step][at[step]]
            squared += 2.0 * weights[step] * weights[later] * overlap
    return product, np.sqrt(np.maximum(squared, 0.0))


def _padded(values: F32 | F64, count: int) -> F64:
    """Values by place, with 0 before the first, and after the last up to ``count``."""
    padded = np.zeros(count + 2)
    padded[1 : 1 + len(values)] = values
    return padded


def _indices(places: I64, count: int) -> I64:
    """The indices of places in ``_padded`` of ``count``; places outside lead to a 0."""
    indices: I64 = np.minimum(np.maximum(places, -1), count) + 1
    return indices


def _with_card_scores(
    survey: Survey, parameters: Parameters, query: F32, found: Candidates
) -> Candidates:
    """``found``, with a share of their entity's card's similarity for facts whose own is lower."""
    about, likeness = card_scores(survey, query, parameters.floor)
    share = parameters.card_share * likeness
    slots = np.union1d(found.slots, about).astype(np.int32)
    own, given = np.zeros(len(slots)), np.zeros(len(slots))
    own[np.searchsorted(slots, found.slots)] = found.scores
    given[np.searchsorted(slots, about)] = share

    def why(chosen: I32) -> list[list[str]]:
        alone = among(chosen, found.slots)
        of_their_own = iter(found.why(chosen[alone]))
        reasons = [next(of_their_own) if each else [] for each in alone.tolist()]
        at = slots.searchsorted(chosen)
        for number in np.flatnonzero(given[at] > own[at]).tolist():
            entity = survey.view.entities.text(int(survey.view.entity[chosen[number]]))
            reasons[number].append(f"semantic: by the card of {entity}")
        return reasons

    hops = np.zeros(len(slots), dtype=np.int32)
    lifted = Candidates(slots, np.maximum(own, given), hops, why, found.detail, found.ages)
    return msgspec.structs.replace(lifted, unjudged=found.unjudged)
