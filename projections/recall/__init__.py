"""Recall: the facts that answer a question best, within a budget of tokens.

One pipeline for every system (``pipeline``); what differs between systems is a profile, a
document (``profile``, ``profiles/``). These are the public names.
"""

from projections.recall.answer import BREAKDOWN_KEYS, RecallAnswer, Recalled
from projections.recall.candidates import StageOutcome
from projections.recall.pipeline import recall
from projections.recall.profile import (
    Profile,
    ProfileError,
    UnknownProfile,
    load_profile,
    parse_profile,
    profile_names,
)
from projections.recall.request import RecallRequest, WeightsError, parse_weights

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
