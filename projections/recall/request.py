"""What a caller asks of recall, with every spelling of weights brought to one.

Limits of the wire (depth, budget, lengths) are checked by the API; here they are assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from engramlog.projections.recall.filters import Filters

Weights: TypeAlias = Mapping[str, float]
"""Canonical weight key to a weight in [0, 1]; keys the caller left open are absent."""

Intent: TypeAlias = Literal["ambient", "explicit"]

WEIGHT_KEYS = ("lexical", "semantic", "graph", "source_trust", "recency")
STAGE_KEYS = ("lexical", "semantic", "graph")
LIMIT = 100
"""Facts returned at most, by default."""
ALIASES = {"lex": "lexical", "vec": "semantic", "vector": "semantic"}
SEED_KEYS = frozenset({"lex", "lexical", "vec", "vector", "graph"})
SUM_TOLERANCE = 0.001


class WeightsError(ValueError):
    """Weights that cannot be used; ``code`` is the seed's name for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class WeightsSumError(WeightsError):
    """Weights under the seed's keys that do not sum to 1."""


class Situation(Struct, frozen=True, kw_only=True):
    """The asker's here and now, as far as the request says.

    Attributes:
        hour: of the day, 0 to 23, where the asker is.
        day_of_week: 0 is Sunday.
        topic: of the conversation.
        utc_offset_minutes: what to add to UTC for the asker's time of day.
    """

    hour: int | None = None
    day_of_week: int | None = None
    topic: str | None = None
    utc_offset_minutes: int = 0


class RecallRequest(Struct, frozen=True, kw_only=True):
    """One question. None means: as the profile says.

    Attributes:
        scopes: narrows the caller's readable scopes; None keeps them all.
        token_budget: tokens the packed facts may cost together.
        limit: most facts returned; None for as many as the profile says.
        depth: hops of graph expansion, 0 to 3; 0 disables the graph stage.
        weights: from ``parse_weights``.
        min_confidence: least effective confidence (confidence times source trust).
        include_neighbors: False disables the graph stage.
        include_low_trust: keep facts under the profile's low-trust threshold.
        entity: stored form; every fact of this entity is scored, and nothing but it and
            what the graph reaches from it.
        relation, source: only facts with exactly this label, or source in stored form.
        lambda_mmr: relevance against diversity, 1 is pure relevance.
        explain: report every number behind every score.
        force_refresh: wait, at most 500 ms, for the memory card of now.
        keywords: what to look for, in the language that is searched, each a phrase; empty
            where there is only the query.
        original: the question in the asker's own words, in any language.
        filters: beyond relation and source.
        stages: run only these, by name or label, and those that always run.
        situation: the asker's, for factors that compare facts with it.
        intent: the purpose (see ``intent``); None if not said.
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
    """Weights under canonical keys; unknown keys are ignored.

    A request in seed keys alone (``lex``/``lexical``, ``vec``/``vector``, ``graph``) must
    sum to 1 and leaves nothing open: a stage it does not name weighs 0. Any other request
    may sum to anything, 0 included, and keys it does not name stay the profile's.

    Raises:
        WeightsError: ``invalid_weights`` for a weight that is no number in [0, 1], one
            stage under two names, or seed keys whose sum is not 1 within 0.001.
    """
    weights: dict[str, float] = {}
    known = [key for key in given if key in ALIASES or key in WEIGHT_KEYS]
    for key in known:
        canonical = ALIASES.get(key, key)
        if canonical in weights:
            raise WeightsError("invalid_weights", f"weights name {canonical} twice")
        weights[canonical] = _weight(key, given[key])
    if known and SEED_KEYS.issuperset(known):
        total = math.fsum(weights.values())
        # The tolerance is widened by one part in 10^9 so that 0.999 itself is accepted.
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
