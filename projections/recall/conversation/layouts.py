"""How clients store conversations, judged for each entity.

Mostly a source is a conversation, and its facts' entities are the speakers. Two other ways show in
the facts of one entity, in sentences. In a **channel**, sources state them in turns, under one
relation: the sources are the speakers. In a **transcript**, texts begin with their speakers' names,
or one of the relations is a machine's, as in ``user_said`` and ``assistant_said``.

Only survivors count: facts that the caller may not read decide nothing.
"""

from functools import partial

import numpy as np

from engramlog.projections.arrays import I8, I32, I64, Bool
from engramlog.projections.ascending import among, distinct, ranges
from engramlog.projections.columns.judged_numbers import JudgedNumbers
from engramlog.projections.image.view import VOICE_BASE, View
from engramlog.projections.recall.request_facts import Survey

PLAIN, CHANNEL, TRANSCRIPT, SESSIONS = range(4)
"""``SESSIONS`` is a transcript of several sources, each a conversation."""
SPEAKERS_MIN = 2
SAID_MIN = 3
"""Facts from a voice, or under a label, that make it a speaker."""
LABELLED_MIN = 0.8
"""The least share of a transcript's facts that begin with the name of such a speaker."""
LOOKED_MAX = 2000
"""How many facts of an entity are looked at, the first ones."""
SAMPLE = 16
"""How many of these are read first: of other entities, no more."""
SAMPLES = 4
"""How many such samples tell whether a long source is a conversation."""
FILLERS_MIN = 0.2
"""The least share of stop-words in speech,"""
WORDS_MIN = 12
"""or the least number of words in a value."""
TOLD_WORDS_MIN = 8
"""The least number of words in a value that is more than an entry of a record, in any language."""


def layouts(survey: Survey, entities: I32) -> I8:
    """The layout of each entity."""
    judged: JudgedNumbers = survey.surviving.survivors.derived("layouts", JudgedNumbers)
    return judged.of(entities, partial(judge, survey))


def judge(survey: Survey, entities: I32) -> I8:
    """The layout of each entity, in one pass; only those that may be channels are looked at one by
    one. An erasure meanwhile may leave an entity without facts."""
    view, count = survey.view, len(entities)
    slots, lengths = view.entity_lists(entities)
    group_of = np.repeat(np.arange(count), lengths)
    kept = survey.survivor_mask[slots]
    slots, group_of = slots[kept], group_of[kept]
    kept = (_place(group_of, count) < LOOKED_MAX) & (view.object[slots] < 0)
    slots, group_of = slots[kept], group_of[kept]
    transcripts = _told_by_relations(view, slots, group_of, count)
    kept = _of_first_relation(group_of, view.relation[slots])
    slots, group_of = slots[kept], group_of[kept]
    transcripts |= _told_by_labels(view, slots, group_of, count)
    groups, _ = _often(group_of, view.voices(slots))
    voiced = np.bincount(groups, minlength=count) >= SPEAKERS_MIN
    judged = np.where(transcripts, np.where(voiced, SESSIONS, TRANSCRIPT), PLAIN).astype(np.int8)
    maybe = voiced & ~transcripts
    kept = maybe[group_of]
    maybe &= are_speech(view, slots[kept], group_of[kept], count)
    for at in np.flatnonzero(maybe).tolist():
        first, end = group_of.searchsorted([at, at + 1]).tolist()
        if _is_channel(survey, slots[first:end]):
            judged[at] = CHANNEL
    return judged


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


def _place(group_of: I64, count: int) -> I64:
    """The place of each within its group, of so many groups, which ascend."""
    places: I64 = np.arange(len(group_of)) - group_of.searchsorted(np.arange(count))[group_of]
    return places


def _of_first_relation(group_of: I64, relations: I32) -> Bool:
    """Which places, ascending by ``group_of``, have the relation that most of their group have; of
    equal ones, that of the first place."""
    runs = Runs(group_of, relations)
    group = group_of[runs.first]
    best = np.lexsort((runs.first, -runs.count, group))
    most = np.zeros(len(best), dtype=np.bool_)
    most[best[group[best].searchsorted(distinct(group))]] = True
    kept = np.empty(len(group_of), dtype=np.bool_)
    kept[runs.order] = np.repeat(most, runs.count)
    return kept


def _often(groups: I64, values: I32 | I64) -> tuple[I64, I64]:
    """Each pair that is there ``SAID_MIN`` times: its group, and how many times."""
    runs = Runs(groups, values)
    often = runs.count >= SAID_MIN
    return groups[runs.first[often]], runs.count[often]


def _told_by_relations(view: View, slots: I32, group_of: I64, count: int) -> Bool:
    """Which of ``count`` groups of facts (``group_of``: that of each slot) are transcripts with a
    relation that is a machine's."""
    by_machine = view.machine_relations.among(view.relation[slots])
    if not by_machine.any():  # as mostly: a write has all entities judged again
        return np.zeros(count, dtype=np.bool_)
    asked = (np.bincount(group_of, by_machine, minlength=count) >= SAID_MIN)[group_of]
    slots, group_of, by_machine = slots[asked], group_of[asked], by_machine[asked]
    groups, _ = _often(group_of, view.relation[slots])
    several = np.bincount(groups, minlength=count) >= SPEAKERS_MIN
    speech = are_speech(view, slots[by_machine], group_of[by_machine], count)
    slots = view.by_age(slots, group_of)
    return several & speech & _take_turns(view, slots, group_of, view.relation[slots], count)


def _told_by_labels(view: View, slots: I32, group_of: I64, count: int) -> Bool:
    """Which of ``count`` groups of facts (``group_of``: that of each slot) are transcripts with
    labels: several labels, and few facts without these."""
    facts = np.bincount(group_of, minlength=count)
    asked = (facts >= SPEAKERS_MIN * SAID_MIN)[group_of] & (_place(group_of, count) < SAMPLE)
    labelled = group_of[asked][view.spoken.labels(view.value[slots[asked]]) >= 0]
    if not len(labelled):
        return np.zeros(count, dtype=np.bool_)
    enough = np.maximum(LABELLED_MIN * np.minimum(facts, SAMPLE), 1)
    asked = (np.bincount(labelled, minlength=count) >= enough)[group_of]
    slots, group_of = view.by_age(slots[asked], group_of[asked]), group_of[asked]
    labels = view.spoken.labels(view.value[slots])
    groups, counts = _often(group_of[labels >= 0], labels[labels >= 0])
    covered = np.bincount(groups, counts, minlength=count) >= LABELLED_MIN * facts
    several = np.bincount(groups, minlength=count) >= SPEAKERS_MIN
    turns = _take_turns(view, slots, group_of, labels, count)
    return covered & several & turns & are_speech(view, slots, group_of, count)


def are_discussed(survey: Survey, keys: I32, voices: I64) -> Bool:
    """For some facts, by key and voice: under which keys all these voices say much, in sentences,
    as the sessions of a person do. One that says much may drown one that says little."""
    view = survey.view
    asked = distinct(keys)
    slots, lengths = view.key_lists(asked)
    group_of = np.repeat(np.arange(len(asked)), lengths)
    kept = survey.survivor_mask[slots]
    slots, group_of = slots[kept], group_of[kept]
    every = view.voices(slots)
    theirs = among(every, distinct(voices))  # a key may have very many others
    by, every = group_of[theirs], every[theirs]
    runs = Runs(by, every)
    little = runs.first[runs.count < SAID_MIN]
    quiet = set(zip(by[little].tolist(), every[little].tolist(), strict=True))
    at = asked.searchsorted(keys)
    discussed = are_speech(view, slots, group_of, len(asked))
    for key, voice in zip(at.tolist(), voices.tolist(), strict=True):
        discussed[key] &= (key, voice) not in quiet
    return discussed[at]


def _take_turns(view: View, slots: I32, group_of: I64, speakers: I32, count: int) -> Bool:
    """In which of so many groups of facts, by age, the speakers change often, and more often than
    the sources: where both change together, the sources are the speakers."""
    moves = _changes(group_of, view.voices(slots), count)
    return _changes(group_of, speakers, count) > np.maximum(SAID_MIN, 2 * moves)


def _changes(group_of: I64, values: I32 | I64, count: int) -> I64:
    """How often the values change in each of so many groups."""
    changed = (values[1:] != values[:-1]) & (group_of[1:] == group_of[:-1])
    return np.bincount(group_of[1:][changed], minlength=count)


def _is_channel(survey: Survey, slots: I32) -> bool:
    """Whether these facts about one entity, which are speech, change their source more often, in
    the order of age, than these sources change entities meanwhile. A person whose sessions are
    sources has it the other way round."""
    view = survey.view
    voices, counts = np.unique(view.voices(slots), return_counts=True)
    often = voices[counts >= SAID_MIN]
    if len(distinct(often % VOICE_BASE)) < SPEAKERS_MIN:
        return False
    turns = _moves(view.voices(view.by_age(slots)))
    moves = 0
    for voice in often.tolist():
        listed = view.source_slots(voice % VOICE_BASE)
        first, last = np.searchsorted(listed, slots[[0, -1]]).tolist()
        said = listed[first : last + 1]
        said = said[survey.survivor_mask[said]]
        moves += _moves(view.entity[view.by_age(said[view.voices(said) == voice])])
        if moves >= turns:
            return False
    return True


def _moves(values: I32 | I64) -> int:
    return int(np.count_nonzero(values[1:] != values[:-1]))


def are_talk(view: View, slots: I32) -> bool:
    """Whether many facts, by slot, are mostly speech of few entities at a time. A feed of reports
    has sentences too, but about other entities each time."""
    starts = np.linspace(0, max(len(slots) - SAMPLE, 0), SAMPLES).astype(np.int64)
    looked = slots[ranges(starts, np.minimum(starts + SAMPLE, len(slots)))]
    group_of = np.repeat(np.arange(SAMPLES), len(looked) // SAMPLES)
    few = np.array(
        [len(distinct(each)) <= SAMPLE // 2 for each in np.split(view.entity[looked], SAMPLES)]
    )
    talk = few & are_speech(view, looked, group_of, SAMPLES)
    return 2 * int(np.count_nonzero(talk)) >= SAMPLES


def are_told(view: View, slots: I32, talks: I64) -> Bool:
    """Which facts are no entries of records. A talk's facts under one relation are entries if their
    values are short and in no sentences, and most are the only one of their entity, as in tickets,
    calendars and rows of tables. Of the texts the oldest decide, so that peers agree."""
    runs = Runs(talks, view.relation[slots])
    group_of = np.repeat(np.arange(len(runs.count)), runs.count)
    oldest_first = view.by_age(slots[runs.order], group_of)
    told = are_speech(view, oldest_first, group_of, len(runs.count), TOLD_WORDS_MIN)
    told |= _are_several(group_of, view.entity[oldest_first], len(runs.count))
    told_facts = np.empty(len(slots), dtype=np.bool_)
    told_facts[runs.order] = told[group_of]
    return told_facts


def _are_several(group_of: I64, entities: I32, count: int) -> Bool:
    """In which of so many groups of facts most entities have several: what people say, in any
    language."""
    runs = Runs(group_of, entities)
    several = np.where(runs.count > 1, runs.count, 0)
    return 2 * np.bincount(group_of[runs.first], several, count) >= np.bincount(
        group_of, minlength=count
    )


def are_speech(
    view: View, slots: I32, group_of: I64, count: int, words_min: int = WORDS_MIN
) -> Bool:
    """Which of ``count`` groups of facts are speech: the first facts of the group are in sentences,
    as people and assistants write to each other. False for a group without facts. ``group_of``: the
    group of each slot, ascending."""
    kept = _place(group_of, count) < SAMPLE
    group_of = group_of[kept]
    words, fillers = view.spoken.words(view.value[slots[kept]])
    total = np.bincount(group_of, words, minlength=count)
    long = total >= words_min * np.bincount(group_of, minlength=count)
    return ((np.bincount(group_of, fillers, minlength=count) >= FILLERS_MIN * total) | long) & (
        total > 0
    )
