"""The speakers that a question names, and the question without their names.

A name says who is meant, not what: "What does Ann cook?" resembles everything that Ann says. So the
query vector is that of the question without the name, plus a share of the name. A speaker is an
entity with many facts under one relation in one source, as in a conversation, or the same in other
``layouts``: a source, or the label of many facts. Names of other things are the question's subject
and stay.

Only survivors count: an unreadable speaker is no speaker.
"""

import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32, F64, I32, Bool
from engramlog.projections.ascending import among
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.graph.smallest_names import with_most
from engramlog.projections.normalization import entity_display
from engramlog.projections.recall.conversation.channels import said_by
from engramlog.projections.recall.conversation.layouts import TRANSCRIPT, Runs, are_speech, layouts
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.text.stop_words import STOP_WORDS

SAID_MIN = 5
"""Facts under one relation in one source that make an entity a speaker."""
WORDS_MAX = 16
"""The most capitalised words of a question that are looked up."""
ENTITIES_MAX = 16
"""The most entities compared with one word, those with the most facts first."""

_CAPITALISED = re.compile(r"(?<!\w)[^\W\d_a-z]\w+")
_POSSESSIVE = "(?:['\u2019]s)?"


class PlainQuestion(Struct, frozen=True):
    """A question: its ``text`` without the ``names`` of speakers, and these names as written."""

    text: str
    names: tuple[str, ...] = ()


def without_speakers(survey: Survey) -> PlainQuestion:
    """The question without names of speakers; unchanged if it names none or would be empty."""
    query = survey.request.query
    return without(query, [word for word in capitalised_words(query) if is_speaker(survey, word)])


def without(query: str, names: Sequence[str]) -> PlainQuestion:
    """The question without these names, longer ones first; unchanged if there are none or it would
    be empty."""
    if not names:
        return PlainQuestion(query)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, names))}){_POSSESSIVE}(?!\w)"
    left = " ".join(re.sub(pattern, " ", query).split())
    if STOP_WORDS.issuperset(words_of(left)):
        return PlainQuestion(query)
    return PlainQuestion(left, tuple(names))


def question_vector(semantics: Semantics, asked: PlainQuestion, name_share: float) -> F32:
    """The unit vector of a question, with a share of its names. Raises EmbeddingError: it could not
    be embedded."""
    vector = semantics.query(asked.text)
    if not asked.names or not name_share:
        return vector
    named: F64 = np.zeros(len(vector))
    for name in asked.names:
        named += semantics.query(name)
    total = vector + name_share * named / max(float(np.linalg.norm(named)), 1e-9)
    return (total / np.linalg.norm(total)).astype(np.float32)


def capitalised_words(query: str) -> list[str]:
    """The words of a question that may be names, each once."""
    capitalised = dict.fromkeys(_CAPITALISED.findall(query))
    return [word for word in capitalised if word.casefold() not in STOP_WORDS][:WORDS_MAX]


def is_speaker(survey: Survey, word: str) -> bool:
    """Whether a word is, or is part of, the name of a speaker."""
    key = ("speaker", word)
    return survey.surviving.survivors.derived(key, lambda: _is_speaker(survey, word))


def _is_speaker(survey: Survey, word: str) -> bool:
    """Whether a word names someone who speaks: as a source, an entity that says much, or a
    label."""
    view = survey.view
    if len(said_by(survey, word)):
        return True
    terms = view.tokenize(word)
    if len(terms) != 1:
        return False
    slots = survey.holding(terms)
    if len(slots) < SAID_MIN:
        return False
    found = np.bincount(view.entity[slots])
    often = (found >= SAID_MIN).nonzero()[0].astype(np.int32)
    often = with_most(view.entities, often, found[often], ENTITIES_MAX)
    name = set(words_of(word))
    layout = layouts(survey, often)
    for number, in_labels in zip(often.tolist(), layout >= TRANSCRIPT, strict=True):
        own = slots[view.entity[slots] == number]
        display = words_of(entity_display(view.entities.text(number)))
        if name.issubset(display) and _says_much(survey, own):
            return True
        if in_labels and _labels_often(survey, own, name):
            return True
    return False


def _labels_often(survey: Survey, slots: I32, name: set[str]) -> bool:
    """Whether many of these facts begin with the same label, which holds the name."""
    spoken = survey.view.spoken
    numbers, counts = np.unique(spoken.labels(survey.view.value[slots]), return_counts=True)
    often = numbers[(counts >= SAID_MIN) & (numbers >= 0)].tolist()
    return any(name.issubset(words_of(spoken.names.text(number))) for number in often)


def _says_much(survey: Survey, slots: I32) -> bool:
    view = survey.view
    pairs = np.stack([view.relation[slots], view.voices(slots)])
    _, counts = np.unique(pairs, axis=1, return_counts=True)
    return int(counts.max(initial=0)) >= SAID_MIN


def are_said(survey: Survey, named: I32, slots: I32) -> Bool:
    """Which of these facts of the entities are speech: many under one relation from one source, in
    sentences."""
    view = survey.view
    own, _ = view.entity_lists(named)
    own = own[survey.survivor_mask[own] & (view.object[own] < 0)]
    pairs = view.entity[own].astype(np.int64) * len(view.relations) + view.relation[own]
    _, of, sizes = np.unique(pairs, return_inverse=True, return_counts=True)
    many = sizes[of] >= SAID_MIN
    if not many.any():
        return np.zeros(len(slots), dtype=np.bool_)
    order = np.argsort(of[many], kind="stable")
    own, of = own[many][order], of[many][order]
    runs = Runs(of, view.voices(own))
    said = np.zeros(len(sizes), dtype=np.bool_)
    said[of[runs.first[runs.count >= SAID_MIN]]] = True
    said &= are_speech(view, own, of, len(sizes))
    return among(slots, np.sort(own[said[of]]))
