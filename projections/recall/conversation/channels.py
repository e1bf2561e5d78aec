"""Who speaks, and where, in the two ways in which clients store conversations.

Mostly a source is a conversation, and its facts' entities are the speakers. But where sources state
facts about one entity in turns, as people do in a channel, the entity is the conversation and the
sources are the speakers.

Only survivors count: facts that the caller may not read make no channel and no speaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.ascending import distinct
from engramlog.projections.columns.judged_numbers import JudgedNumbers
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.graph.smallest_names import with_most
from engramlog.projections.image.view import VOICE_BASE
from engramlog.projections.text.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from engramlog.projections.recall.request_facts import Survey

CHANNEL_BASE = 1 << 62
"""A talk from here on is a channel, plus its entity's number; a smaller one is a voice."""
SPEAKERS_MIN = 2
SAID_MIN = 3
"""Facts of a voice that make it a speaker of a channel."""
LOOKED_MAX = 2000
"""How many facts of an entity tell whether it is a channel, the first ones."""
FEED_READ = 4
"""Times the facts of the longest conversation: a feed mostly shows in so many of its facts."""
SOURCES_MAX = 16
"""The most sources compared with one word, those with the most facts first."""
SAMPLE = 64
"""How many facts of a source tell whether it speaks in channels, the last ones."""


def talks(survey: Survey, slots: I32) -> I64:
    """The conversation of each fact, before pauses divide it: a channel, else its voice."""
    view = survey.view
    entities = view.entity[slots]
    judged: JudgedNumbers = survey.surviving.survivors.derived("channels", JudgedNumbers)
    inside = judged.among(entities, partial(channels, survey))
    found = view.voices(slots)
    if inside.any():
        found[inside] = CHANNEL_BASE + entities[inside].astype(np.int64)
    return found


def talk_slots(survey: Survey, wanted: Sequence[int], facts_max: int) -> I32:
    """The surviving facts of some conversations, one conversation after the other; none of a feed,
    which has more than ``facts_max``."""
    lists = [_listed(survey, talk, facts_max) for talk in wanted]
    slots = np.concatenate([np.empty(0, dtype=np.int32), *lists])
    return slots[talks(survey, slots) == np.repeat(wanted, [len(each) for each in lists])]


def _listed(survey: Survey, talk: int, facts_max: int) -> I32:
    """The surviving facts of a channel's entity or of a voice, unless they are too many."""
    if talk >= CHANNEL_BASE:
        kept = _surviving(survey, survey.view.entity_slots(talk - CHANNEL_BASE))
    else:
        kept = _of_voice(survey, talk, FEED_READ * facts_max)
        if len(kept) <= facts_max:
            kept = _of_voice(survey, talk)
    return kept if len(kept) <= facts_max else kept[:0]


def speakers(survey: Survey, slots: I32) -> I64:
    """Who said each fact: its entity, by number; in a channel its source, as -1 less its number."""
    view = survey.view
    in_channel = talks(survey, slots) >= CHANNEL_BASE
    return np.where(in_channel, -1 - view.source[slots].astype(np.int64), view.entity[slots])


def speaker_name(survey: Survey, speaker: int) -> str:
    """The entity or source that is a speaker."""
    view = survey.view
    return view.entities.text(speaker) if speaker >= 0 else view.sources.text(-1 - speaker)


def said_by(survey: Survey, word: str) -> I32:
    """The facts of all sources that speak in channels and have the word in their display name."""
    key = ("said by", word)
    return survey.surviving.survivors.derived(key, lambda: _said_by(survey, words_of(word)))


def machine_said(survey: Survey, slots: I32) -> Bool:
    """Which facts a machine said (see ``machine_names``)."""
    view = survey.view
    in_channel = talks(survey, slots) >= CHANNEL_BASE
    said = view.machines.among(view.entity[slots])
    said[in_channel] = view.machine_sources.among(view.source[slots[in_channel]])
    return said


def _of_voice(survey: Survey, voice: int, looked_max: int | None = None) -> I32:
    """The surviving facts of a voice, among the first so many of its source."""
    kept = _surviving(survey, survey.view.source_slots(voice % VOICE_BASE)[:looked_max])
    return kept[survey.view.voices(kept) == voice]


def _surviving(survey: Survey, slots: I32) -> I32:
    return slots[survey.survivor_mask[slots]]


def channels(survey: Survey, entities: I32) -> Bool:
    """Which of the entities are channels. Few have facts under one relation from several voices:
    only these are looked at one by one. An erasure meanwhile may leave an entity without facts."""
    view = survey.view
    slots, lengths = view.entity_lists(entities)
    of = np.repeat(np.arange(len(entities)), lengths)
    kept = survey.survivor_mask[slots]
    slots, of = slots[kept], of[kept]
    begins = of.searchsorted(np.arange(len(entities)))
    kept = (np.arange(len(of)) - begins[of] < LOOKED_MAX) & (view.object[slots] < 0)
    slots, of = slots[kept], of[kept]
    kept = _of_first_relation(of, view.relation[slots])
    slots, of = slots[kept], of[kept]
    voices = Runs(of, view.voices(slots))
    speakers = np.bincount(of[voices.first[voices.count >= SAID_MIN]], minlength=len(entities))
    found = speakers >= SPEAKERS_MIN
    for at in np.flatnonzero(found).tolist():
        first, end = of.searchsorted([at, at + 1]).tolist()
        found[at] = _is_channel(survey, slots[first:end])
    return found


class Runs:
    """Equal pairs of two columns: ``order`` has the places pair after pair, those of a pair
    ascending; ``first`` is the first place of each pair, ``count`` how many it has."""

    def __init__(self, groups: I64, values: I32 | I64) -> None:
        self.order: I64 = np.lexsort((values, groups))
        groups, values = groups[self.order], values[self.order]
        follows = (groups[1:] == groups[:-1]) & (values[1:] == values[:-1])
        begins = np.flatnonzero(np.concatenate([np.ones(min(len(groups), 1), np.bool_), ~follows]))
        self.first: I64 = self.order[begins]
        self.count: I64 = np.diff(begins, append=len(groups))


def _of_first_relation(of: I64, relations: I32) -> Bool:
    """Which places, ascending by ``of``, have the relation that most of their group have; of equal
    ones, that of the first place."""
    runs = Runs(of, relations)
    group = of[runs.first]
    best = np.lexsort((runs.first, -runs.count, group))
    most = np.zeros(len(best), dtype=np.bool_)
    most[best[group[best].searchsorted(distinct(group))]] = True
    kept = np.empty(len(of), dtype=np.bool_)
    kept[runs.order] = np.repeat(most, runs.count)
    return kept


def _is_channel(survey: Survey, own: I32) -> bool:
    """Whether these facts about one entity are speech that changes its source more often, in the
    order of age, than these sources change entities meanwhile. A person whose sessions are sources
    has it the other way round."""
    view = survey.view
    voices, counts = np.unique(view.voices(own), return_counts=True)
    often = voices[counts >= SAID_MIN]
    if len(distinct(often % VOICE_BASE)) < SPEAKERS_MIN or not are_speech(survey, own):
        return False
    turns = _changes(view.voices(view.by_age(own)))
    moves = 0
    for voice in often.tolist():
        listed = view.source_slots(voice % VOICE_BASE)
        first, last = np.searchsorted(listed, own[[0, -1]]).tolist()
        said = _surviving(survey, listed[first : last + 1])
        moves += _changes(view.entity[view.by_age(said[view.voices(said) == voice])])
        if moves >= turns:
            return False
    return True


def _changes(values: I32 | I64) -> int:
    return int(np.count_nonzero(values[1:] != values[:-1]))


def _said_by(survey: Survey, words: Sequence[str]) -> I32:
    found = [np.empty(0, dtype=np.int32)]
    for source in _most_heard(survey, survey.view.sources_with(words)).tolist():
        said = _surviving(survey, survey.view.source_slots(source))
        sample = talks(survey, said[-SAMPLE:])
        if np.count_nonzero(sample >= CHANNEL_BASE) >= SAID_MIN:
            found.append(said)
    return np.sort(np.concatenate(found))


def _most_heard(survey: Survey, sources: I32) -> I32:
    """Those of the sources with the most survivors, at most ``SOURCES_MAX``."""
    if len(sources) <= SOURCES_MAX:
        return sources
    view = survey.view
    facts = np.bincount(view.source[survey.survivors], minlength=int(sources.max()) + 1)[sources]
    return with_most(view.sources, sources[facts > 0], facts[facts > 0], SOURCES_MAX)


READ_MAX = 16
"""How many values are read."""
FILLERS_MIN = 0.2
"""The least share of stop-words in speech,"""
WORDS_MIN = 12
"""or the least number of words in a value."""


def are_speech(survey: Survey, slots: I32) -> bool:
    """Whether the first of these facts are in sentences, as people and assistants write to each
    other."""
    slots = slots[:READ_MAX]
    words = [word for slot in slots.tolist() for word in words_of(survey.view.value_text_of(slot))]
    fillers = sum(word in STOP_WORDS for word in words)
    return fillers >= FILLERS_MIN * len(words) > 0 or len(words) >= WORDS_MIN * len(slots)
