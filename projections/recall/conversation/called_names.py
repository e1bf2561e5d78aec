"""Names by which other speakers of a conversation call a speaker: "Kate" for ``person:emi``.

Questions use the names that people use, and the entity may have another name. In a conversation of
two speakers, "Hi Kate" by one names the other. A question with that name is then searched, by words
and by meaning, as if it named the entity.

Only survivors count: facts that the caller may not read give no name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.ascending import among, distinct
from engramlog.projections.normalization import entity_display
from engramlog.projections.recall.conversation.channels import speaker_name, speakers
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.conversation.speakers import capitalised_words, is_speaker

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey

LOOKED_MAX = 40
"""How many facts with the name are read, newest first."""
CALLED_SHARE = 0.25
"""A share of facts with the name. At least this share of the other speaker's must call by it; at
most this share of all may be the speaker's own."""
READ_CHARS = 4_000
"""How much of a fact is read for calls."""
BEFORE_CALL_CHARS = 64
"""How much of the text before a name tells whether it is called."""

_WORD = re.compile(r"[^\W_]+")
_GREETINGS = (
    "bye|cheers|congrats|congratulations|dear|evening|hello|hey|hi|hiya|morning|night|"
    "sorry|sure|thanks|thank you|welcome|yes|yeah|yep|no|oh|wow"
)
# Read backwards from the name: then one match at one place decides.
_BEFORE_CALL = re.compile(
    rf"(?P<greeting>\s+[,!]?(?:niaga\s+)?(?:{_GREETINGS[::-1]})(?!\w))"
    r"|(?P<comma>\s*,)|(?P<start>\s+[.!?:]|\Z)"
)
_AFTER_CALL: Mapping[str | None, re.Pattern[str]] = {
    "greeting": re.compile(r"(?!\w)"),
    "comma": re.compile(r"\s*(?:[.,!?;]|$)"),
    "start": re.compile(r"\s*[,!?]"),
}


def read_as(survey: Survey, calls_min: int) -> dict[str, str]:
    """The words of the question by which others call a speaker, each with the speaker's own name.
    ``calls_min``: least facts that must call the speaker so."""
    found: dict[str, str] = {}
    for word in capitalised_words(survey.request.query):
        if not is_speaker(survey, word):
            key = ("called", word, calls_min, survey.context, survey.gate)
            name = survey.surviving.survivors.derived(
                key, partial(_name_called, survey, word, calls_min)
            )
            if name is not None:
                found[word] = name
    return found


def renamed(query: str, names: Mapping[str, str]) -> str:
    """The question with each key of ``names``, where it is a whole word, replaced by its value."""
    for word, name in names.items():
        query = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _, name=name: name, query)
    return query


def _name_called(survey: Survey, word: str, calls_min: int) -> str | None:
    """The own name of the only speaker whom others call ``word``. Not the number, which may be that
    of a label: an erasure numbers labels again."""
    speaker = _speaker_called(survey, word, calls_min)
    return None if speaker is None else _name_of(survey, speaker)


def _speaker_called(survey: Survey, word: str, calls_min: int) -> int | None:
    """The number of the only speaker whom others call ``word``."""
    view = survey.view
    terms = view.tokenize(word)
    if len(terms) != 1:
        return None
    slots = survey.holding(terms)[-LOOKED_MAX:]
    name = word.lower()
    texts = [view.value_text_of(slot)[:READ_CHARS].lower() for slot in slots.tolist()]
    calling = {slot for slot, text in zip(slots.tolist(), texts, strict=True) if _calls(text, name)}
    if len(calling) < calls_min:
        return None
    said_by = dict(zip(slots.tolist(), speakers(survey, slots).tolist(), strict=True))
    calls, by_other, by_own = Counter[int](), Counter[int](), Counter[int]()
    for slot, other in _partners(survey, slots, said_by).items():
        by_other[other] += 1
        by_own[said_by[slot]] += 1
        calls[other] += slot in calling
    named = [
        entity
        for entity, count in calls.items()
        if count >= calls_min
        and count >= CALLED_SHARE * by_other[entity]
        and by_own[entity] <= CALLED_SHARE * (by_own[entity] + by_other[entity])
    ]
    return named[0] if len(named) == 1 else None


def _partners(survey: Survey, slots: I32, said_by: Mapping[int, int]) -> dict[int, int]:
    """By slot: the other speaker of its conversation; only conversations of two, where a call is
    unambiguous. ``said_by``: the speaker of each slot."""
    assert survey.context is not None
    found = conversations(survey, survey.context, slots)
    number_of = found.of(slots)
    slots, number_of = slots[number_of >= 0], number_of[number_of >= 0]
    asked = among(found.number, distinct(number_of))
    numbers, by = found.number[asked], speakers(survey, found.members[asked])
    if not len(by):
        return {}
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    one, other = np.minimum.reduceat(by, begins), np.maximum.reduceat(by, begins)
    lengths = np.diff(begins, append=len(by))
    of_both = (by == np.repeat(one, lengths)) | (by == np.repeat(other, lengths))
    of_two = (one != other) & np.logical_and.reduceat(of_both, begins)
    at = numbers[begins].searchsorted(number_of)
    slots, at = slots[of_two[at]], at[of_two[at]]
    pairs = zip(one[at].tolist(), other[at].tolist(), strict=True)
    return {
        slot: second if said_by[slot] == first else first
        for slot, (first, second) in zip(slots.tolist(), pairs, strict=True)
    }


def _calls(text: str, name: str) -> bool:
    """Whether a text calls by a name, both in small letters: after a greeting or a comma, or at the
    start of a sentence before a comma or its end."""
    begin = text.find(name)
    while begin >= 0:
        end = begin + len(name)
        before = _BEFORE_CALL.match(text[max(0, begin - BEFORE_CALL_CHARS) : begin][::-1])
        if before is not None and _AFTER_CALL[before.lastgroup].match(text, end) is not None:
            return True
        begin = text.find(name, end)
    return False


def _name_of(survey: Survey, entity: int) -> str | None:
    """The speaker's own name as a question would write it; None if it is not a word."""
    words = _WORD.findall(entity_display(speaker_name(survey, entity)))
    return " ".join(map(str.title, words)) if words and all(map(str.isalpha, words)) else None
