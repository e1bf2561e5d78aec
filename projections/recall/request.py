"""A recall request, with every spelling of weights normalised.

The API checks the wire's limits (depth, budget, lengths); this module assumes them.
"""

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from engramlog.projections.recall.filters import Filters

Weights: TypeAlias = Mapping[str, float]
"""Canonical weight key to a weight in [0, 1]; unset keys are absent."""

Intent: TypeAlias = Literal["ambient", "explicit"]

WEIGHT_KEYS = ("lexical", "semantic", "graph", "source_trust", "recency")
STAGE_KEYS = ("lexical", "semantic", "graph")
LIMIT = 100
"""Facts returned at most, by default."""
ALIASES = {"lex": "lexical", "vec": "semantic", "vector": "semantic"}
SEED_KEYS = frozenset({"lex", "lexical", "vec", "vector", "graph"})
KNOWN_WEIGHTS = frozenset({*ALIASES, *WEIGHT_KEYS})
SUM_TOLERANCE = 0.001


class WeightsError(ValueError):
    """Weights that cannot be used; ``code`` is the seed's name for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class WeightsSumError(WeightsError):
    """Weights under the seed's keys that do not sum to 1."""


class Situation(Struct, frozen=True, kw_only=True):
    """The caller's present situation, if the request gives it.

    Attributes:
        hour: of the day, 0 to 23, at the caller's place.
        day_of_week: 0 is Sunday.
        topic: of the conversation.
        utc_offset_minutes: what to add to UTC for the caller's time of day.
    """

    hour: int | None = None
    day_of_week: int | None = None
    topic: str | None = None
    utc_offset_minutes: int = 0


class RecallRequest(Struct, frozen=True, kw_only=True):
    """One question. None means: as in the profile.

    Attributes:
        scopes: narrows the caller's readable scopes; None keeps them all.
        token_budget: tokens that the packed facts may cost together.
        limit: most facts returned; None for the profile's limit.
        depth: hops of graph expansion, 0 to 3; 0 disables the graph stage.
        weights: from ``parse_weights``.
        min_confidence: least effective confidence (confidence times source trust).
        include_neighbors: False disables the graph stage.
        include_low_trust: keep facts under the profile's low-trust threshold.
        entity: stored form; scores every fact of this entity, and only those and the facts that
            the graph reaches from it.
        relation, source: only facts with exactly this label, or source in stored form.
        lambda_mmr: relevance against diversity, 1 is pure relevance.
        explain: report every number behind every score.
        force_refresh: wait, at most 500 ms, for a fresh memory card.
        keywords: phrases to search for, in the facts' language; empty to use the query alone.
        original: the question in the caller's own words, in any language.
        filters: beyond relation and source.
        stages: run only these, by name or label, and those that always run.
        situation: the caller's, for factors that compare facts with it.
        intent: the purpose (see ``intent``); None if not given.
    """

    query: str
    scopes: frozenset[str] | None = None
    token_budget: int = 4000
    limit: int | None = None
    depth: int | None = None
    weights: Weights | None = None
    min_confidence: float | None = None
    include_neighbors: bool = True
    include_contradicted: bool | None = None
    include_low_trust: bool = False
    entity: str | None = None
    relation: str | None = None
    source: str | None = None
    lambda_mmr: float | None = None
    explain: bool = False
    force_refresh: bool = False
    profile: str = "default"
    keywords: tuple[str, ...] = ()
    original: str = ""
    filters: Filters = Filters()
    stages: frozenset[str] | None = None
    situation: Situation = Situation()
    intent: Intent | None = None


def parse_weights(given: Mapping[str, object]) -> Weights:
    """Weights under canonical keys; ignores unknown keys.

    A request with seed keys alone (``lex``/``lexical``, ``vec``/``vector``, ``graph``) must sum to
    1, and a stage it does not name weighs 0. Any other request may sum to anything, 0 included, and
    unnamed keys keep the profile's weight. Raises WeightsError ``invalid_weights`` for a weight
    that is not a number in [0, 1], one stage under two names, or seed keys whose sum is not 1
    within 0.001.
    """
    weights: dict[str, float] = {}
    known = [key for key in given if key in KNOWN_WEIGHTS]
    for key in known:
        canonical = ALIASES.get(key, key)
        if canonical in weights:
            raise WeightsError("invalid_weights", f"weights name {canonical} twice")
        weights[canonical] = _weight(key, given[key])
    if known and SEED_KEYS.issuperset(known):
        total = math.fsum(weights.values())
        # One part in 10^9 more tolerance, so that 0.999 itself is accepted.
        if abs(total - 1.0) > SUM_TOLERANCE + 1e-9:
            raise WeightsSumError(
                "invalid_weights", f"weights sum to {total:.6g}, must sum to 1 within 0.001"
            )
        return {key: weights.get(key, 0.0) for key in STAGE_KEYS}
    return weights


def _weight(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WeightsError("invalid_weights", f"weight {key} must be a number")
    if not 0.0 <= value <= 1.0:
        raise WeightsError("invalid_weights", f"weight {key} is {value}, must be in [0, 1]")
    return float(value)
