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
    holders = _Holders(survey)
    found: list[str] = []
    taken: set[int] = set()
    for length in range(min(WORDS_MAX, len(words)), 0, -1):
        for first in first_words:
            places = range(first, min(first + length, len(words)))
            text = query[words[first].start() : words[places[-1]].end()]
            if len(places) == length and taken.isdisjoint(places) and _may_be_name(text):
                check = partial(_is_name, survey, holders, text)
                if survey.surviving.survivors.derived(("subject", text), check):
                    found.append(text)
                    taken.update(places)
    return found


def _may_begin(word: str) -> bool:
    return (word[0].isupper() or word[0].isdigit()) and word.casefold() not in STOP_WORDS


def _may_be_name(text: str) -> bool:
    return text != text.lower() and words_of(text)[-1] not in STOP_WORDS


def _is_name(survey: Survey, holders: "_Holders", text: str) -> bool:
    view, words = survey.view, name_of(words_of(text))
    for number in view.entities_named(" ".join(words)):
        pointing = view.object_slots(number)
        if survey.survivor_mask[pointing].any():
            return True
        own = view.entity_slots(number)
        own = own[survey.survivor_mask[own]]
        if not are_said(survey, np.array([number], dtype=np.int32), own).all():
            return True
    found = holders.of_value(words)
    if 0 < len({int(view.entity[slot]) for slot in found.tolist()}) <= HOLDERS_MAX:
        return True
    return len(words) == 1 and len(named_in_part(survey, text)) > 0


def named_in_part(survey: Survey, word: str) -> I32:
    """The facts whose value is a name that this word of the question stands for; none if it has no
    capital, is a speaker's name, or more than a few entities have such a value."""
    key = ("named in part", word)
    return survey.surviving.survivors.derived(key, lambda: _named_in_part(survey, word))


def _named_in_part(survey: Survey, word: str) -> I32:
    if not word[0].isupper() or is_speaker(survey, word):
        return _NONE
    view, words = survey.view, words_of(word)
    held = _Holders(survey).of_words(words)
    if not len(held):
        return held
    counts, _ = view.spoken.words(view.value[held])
    held = held[(counts >= 2) & (counts <= PART_WORDS_MAX)]
    named = [_has_part(view.value_text_of(slot), words) for slot in held.tolist()]
    held = held[np.array(named, dtype=np.bool_)]
    return held if len(distinct(view.entity[held])) <= HOLDERS_MAX else _NONE


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


class _Holders:
    """The survivors that hold a word, each word looked up once."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._held: dict[str, list[I32]] = {}

    def of_value(self, words: Sequence[str]) -> I32:
        """The facts whose value is these words; none if it would take long to find them."""
        view, rarest = self._survey.view, self.of_words(words)
        if not len(rarest):
            return rarest
        counts, _ = view.spoken.words(view.value[rarest])
        rarest = rarest[counts == len(words)]
        chars_max = sum(map(len, words)) + len(words) + PUNCTUATION_MAX
        texts = map(view.value_text_of, rarest.tolist())
        same = [len(text) <= chars_max and name_of(words_of(text)) == words for text in texts]
        return rarest[np.array(same, dtype=np.bool_)]

    def of_words(self, words: Sequence[str]) -> I32:
        """The facts that hold the rarest of these words and point at nothing; none if they are
        many."""
        asked = [word for word in words if word not in STOP_WORDS]
        rarest = min(
            [held for word in asked for held in self._of_word(word)], key=len, default=_NONE
        )
        if len(rarest) > LOOKED_AT_MAX:
            return _NONE
        return rarest[self._survey.view.object[rarest] < 0]

    def _of_word(self, word: str) -> list[I32]:
        """By term of the word: the survivors that hold it."""
        known = self._held.get(word)
        if known is None:
            terms = self._survey.view.tokenize(word)
            known = self._held[word] = [self._survey.holding([term]) for term in terms]
        return known
