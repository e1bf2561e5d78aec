"""What factors look at: one array a property, in the order of the candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from projections.arrays import F64, I32, I64, Bool
from projections.recall.lineage import derivation_depth

if TYPE_CHECKING:
    from projections.recall.survey import Survey

DAY_US = 86_400_000_000


class Features(Struct, frozen=True):
    """Of each candidate at the Moment. ``age_days`` is never negative; ``derivation_depth``
    counts hops to what was not derived (see ``lineage``), ``terms`` are those of the lexicon,
    ``asking`` is the share of the value in questions, in [0, 1]."""

    age_days: F64
    confidence: F64
    source_trust: F64
    access_count: I64
    contradicted: Bool
    in_garden: Bool
    derivation_depth: I64
    in_quarantine: Bool
    terms: I32
    asking: F64


def load_features(survey: Survey, slots: I32) -> Features:
    """The features of ``slots``, each read once."""
    view, moment = survey.view, survey.moment
    age_us = np.maximum(moment.instant_us - view.recorded_at[slots], 0)
    return Features(
        age_days=age_us / DAY_US,
        confidence=view.confidence(slots, moment),
        source_trust=view.trust(slots, moment),
        access_count=view.access_count(slots, moment),
        contradicted=view.contradicted(slots, moment, survey.authorization),
        in_garden=view.garden[slots] >= 0,
        derivation_depth=derivation_depth(survey, slots),
        in_quarantine=view.in_quarantine(slots),
        terms=view.length[slots],
        asking=view.asking[slots] / 100.0,
    )
