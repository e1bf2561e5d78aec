"""The phrases of a question that name an entity with facts about it, as rows of a table have.

They say who is meant and not what, as the names of speakers do. A phrase begins with a capital or a
digit and is an entity's display name, or a value that few entities have. So is a word of such a
value: "the Pinewood deal" is about what has "Pinewood Hospital" as a value. A value of two to four
words with a capital each is a name; besides, it may have stop-words.
"""

import re
from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32
from engramlog.projections.ascending import distinct
from engramlog.projections.columns.names.entity_names import name_of, words_of
from engramlog.projections.recall.conversation.speakers import (
    PlainQuestion,
    are_said,
    is_speaker,
    without,
    without_speakers,
)
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.text.stop_words import STOP_WORDS

WORDS_MAX = 8
FIRST_WORDS_MAX = 16
"""The most words of a question that are tried as the first of a name."""
HOLDERS_MAX = 3
"""A value of more entities names none of them."""
PUNCTUATION_MAX = 16
"""Characters besides its words that a name may have."""
LOOKED_AT_MAX = 64
"""A phrase whose rarest word is in more facts is no value that names."""
PART_WORDS_MAX = 4
"""The most words of a name that one of them stands for."""
PART_CHARS_MAX = 60

_WORD = re.compile(r"[^\W_]+")
_NONE: I32 = np.empty(0, dtype=np.int32)


def without_names(survey: Survey) -> PlainQuestion:
    """The question without names of subjects and speakers; unchanged if it would be empty."""
    subjects = subject_names(survey)
    held = {word for name in subjects for word in words_of(name)}
    named = without_speakers(survey).names
    speakers = [name for name in named if not held.issuperset(words_of(name))]
    return without(survey.request.query, [*subjects, *speakers])


def subject_names(survey: Survey) -> list[str]:
    """The phrases of the question that name subjects, as written; longer ones first, none inside
    another. Stages share the list, so it is read-only."""
    key = ("subject names", survey.request.query)
    return survey.surviving.survivors.derived(key, lambda: _subject_names(survey))


def _subject_names(survey: Survey) -> list[str]:
    query = survey.request.query
    words = list(_WORD.finditer(query))
    first_words = [at for at, word in enumerate(words) if _may_begin(word[0])][:FIRST_WORDS_MAX]
    found: list[str] = []
    taken: set[int] = set()
    for length in range(min(WORDS_MAX, len(words)), 0, -1):
        for first in first_words:
            places = range(first, first + length)
            if places.stop > len(words) or not taken.isdisjoint(places):
                continue
            text = query[words[first].start() : words[places[-1]].end()]
            if _may_be_name(text) and _is_name(survey, text):
                found.append(text)
                taken.update(places)
    return found


def _may_begin(word: str) -> bool:
    return (word[0].isupper() or word[0].isdigit()) and word.casefold() not in STOP_WORDS


def _may_be_name(text: str) -> bool:
    return text != text.lower() and words_of(text)[-1] not in STOP_WORDS


def _is_name(survey: Survey, text: str) -> bool:
    view, words = survey.view, name_of(words_of(text))
    if any(_is_subject(survey, number) for number in view.entities_named(" ".join(words))):
        return True
    chars_max = sum(map(len, words)) + len(words) + PUNCTUATION_MAX
    entities: set[int] = set()
    for slot in _values(survey, words).of_length(len(words), len(words)):
        value = view.value_text_of(slot)
        if len(value) <= chars_max and name_of(words_of(value)) == words:
            entities.add(int(view.entity[slot]))
    if 0 < len(entities) <= HOLDERS_MAX:
        return True
    return len(words) == 1 and len(named_in_part(survey, text)) > 0


def _is_subject(survey: Survey, number: int) -> bool:
    """Whether facts point at an entity, or say of it what is not its speech."""
    key = ("subject", number)
    return survey.surviving.survivors.derived(key, lambda: _has_facts(survey, number))


def _has_facts(survey: Survey, number: int) -> bool:
    view, mask = survey.view, survey.survivor_mask
    if mask[view.object_slots(number)].any():
        return True
    own = view.entity_slots(number)
    own = own[mask[own]]
    return not are_said(survey, np.array([number], dtype=np.int32), own).all()


def named_in_part(survey: Survey, word: str) -> I32:
    """The facts whose value is a name that this word of the question stands for; none if it has no
    capital, is a speaker's name, or more than a few entities have such a value."""
    key = ("named in part", word)
    return survey.surviving.survivors.derived(key, lambda: _named_in_part(survey, word))


def _named_in_part(survey: Survey, word: str) -> I32:
    if not word[0].isupper() or is_speaker(survey, word):
        return _NONE
    view, words = survey.view, words_of(word)
    values = _values(survey, words).of_length(2, PART_WORDS_MAX)
    held = [slot for slot in values if _has_part(view.value_text_of(slot), words)]
    slots = np.array(held, dtype=np.int32)
    return slots if len(distinct(view.entity[slots])) <= HOLDERS_MAX else _NONE


def _has_part(text: str, part: Sequence[str]) -> bool:
    """Whether a value is a name, of which these words are a part."""
    if len(text) > PART_CHARS_MAX:
        return False
    words = _WORD.findall(text)
    return (
        2 <= len(words) <= PART_WORDS_MAX
        and all(word[0].isupper() or word in STOP_WORDS for word in words)
        and set(part).issubset(words_of(text))
    )


class _Values(Struct, frozen=True):
    """The survivors that hold a word and point at nothing, and how many words each value has;
    none if more than a few hold the word. ``holders``: how many do."""

    holders: int
    slots: list[int]
    lengths: list[int]

    def of_length(self, least: int, most: int) -> list[int]:
        """The facts whose value has so many words."""
        both = zip(self.slots, self.lengths, strict=True)
        return [slot for slot, length in both if least <= length <= most]


def _values(survey: Survey, words: Sequence[str]) -> _Values:
    """The values with the rarest of these words that are no stop-words."""
    derived = survey.surviving.survivors.derived
    held: list[_Values] = [
        derived(("values with", word), partial(_values_with, survey, word))
        for word in words
        if word not in STOP_WORDS
    ]
    return min(held, key=lambda each: each.holders, default=_Values(0, [], []))


def _values_with(survey: Survey, word: str) -> _Values:
    view = survey.view
    terms = [survey.holding([term]) for term in view.tokenize(word)]
    if not terms:
        return _Values(view.count, [], [])
    rarest = min(terms, key=len)
    if len(rarest) > LOOKED_AT_MAX:
        return _Values(len(rarest), [], [])
    slots = rarest[view.object[rarest] < 0]
    lengths, _ = view.spoken.words(view.value[slots])
    return _Values(len(rarest), slots.tolist(), lengths.tolist())
