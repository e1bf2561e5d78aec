"""Similarity of meaning: the exact cosine of the query's vector with the survivors'.

``score = (cosine - floor) / (1 - floor)`` for cosines above ``floor``, which is lower where no fact
is near the query (``FLOOR_SHARE``). If the profile has a ``context``, a fact's cosine is the
greater of its own and that with its neighbours. With ``own``, a share of the score is for what the
fact alone says (``distinct_cosines``). Facts without a vector are left to the other stages, and the
stage's outcome gives their number.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F32, F64, I32, I64
from engramlog.projections.ascending import among
from engramlog.projections.ascending import places as places_in
from engramlog.projections.cards.inputs import slots_of_key
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.in_memory import COSINE_DECIMALS
from engramlog.projections.normalization import SCOPES
from engramlog.projections.recall.conversation.conversations import surroundings
from engramlog.projections.recall.conversation.shares import Shares, shares
from engramlog.projections.recall.conversation.speakers import PlainQuestion, question_vector
from engramlog.projections.recall.conversation.subject_names import without_names
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled, best_indices
from engramlog.projections.tables.facts.cards import CardKey

COMPARED_MIN = 6_000
"""Up to this many survivors are all compared exactly. Of more, only those that a sketch of the
vectors ranks nearest are, at least ``COMPARED_SHARE`` of them."""
COMPARED_SHARE = 0.02
FLOOR_SHARE = 2 / 3
"""The floor is at most this share of the highest cosine: even where no fact is near, some are
nearer."""
LIKE_MIN = 0.01
"""The best score where no cosine is above the profile's floor."""
LENGTH_MIN = 1e-3
"""The least length of a vector without the common part."""


class Own(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``share``: of the score that the distinct cosine decides. ``common``: how much of the mean is
    taken off. ``nearest``: how many facts the mean is of."""

    share: Annotated[float, Meta(ge=0, lt=1)]
    common: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    nearest: Annotated[int, Meta(ge=1, le=5000)] = 300

    def blended(self, scores: F64, distinct: F64, floor: float) -> F64:
        """``scores`` with the share of the distinct cosines. The floor shrinks as cosines do."""
        floor *= 1.0 - self.common
        alone = np.maximum((distinct - floor) / (1.0 - floor), 0.0)
        return (1.0 - self.share) * scores + self.share * alone


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the cosine that counts as no similarity. ``card_share``: how much of its entity's
    card's similarity a fact gets if its own is lower; 0 leaves cards out. ``threshold``: least
    cosine of a candidate, inclusive. ``name_share``: how much of the names of speakers and subjects
    stays in the question's vector (see ``speakers``, ``subject_names``); None leaves the question
    unchanged. ``own``: the share of the score that a fact's distinct cosine decides, and how that
    is counted; None counts none."""

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    floor: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    card_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    name_share: Annotated[float, Meta(ge=0, le=1)] | None = None
    own: Own | None = None


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """Every survivor similar to the query, ascending by slot. Raises StageDisabled: embeddings are
    off, no survivor has a vector yet, the query is empty, or the model does not know its script.
    EmbeddingError: the query could not be embedded."""
    semantics = survey.semantics
    if semantics is None:
        raise StageDisabled("embeddings are off")
    if not survey.request.query.strip():
        raise StageDisabled("the query is empty")
    if not semantics.reads(survey.request.query):
        raise StageDisabled("the embedding model does not know the script of the query")
    slots = survey.confident(semantics.min_confidence)
    present = semantics.vectors.present(slots)
    missing = len(slots) - int(np.count_nonzero(present))
    asked = PlainQuestion(survey.request.query)
    if parameters.name_share is not None:
        asked = without_names(survey)
    query = question_vector(semantics, asked, parameters.name_share or 0.0)
    if missing == len(slots) > 0:
        raise StageDisabled("no fact is embedded yet")
    embedded, waiting = (slots[present], slots[~present]) if missing else (slots, None)
    compared = max(COMPARED_MIN, int(len(embedded) * COMPARED_SHARE))
    slots = embedded
    if len(slots) > compared:
        slots = slots[semantics.vectors.likely(query, slots, compared)]
    products = semantics.vectors.products(query, slots)
    near_query = cosines = np.round(products, COSINE_DECIMALS)
    if survey.context is not None:
        slots, cosines, near_query = _in_context(
            survey, semantics, query, embedded, slots, products
        )
    distinct = cosines
    if parameters.own is not None:
        distinct = distinct_cosines(survey, semantics, query, slots, cosines, parameters.own)
    nearest = float(near_query.max(initial=0.0))
    floor = min(parameters.floor, FLOOR_SHARE * nearest)
    near = (near_query > floor) & (near_query >= parameters.threshold)
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

    scores: F64 = (cosines - floor) / (1.0 - floor)
    if parameters.own is not None:
        scores = parameters.own.blended(scores, distinct, floor)
    if 0.0 < floor < parameters.floor:  # the best one keeps its score
        like = (nearest - parameters.floor) / (1.0 - parameters.floor)
        scores *= max(like, LIKE_MIN) * (1.0 - floor) / (nearest - floor)
    details = [f"partial: {missing} facts are not embedded yet"] if missing else []
    if asked.names:
        details.append(f"the names {', '.join(asked.names)} count {parameters.name_share:g}")
    candidates = Candidates(
        slots,
        scores,
        np.zeros(len(slots), dtype=np.int32),
        why,
        detail="; ".join(details),
        ages=survey.view.ages,
        unjudged=waiting,
    )
    return (
        _with_card_scores(survey, parameters, query, candidates)
        if parameters.card_share
        else candidates
    )


def _in_context(
    survey: Survey, semantics: Semantics, query: F32, embedded: I32, slots: I32, products: F64
) -> tuple[I32, F64, F64]:
    """The compared slots and the embedded neighbours of the best of them, their cosines, and their
    cosines with context, given the slots' ``products`` with the query. With context, the best facts
    and their neighbours add shares of their neighbours' vectors to their own, if that gives a
    greater cosine."""
    context = survey.context
    assert context is not None
    cosines = np.round(products, COSINE_DECIMALS)
    best = slots[best_indices(cosines, context.pool, lambda at: survey.view.ages(slots[at]))]
    given = shares(survey, context, best)
    pool = surroundings(given.talk, context, best)
    pool = pool[among(pool, embedded)]
    others = pool[~among(pool, slots)]
    if len(others):
        besides = semantics.vectors.products(query, others)
        slots = np.concatenate([slots, others])
        order = np.argsort(slots)
        slots, products = slots[order], np.concatenate([products, besides])[order]
        cosines = np.round(products, COSINE_DECIMALS)
    places, inside = given.talk.places(pool)
    places, pool = places[inside], pool[inside]
    if not len(pool):
        return slots, cosines, cosines
    product = _with_neighbours(given, places, semantics, query, slots, products)
    length = given.blended_lengths(semantics, places)
    at = np.searchsorted(slots, pool)
    raised = cosines.copy()
    blended = np.round(product / np.maximum(length, 1e-9), COSINE_DECIMALS)
    raised[at] = np.where(length > 0.0, np.maximum(cosines[at], blended), cosines[at])
    return slots, cosines, raised


def _with_neighbours(
    given: Shares, places: I64, semantics: Semantics, query: F32, slots: I32, products: F64
) -> F64:
    """The product of the query with each fact's vector plus its neighbours' shares. The facts are
    at ``places``; ``products``: those of ``slots``, which need not hold all neighbours."""
    steps = sorted((0, *given.steps))
    near = given.talk.stretch(np.sort(places), -steps[0], steps[-1])
    members = given.talk.members[near]
    at, known = places_in(slots, members)
    own_products = np.where(known, products[at], 0.0)
    if not known.all():
        others = members[~known]
        order = np.argsort(others)
        besides = np.empty(len(others))
        besides[order] = semantics.vectors.products(query, others[order])
        own_products[~known] = besides
    shares_at = given.at(places)
    here = near.searchsorted(places)
    product = np.zeros(len(places))
    for step in steps:
        values = own_products.take(here + step, mode="clip")
        product += values if step == 0 else shares_at[given.steps.index(step)] * values
    return product


def _with_card_scores(
    survey: Survey, parameters: Parameters, query: F32, candidates: Candidates
) -> Candidates:
    """With a share of their entity's card's similarity for facts whose own is lower."""
    about, likeness = card_scores(survey, query, parameters.floor)
    share = parameters.card_share * likeness
    slots = np.union1d(candidates.slots, about).astype(np.int32)
    own_scores, lent = np.zeros(len(slots)), np.zeros(len(slots))
    own_scores[np.searchsorted(slots, candidates.slots)] = candidates.scores
    lent[np.searchsorted(slots, about)] = share

    def why(chosen: I32) -> list[list[str]]:
        alone = among(chosen, candidates.slots)
        of_their_own = iter(candidates.why(chosen[alone]))
        reasons = [next(of_their_own) if each else [] for each in alone.tolist()]
        at = slots.searchsorted(chosen)
        for number in np.flatnonzero(lent[at] > own_scores[at]).tolist():
            entity = survey.view.entities.text(int(survey.view.entity[chosen[number]]))
            reasons[number].append(f"semantic: by the card of {entity}")
        return reasons

    hops = np.zeros(len(slots), dtype=np.int32)
    lifted = Candidates(
        slots, np.maximum(own_scores, lent), hops, why, candidates.detail, candidates.ages
    )
    return msgspec.structs.replace(lifted, unjudged=candidates.unjudged)


CARDS_MAX = 100
"""The most similar cards that raise scores of their entity's facts."""


def card_scores(survey: Survey, query: F32, floor: float) -> tuple[I32, F64]:
    """Survivors about entities with a similar card, ascending by slot, and ``(cosine - floor) / (1
    - floor)`` of that card with the question.

    Only cards with survivors of this request in their entity, scope and garden count, and only
    those for readers with the caller's ceiling: another card may show facts that the caller may not
    read. And only in live questions: a card's vector is of its present text.
    """
    semantics, view, moment = survey.semantics, survey.view, survey.moment
    score_of: dict[int, float] = {}
    present = moment.position == view.position and moment.valid_at_us is None
    if semantics is None or semantics.cards is None or not present:
        return _sorted(score_of)
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
            score_of[slot] = score
    return _sorted(score_of)


def _sorted(score_of: dict[int, float]) -> tuple[I32, F64]:
    slots: I32 = np.array(sorted(score_of), dtype=np.int32)
    return slots, np.array([score_of[slot] for slot in slots.tolist()], dtype=np.float64)


def distinct_cosines(
    survey: Survey, semantics: Semantics, query: F32, slots: I32, cosines: F64, own: Own
) -> F64:
    """What each of ``slots`` alone says: its cosine without what the nearest facts share.

    Facts of one memory resemble each other in manner and topic, and a question resembles what they
    share. So their mean vector is taken off in part.

    ``(c - common * m) / |v - common * mean|`` for a fact ``v`` with the cosine ``c``, where
    ``mean`` is that of the ``nearest`` facts and ``m`` its product with the question. A fact that
    is not among them counts as if it resembled the mean as they do on average.
    """
    if not len(slots):
        return cosines
    best = best_indices(cosines, own.nearest, lambda at: survey.view.ages(slots[at]))
    rows = semantics.vectors.rows(slots[best])[0].astype(np.float64)
    mean: F64 = rows.mean(axis=0)
    squared = float(np.vecdot(mean, mean))
    likeness = np.full(len(slots), squared)
    # Each row by itself: the last bits of a matrix product depend on the other rows.
    likeness[best] = np.vecdot(rows, mean)
    length = np.sqrt(1.0 - 2.0 * own.common * likeness + own.common**2 * squared)
    left = cosines - own.common * float(np.vecdot(mean, query.astype(np.float64)))
    return np.round(left / np.maximum(length, LENGTH_MIN), COSINE_DECIMALS)
