"""Whether facts are speech: in sentences, as people and assistants write to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engramlog.projections.arrays import I32
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.text.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey

READ_MAX = 16
"""How many values are read."""
FILLERS_MIN = 0.2
"""The least share of stop-words in speech,"""
WORDS_MIN = 12
"""or the least number of words in a value."""


def are_speech(survey: Survey, slots: I32) -> bool:
    """Whether the first of these facts are."""
    slots = slots[:READ_MAX]
    words = [word for slot in slots.tolist() for word in words_of(survey.view.value_text_of(slot))]
    fillers = sum(word in STOP_WORDS for word in words)
    return fillers >= FILLERS_MIN * len(words) > 0 or len(words) >= WORDS_MIN * len(slots)
