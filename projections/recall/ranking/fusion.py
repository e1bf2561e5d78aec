"""Fusion: candidates of all stages as one set with one score each.

The weights of stages that did not complete go to the others in proportion. If a stage cannot judge
a fact yet, its weight for that fact goes to the stages that judge facts by themselves.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.ascending import among, distinct, places
from engramlog.projections.recall.stages.candidates import Candidates


class Fused(Struct, frozen=True):
    """``slots`` ascending. By stage, in that order: raw and normalised scores (0 for facts that the
    stage did not propose). ``hops``: the graph's, for facts that it proposed. ``session``: the best
    score of each fact's conversation, None without conversations. ``unjudged``, by stage: facts
    that it could not judge; their normalised score there comes from the other stages."""

    slots: I32
    raw: dict[str, F64]
    normalised: dict[str, F64]
    hops: I32
    score: F64
    session: F64 | None = None
    unjudged: dict[str, Bool] = {}


def by_maximum(scores: F64) -> F64:
    """Scores divided by the highest: the best is 1, and ratios stay."""
    return scores / scores.max() if len(scores) else scores


def by_range(scores: F64) -> F64:
    """Scores stretched so that the lowest is 0 and the highest 1; 1 for all where equal."""
    if not len(scores):
        return scores
    low, high = float(scores.min()), float(scores.max())
    return np.ones(len(scores)) if high == low else (scores - low) / (high - low)


class FusionChoice(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How normalised stage scores become one.

    Attributes:
        weighted: whether stages count by their weights (scaled to sum to 1) or each fully.
        offset: added to ranks: a higher offset makes the first places less special.
        base: the rank of the first place.
        fixed: stages whose own score counts in place of a rank if no other found the fact.
    """

    name: str = "weighted_sum"
    normalisation: str = "max"
    weighted: bool = True
    offset: Annotated[int, Meta(ge=1, le=1000)] = 60
    base: Literal[0, 1] = 1
    fixed: tuple[str, ...] = ()


BY_WEIGHT = FusionChoice()
NORMALISATIONS: dict[str, Callable[[F64], F64]] = {"max": by_maximum, "minmax": by_range}


def redistribute(
    weights: Mapping[str, float],
    completed: Collection[str],
    fallback: Mapping[str, float],
    adding: Collection[str] = (),
) -> dict[str, float]:
    """The weights of ``completed`` stages and ``adding`` factors, scaled to sum to 1. If the caller
    gave all those stages 0, ``fallback`` (the profile's own weights) is scaled instead; if that is
    0 too, all stages count alike."""
    alike = dict.fromkeys(completed, 1.0)
    for source in (weights, fallback, alike):
        if sum(source.get(name, 0.0) for name in completed) > 0:
            kept = {name: source.get(name, 0.0) for name in sorted({*completed, *adding})}
            total = sum(kept.values())
            return {name: weight / total for name, weight in kept.items()}
    return dict.fromkeys(adding, 0.0)


def weighted_sum(
    stages: Mapping[str, Candidates],
    weights: Mapping[str, float],
    normalise: Callable[[F64], F64],
    always: I32,
    _choice: FusionChoice = BY_WEIGHT,
) -> Fused:
    """``sum of weight * normalised score`` over the facts of every stage with a weight, and the
    facts in ``always``."""
    counted = [hits.slots for name, hits in stages.items() if weights[name] > 0]
    slots: I32 = distinct(np.concatenate([always, *counted]))
    score: F64 = np.zeros(len(slots))
    raw: dict[str, F64] = {}
    normalised: dict[str, F64] = {}
    hops = np.zeros(len(slots), dtype=np.int32)
    for name, hits in stages.items():
        at, found = _common_places(slots, hits.slots)
        raw[name], normalised[name] = np.zeros(len(slots)), np.zeros(len(slots))
        raw[name][at] = hits.scores[found]
        normalised[name][at] = normalise(hits.scores)[found] * _share_of_whole(hits)
        hops[at] = np.maximum(hops[at], hits.hops[found])
    unjudged = _unjudged(slots, stages, raw)
    if unjudged:
        none = np.zeros(len(slots), dtype=np.bool_)
        judged = {name: ~unjudged.get(name, none) for name in stages if not stages[name].builds_on}
        vouched = _weighted_mean(normalised, weights, judged, len(slots))
        for name, missing in unjudged.items():
            normalised[name][missing] = vouched[missing]
    for name in stages:
        score += weights[name] * normalised[name]
    return Fused(slots, raw, normalised, hops, score, unjudged=unjudged)


def reciprocal_ranks(
    stages: Mapping[str, Candidates],
    weights: Mapping[str, float],
    normalise: Callable[[F64], F64],
    always: I32,
    choice: FusionChoice = BY_WEIGHT,
) -> Fused:
    """``sum of weight / (offset + rank)`` over the stages that proposed a fact, scaled so that a
    fact ranked first by every stage has 1. Equal scores rank by age, the older first.

    Source: the Stargraph seed's fusion of retrievers. ``normalised`` is as in ``weighted_sum``;
    here it only informs.
    """
    if not choice.weighted:
        weights = dict.fromkeys(stages, 1.0)
    plain = weighted_sum(stages, weights, normalise, always)
    score: F64 = np.zeros(len(plain.slots))
    places: dict[str, F64] = {}
    first = choice.offset + choice.base
    for name, hits in stages.items():
        if name in choice.fixed:
            continue
        at, found = _common_places(plain.slots, hits.slots)
        order = np.lexsort((*hits.ages(hits.slots), -hits.scores))
        ranks: F64 = np.empty(len(order))
        ranks[order] = np.arange(len(order))
        places[name] = np.zeros(len(plain.slots))
        places[name][at] = first / (first + ranks[found])
        score += weights[name] * places[name]
    ranked = {name: each > 0 for name, each in places.items() if not stages[name].builds_on}
    vouched = _weighted_mean(places, weights, ranked, len(plain.slots))
    for name in plain.unjudged.keys() & places.keys():
        score += np.where(plain.unjudged[name], weights[name] * vouched, 0.0)
    for name in choice.fixed:
        if name in plain.raw:
            score = np.where(score > 0, score, plain.raw[name])
    return msgspec.structs.replace(plain, score=score)


def by_priority(
    stages: Mapping[str, Candidates],
    _weights: Mapping[str, float],
    normalise: Callable[[F64], F64],
    always: I32,
    _choice: FusionChoice = BY_WEIGHT,
) -> Fused:
    """The raw score of the first stage that proposed a fact; later stages' scores do not count
    (abmind's seed, "Deduplication"). ``normalised`` only informs."""
    plain = weighted_sum(stages, dict.fromkeys(stages, 1.0), normalise, always)
    score: F64 = np.zeros(len(plain.slots))
    for name in stages:
        score = np.where(score > 0, score, plain.raw[name])
    return msgspec.structs.replace(plain, score=score)


def _share_of_whole(hits: Candidates) -> float:
    """How much the best of them counts, in [0, 1]."""
    highest = float(hits.scores.max(initial=0.0))
    return 1.0 if highest >= hits.whole else highest / hits.whole


def _unjudged(
    slots: I32, stages: Mapping[str, Candidates], raw: Mapping[str, F64]
) -> dict[str, Bool]:
    """By stage, the ``slots`` that it could not judge and did not find by other means."""
    waiting = {name: hits.unjudged for name, hits in stages.items() if hits.unjudged is not None}
    return {name: among(slots, some) & (raw[name] == 0) for name, some in waiting.items()}


def _weighted_mean(
    scores: Mapping[str, F64], weights: Mapping[str, float], counted: Mapping[str, Bool], size: int
) -> F64:
    """The weighted mean of the stages that count for a fact; 0 if none does."""
    total, weight = np.zeros(size), np.zeros(size)
    for name, counts in counted.items():
        total += np.where(counts, weights[name] * scores[name], 0.0)
        weight += np.where(counts, weights[name], 0.0)
    return np.divide(total, weight, out=np.zeros(size), where=weight > 0)


def _common_places(slots: I32, wanted: I32) -> tuple[I64, I64]:
    """Indices into ``slots`` and into ``wanted`` of their common slots."""
    at, shared = places(slots, wanted)
    return at[shared], shared.nonzero()[0]


Fusion = Callable[
    [
        Mapping[str, Candidates],
        Mapping[str, float],
        Callable[[F64], F64],
        I32,
        FusionChoice,
    ],
    Fused,
]
FUSIONS: dict[str, Fusion] = {
    "weighted_sum": weighted_sum,
    "rrf": reciprocal_ranks,
    "priority": by_priority,
}
