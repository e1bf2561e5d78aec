"""The rarest word of a question that none of the first facts holds.

Its rarity is its inverse document frequency over the survivors, as a share of that of a word that
no fact holds: 1 for an unknown word, 0 if the facts hold every word. Names of speakers do not
count: their facts need not repeat them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engramlog.projections.arrays import I32
from engramlog.projections.ascending import among
from engramlog.projections.recall.conversation.speakers import without_speakers
from engramlog.projections.recall.stages.lexical import query_terms

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey


def missing_word(survey: Survey, first: I32) -> float:
    """The rarity of that word, given the slots of the first facts."""
    view, survivors = survey.view, survey.surviving.survivors
    asked = without_speakers(survey)
    named = {term for name in asked.names for term in view.tokenize(name)}
    terms = query_terms(view, survey.request.query)
    count = len(survivors.slots)
    fewest: int | None = None
    for term in [term for term in terms if term not in named] or terms:
        slots, _ = view.postings(term)
        if not survivors.everything:
            slots = slots[survivors.mask[slots]]
        if (fewest is None or len(slots) < fewest) and not among(first, slots).any():
            fewest = len(slots)
    if fewest is None:
        return 0.0
    return _idf(count, fewest) / _idf(count, 0)


def _idf(count: int, holders: int) -> float:
    return math.log1p((count - holders + 0.5) / (holders + 0.5))
