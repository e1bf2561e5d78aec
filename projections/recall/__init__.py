"""Recall: the facts that answer a question best, within a budget of tokens.

All systems share one pipeline (``pipeline``). They differ only in their profile, a document
(``profile``, ``profiles/``). These are the public names.
"""

from engramlog.projections.recall.answer import RecallAnswer, Recalled
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import (
    Profile,
    ProfileError,
    UnknownProfile,
    load_profile,
    parse_profile,
    profile_names,
)
from engramlog.projections.recall.ranking.breakdown import BREAKDOWN_KEYS
from engramlog.projections.recall.request import RecallRequest, WeightsError, parse_weights
from engramlog.projections.recall.stages.candidates import StageOutcome

__all__ = [
    "BREAKDOWN_KEYS",
    "Profile",
    "ProfileError",
    "RecallAnswer",
    "RecallRequest",
    "Recalled",
    "StageOutcome",
    "UnknownProfile",
    "WeightsError",
    "load_profile",
    "parse_profile",
    "parse_weights",
    "profile_names",
    "recall",
]
