"""Who speaks, and in which conversation, in each of the ``layouts`` of conversations.

Only survivors count: facts that the caller may not read make no conversation and no speaker.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.graph.smallest_names import with_most
from engramlog.projections.image.view import VOICE_BASE
from engramlog.projections.recall.conversation.layouts import (
    CHANNEL,
    SAID_MIN,
    TRANSCRIPT,
    are_talk,
    layouts,
)
from engramlog.projections.recall.request_facts import Survey

ENTITY_BASE = 1 << 62
"""A talk from here on is an entity's, plus its number; a smaller one is a voice."""
LABEL_BASE = 1 << 32
RELATION_BASE = 1 << 33
"""A speaker from here on is a label or relation, plus its number."""
FEED_READ = 4
"""Times the facts of the longest conversation: a feed mostly shows in so many of its facts."""
SOURCES_MAX = 16
"""The most sources compared with one word, those with the most facts first."""
SAMPLE = 64
"""How many facts of a source tell whether it speaks in channels, the last ones."""


def talks(survey: Survey, slots: I32) -> I64:
    """The conversation of each fact, before pauses divide it: that of a channel or transcript,
    else its voice."""
    view = survey.view
    entities = view.entity[slots]
    layout = layouts(survey, entities)
    inside = (layout == CHANNEL) | (layout == TRANSCRIPT)
    found = view.voices(slots)
    if inside.any():
        found[inside] = ENTITY_BASE + entities[inside].astype(np.int64)
    return found


def only_of_talks(survey: Survey, lists: Mapping[int, I32]) -> I32:
    """Facts of talks' entities or sources, by talk: those of the talks, one after the other."""
    slots = np.concatenate([np.empty(0, dtype=np.int32), *lists.values()])
    sizes = [len(each) for each in lists.values()]
    return slots[talks(survey, slots) == np.repeat([*lists], sizes).astype(np.int64)]


def listed(survey: Survey, talk: int, facts_max: int) -> I32:
    """The surviving facts of a talk's entity or source, by slot; of a source with more than
    ``facts_max`` none, unless they are talk: a feed has no conversations."""
    if talk >= ENTITY_BASE:
        return _surviving(survey, survey.view.entity_slots(talk - ENTITY_BASE))
    said = _surviving(survey, survey.view.source_slots(talk % VOICE_BASE))
    first = _of_voice(survey, talk, said[: FEED_READ * facts_max])
    if len(first) > facts_max and not are_talk(survey.view, first):
        return first[:0]
    if len(said) <= FEED_READ * facts_max:
        return first
    kept = _of_voice(survey, talk, said)
    return kept if len(kept) <= facts_max or are_talk(survey.view, kept) else kept[:0]


def speakers(survey: Survey, slots: I32) -> I64:
    """Who said each fact: its entity, by number; in a channel its source, as -1 less its number; in
    a transcript its label, from ``LABEL_BASE`` on, or its relation, from ``RELATION_BASE`` on, if
    that is a machine's."""
    view = survey.view
    layout = layouts(survey, view.entity[slots])
    found = view.entity[slots].astype(np.int64)
    in_channel = layout == CHANNEL
    found[in_channel] = -1 - view.source[slots[in_channel]].astype(np.int64)
    in_transcript = (layout >= TRANSCRIPT).nonzero()[0]
    if not len(in_transcript):
        return found
    labels = view.spoken.labels(view.value[slots[in_transcript]]).astype(np.int64)
    relations = view.relation[slots[in_transcript]]
    by_machine = view.machine_relations.among(relations)
    found[in_transcript[by_machine]] = RELATION_BASE + relations[by_machine].astype(np.int64)
    found[in_transcript[labels >= 0]] = LABEL_BASE + labels[labels >= 0]
    return found


def speaker_name(survey: Survey, speaker: int) -> str:
    """The entity, source, label or relation that is a speaker."""
    view = survey.view
    if speaker >= RELATION_BASE:
        return view.relations.text(speaker - RELATION_BASE)
    if speaker >= LABEL_BASE:
        return view.spoken.names.text(speaker - LABEL_BASE)
    return view.entities.text(speaker) if speaker >= 0 else view.sources.text(-1 - speaker)


def said_by(survey: Survey, word: str) -> I32:
    """What all sources said that speak in channels and have the word in their display name."""
    key = ("said by", word)
    return survey.surviving.survivors.derived(key, lambda: _said_by(survey, words_of(word)))


def machine_said(survey: Survey, slots: I32) -> Bool:
    """Which facts a machine said (see ``machine_names``)."""
    view, by = survey.view, speakers(survey, slots)
    said = by >= RELATION_BASE
    for names, asked, numbers in (
        (view.machine_sources, by < 0, -1 - by),
        (view.machines, (by >= 0) & (by < LABEL_BASE), by),
        (view.spoken.machines, (by >= LABEL_BASE) & ~said, by - LABEL_BASE),
    ):
        if asked.any():
            said[asked] = names.among(numbers[asked].astype(np.int32))
    return said


def _of_voice(survey: Survey, voice: int, said: I32) -> I32:
    """Those of some facts of a voice's source that are the voice's."""
    return said[survey.view.voices(said) == voice]


def _surviving(survey: Survey, slots: I32) -> I32:
    return slots[survey.survivor_mask[slots]]


def _said_by(survey: Survey, words: Sequence[str]) -> I32:
    found = [np.empty(0, dtype=np.int32)]
    for source in _most_heard(survey, survey.view.sources_with(words)).tolist():
        said = _surviving(survey, survey.view.source_slots(source))
        sample = layouts(survey, survey.view.entity[said[-SAMPLE:]])
        if np.count_nonzero(sample == CHANNEL) >= SAID_MIN:
            found.append(said)
    return np.sort(np.concatenate(found))


def _most_heard(survey: Survey, sources: I32) -> I32:
    """Those of the sources with the most survivors, at most ``SOURCES_MAX``."""
    if len(sources) <= SOURCES_MAX:
        return sources
    view = survey.view
    facts = np.bincount(view.source[survey.survivors], minlength=int(sources.max()) + 1)[sources]
    return with_most(view.sources, sources[facts > 0], facts[facts > 0], SOURCES_MAX)
