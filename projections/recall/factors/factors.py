"""Factors by name: pure functions from features to numbers, in [0, 1] unless their range differs.

A profile sets their order and mode: ``mul`` multiplies the score, ``add`` adds the factor times its
weight, ``boost`` adds the factor itself, and ``floor`` raises the score to it. Each sees only its
features.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64
from engramlog.projections.recall.factors import memory_factors as abmind
from engramlog.projections.recall.factors.features import Features, Need

Fraction = Annotated[float, Meta(ge=0, le=1)]
Terms = Annotated[int, Meta(ge=0, le=100_000)]


class Recency(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor + (1 - floor) * exp(-rate_per_day * age)``."""

    rate_per_day: Annotated[float, Meta(ge=0)] = 0.01
    floor: Fraction = 0.0


class Floor(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a fact without the quality; all of it gives 1."""

    floor: Fraction = 0.5


class Statement(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the value of a fact that only asks. The penalty applies in full up to
    ``whole_terms`` terms and ends at ``gone_terms``: a long message that ends in a question also
    states things. None applies it in full at any length."""

    floor: Fraction = 0.5
    whole_terms: Terms = 0
    gone_terms: Terms | None = None


class Substance(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the value of a fact without terms. ``terms``: the number of terms that gives 1;
    None compares each fact with the others."""

    floor: Fraction = 0.5
    terms: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class Speaker(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of an assistant's or a tool's words; all else has 1."""

    machine: Fraction = 0.75


class Unresolved(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a fact whose contradiction is unresolved; all others have 1. ``revised``: the
    value if only its own source disagrees; None if that is the same. ``outdated``: what is left of
    that if its own source states another value since."""

    unresolved: Fraction = 0.7
    revised: Fraction | None = None
    outdated: Fraction = 1.0


class Tier(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of facts in gardens and in quarantine gardens; all others have 1."""

    garden: Fraction = 1.0
    quarantine: Fraction = 0.2


class PerHop(Struct, frozen=True, forbid_unknown_fields=True):
    """The factor per derivation hop."""

    per_hop: Fraction = 0.9


class Confidence(Struct, frozen=True, forbid_unknown_fields=True):
    """``floor``: the value of a fact without any confidence."""

    floor: Fraction = 0.0


def _above(floor: float, share: F64) -> F64:
    """The floor for a share of 0, 1 for all."""
    return floor + (1.0 - floor) * share


def recency(features: Features, parameters: Recency) -> F64:
    """1 for a fact recorded at the Moment, falling exponentially to the floor."""
    fresh: F64 = np.exp(-parameters.rate_per_day * features.age_days)
    return _above(parameters.floor, fresh)


def confidence(features: Features, parameters: Confidence) -> F64:
    """The fact's confidence at the Moment, above the floor."""
    return _above(parameters.floor, features.confidence)


def access_frequency(features: Features, parameters: Floor) -> F64:
    """How often recalls returned the fact: log-normalised within the candidates, above the floor. 1
    for all if no recall ever returned any, so a fresh node ranks as without this factor."""
    most = int(features.access_count.max(initial=0))
    if most == 0:
        return np.ones(len(features.access_count))
    share = np.log1p(features.access_count.astype(np.float64)) / np.log1p(float(most))
    return _above(parameters.floor, share)


def contradiction(features: Features, parameters: Unresolved) -> F64:
    """Less than 1 if a visible sibling has another value."""
    value = np.where(features.contradicted, parameters.unresolved, 1.0)
    if parameters.revised is not None:
        value = np.where(features.revised, parameters.revised, value)
    return np.where(features.outdated, value * parameters.outdated, value)


def garden_tier(features: Features, parameters: Tier) -> F64:
    """The tier of the fact's garden."""
    tier = np.where(features.in_garden, parameters.garden, 1.0)
    return np.where(features.in_quarantine, parameters.quarantine, tier)


def source_trust(features: Features, parameters: Floor) -> F64:
    """``floor + (1 - floor) * t(source)``."""
    return _above(parameters.floor, features.source_trust)


def derivation(features: Features, parameters: PerHop) -> F64:
    """1 for an observed fact; ``per_hop`` to the power of the derivation depth for others."""
    return parameters.per_hop ** features.derivation_depth.astype(np.float64)


def statement(features: Features, parameters: Statement) -> F64:
    """1 for a fact that only states, the floor for one that only asks."""
    asking = features.asking
    if parameters.gone_terms is not None:
        reach = max(parameters.gone_terms - parameters.whole_terms, 1)
        asking = asking * ((parameters.gone_terms - features.terms) / reach).clip(0.0, 1.0)
    return 1.0 - (1.0 - parameters.floor) * asking


def substance(features: Features, parameters: Substance) -> F64:
    """How much a fact says: above the floor, n of ``terms`` for n terms, at most all. Without
    ``terms``: ``n / (n + average)`` divided by the highest, so the longest candidate has 1; the
    average is over the candidates."""
    if not len(features.terms):
        return np.ones(0)
    length = features.terms.astype(np.float64)
    if parameters.terms is None:
        share = length / (length + max(float(length.mean()), 1.0))
        share /= max(float(share.max()), 1e-9)
    else:
        share = np.minimum(length / parameters.terms, 1.0)
    return _above(parameters.floor, share)


def speaker(features: Features, parameters: Speaker) -> F64:
    """Less than 1 for a machine's words: people later ask for what people said of themselves, and
    replies repeat that at length."""
    machine = features.machine
    if machine is None:
        return np.ones(len(features.terms))
    return np.where(machine, parameters.machine, 1.0)


class Factor(Struct, frozen=True):
    """``compute(features, parameters)`` is in ``range`` (inclusive) for every fact and all
    parameters. ``needs``: features that are loaded only on demand."""

    parameters: type[Struct]
    compute: Callable[[Features, Any], F64]
    range: tuple[float, float] = (0.0, 1.0)
    needs: frozenset[Need] = frozenset()


_MEMORIES: frozenset[Need] = frozenset({"memories"})

FACTORS: dict[str, Factor] = {
    "recency": Factor(Recency, recency),
    "confidence": Factor(Confidence, confidence),
    "access_frequency": Factor(Floor, access_frequency),
    "contradiction": Factor(Unresolved, contradiction),
    "garden_tier": Factor(Tier, garden_tier),
    "source_trust": Factor(Floor, source_trust),
    "derivation": Factor(PerHop, derivation),
    "statement": Factor(Statement, statement),
    "substance": Factor(Substance, substance),
    "speaker": Factor(Speaker, speaker, needs=frozenset({"speakers"})),
    "emotion_additive": Factor(abmind.PerPoint, abmind.emotion_additive, (0.0, 0.5), _MEMORIES),
    "spacing": Factor(abmind.Spacing, abmind.spacing, (1.0, 2.0), _MEMORIES),
    "context": Factor(abmind.Likeness, abmind.context, (0.0, 0.3), _MEMORIES),
    "confirm_penalty": Factor(abmind.Unconfirmed, abmind.confirm_penalty),
    "quality": Factor(abmind.Quality, abmind.quality, (-1.0, 1.0), _MEMORIES),
    "uncited": Factor(abmind.Uncited, abmind.uncited, needs=_MEMORIES),
    "core_tier": Factor(abmind.Lifted, abmind.core_tier, (1.0, 2.0), _MEMORIES),
    "credibility": Factor(abmind.Credible, abmind.credibility, (1.0, 2.0), _MEMORIES),
    "age_fade": Factor(abmind.AgeFade, abmind.age_fade, needs=_MEMORIES),
    "strong_floor": Factor(abmind.Strong, abmind.strong_floor, (0.0, 2.0)),
    "refute_weak": Factor(abmind.Refuted, abmind.refute_weak, needs=frozenset({"cosine"})),
}

NAMED_STAGES = ("stage", "by")
"""Parameters of factors that name stages of their profile."""
