"""Context: facts of one voice or channel, in the order of assertion, form a conversation.

The facts just before and after a fact often say what it is about: an answer seldom repeats its
question's words. A profile's ``context`` sets how much of its neighbours' words and meaning a fact
gets, and how much of its conversation's best score.

Only survivors that pass the gate are members. A hidden or retracted fact between two others lends
nothing and adds no distance; nor does an entry of a record, such as a row of a table.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, I64, Bool
from engramlog.projections.ascending import distinct, places, ranges, split
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.moment import HOUR_US
from engramlog.projections.recall.conversation.channels import (
    ENTITY_BASE,
    listed,
    only_of_talks,
    talks,
)
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.layouts import are_told
from engramlog.projections.recall.matching_facts import times

if TYPE_CHECKING:
    from engramlog.projections.recall.ranking.fusion import Fused
    from engramlog.projections.recall.request_facts import Survey

CONVERSATIONS_KEPT_MAX = 32
"""Sets of voices whose conversations are kept: of many long ones, a set takes megabytes."""
SAID_KEPT_MAX = 4096
"""Conversations whose facts are kept."""
AROUND = 16
"""How many facts of a long talk are looked at before and after each that is asked for."""


class Conversations(Struct, frozen=True):
    """The members of some conversations: slots, ordered by conversation ``number`` and age; a
    member's place is its index. ``by_slot`` sorts the members by slot, as in ``ascending``.
    ``begins`` and ``ends``: of each member's conversation, its first place and the one after its
    last."""

    members: I32
    number: I32
    by_slot: I64
    ascending: I32
    begins: I64
    ends: I64

    def of(self, slots: I32) -> I32:
        """The number of each fact's conversation, or -1."""
        if not len(self.members):
            return np.full(len(slots), -1, dtype=np.int32)
        at, found = self.places(slots)
        return np.where(found, self.number[at], np.int32(-1))

    def places(self, slots: I32) -> tuple[I64, Bool]:
        """The place of each fact, and whether it is a member; places of others are valid indices
        unless there are no members."""
        at, found = places(self.ascending, slots)
        return self.by_slot[at] if len(self.members) else at, found

    def near(self, at: I64, step: int) -> Bool:
        """Which places have a neighbour at a distance (below 0: before) in their conversation."""
        there = at + step
        return there >= self.begins[at] if step < 0 else there < self.ends[at]

    def at(self, wanted: I64) -> I32:
        """The members at some places; any member for a place outside."""
        return self.members.take(wanted, mode="clip")

    def stretch(self, at: I64, before: int, after: int) -> I64:
        """The places up to so many steps before and after some, ascending; all ascend."""
        first = np.maximum(at - before, self.begins[at])
        end = np.minimum(at + (after + 1), self.ends[at])
        np.maximum(first[1:], end[:-1], out=first[1:])
        return ranges(first, end)


def conversations(survey: Survey, context: ConversationContext, slots: I32) -> Conversations:
    """The conversations of ``slots``; of a long talk only what was said around them."""
    talk_of = talks(survey, slots)
    wanted = tuple(distinct(talk_of).tolist())
    kept: Remembered = survey.surviving.survivors.derived(
        "conversations", lambda: Remembered(CONVERSATIONS_KEPT_MAX)
    )
    key: Hashable = (wanted, context, survey.gate)
    found: Conversations | None = kept.get(key)
    if found is not None:
        return found
    said = _said(survey, context, wanted)
    long = {talk: facts for talk, facts in said.items() if len(facts) > context.facts_max}
    if long:  # then the facts asked for decide what is looked at
        key = (key, slots.tobytes())
        found = kept.get(key)
    if found is None:
        lists = [facts for talk, facts in said.items() if talk not in long]
        stretches = np.repeat(np.arange(len(lists)), [len(facts) for facts in lists])
        members = np.concatenate([np.empty(0, dtype=np.int32), *lists])
        if long:
            near, apart = _around(survey, long, slots, talk_of)
            members = np.concatenate([members, near])
            stretches = np.concatenate([stretches, apart + len(lists)])
        found = _divided(survey, context, members, stretches)
        kept.put(key, found)
    return found


def _said(survey: Survey, context: ConversationContext, wanted: tuple[int, ...]) -> dict[int, I32]:
    """The facts that may be part of each talk, by age; of a long one all its survivors, by slot."""
    kept: Remembered = survey.surviving.survivors.derived(
        ("said", context.facts_max, survey.gate), lambda: Remembered(SAID_KEPT_MAX)
    )
    found = {talk: kept.get(talk) for talk in wanted}
    missing = [talk for talk, slots in found.items() if slots is None]
    if missing:
        found |= _told(survey, {talk: listed(survey, talk, context.facts_max) for talk in missing})
        short = [talk for talk in missing if len(found[talk]) <= context.facts_max]
        slots = survey.admits(only_of_talks(survey, {talk: found[talk] for talk in short}))
        talk_of = talks(survey, slots)
        slots = survey.view.by_age(slots, talk_of)
        parts = split(slots, talk_of.searchsorted(short[1:])) if short else []
        found |= dict(zip(short, parts, strict=True))
        for talk in missing:
            kept.put(talk, found[talk])
    return found


def _told(survey: Survey, lists: dict[int, I32]) -> dict[int, I32]:
    """The facts of each talk; of a voice, without the entries of records."""
    voices = [talk for talk in lists if talk < ENTITY_BASE]
    if not voices:
        return lists
    sizes = [len(lists[talk]) for talk in voices]
    slots = np.concatenate([lists[talk] for talk in voices])
    told = are_told(survey.view, slots, np.repeat(np.array(voices, dtype=np.int64), sizes))
    ends = np.cumsum(sizes)[:-1]
    parts = zip(voices, split(slots, ends), split(told, ends), strict=True)
    return lists | {talk: part[kept] for talk, part, kept in parts}


def _around(survey: Survey, long: Mapping[int, I32], slots: I32, talk_of: I64) -> tuple[I32, I64]:
    """What was said in long talks around some facts, by age, and for each the number of the stretch
    that it is in."""
    talk_ids = np.array([*long], dtype=np.int64)
    bounds = np.cumsum([0, *map(len, long.values())])
    said = np.concatenate([*long.values()])
    talk, inside = places(talk_ids, talk_of)
    talk, slots = talk[inside], slots[inside]
    # Each list ascends, so a pair of talk and slot has its place in all of them together.
    every = np.repeat(np.arange(len(long)), np.diff(bounds)) << 32 | said
    at, told = places(every, talk << 32 | slots)
    at = np.sort(at[told])
    if not len(at):
        return said[:0], at
    talk = bounds.searchsorted(at, side="right") - 1
    apart = ((np.diff(at) > 2 * AROUND) | (np.diff(talk) != 0)).nonzero()[0]
    first, last = np.append(0, apart + 1), np.append(apart, len(at) - 1)
    begins = np.maximum(at[first] - AROUND, bounds[talk[first]])
    ends = np.minimum(at[last] + AROUND + 1, bounds[talk[last] + 1])
    stretch = np.repeat(np.arange(len(begins)), ends - begins)
    near = said[ranges(begins, ends)]
    kept = talks(survey, near) == talk_ids[talk[first]][stretch]
    kept &= survey.admitted(near)
    near, stretch = near[kept], stretch[kept]
    return survey.view.by_age(near, stretch), stretch


def _divided(
    survey: Survey, context: ConversationContext, members: I32, stretches: I64
) -> Conversations:
    """Facts by age in stretches that ascend, divided where a pause is."""
    if not len(members):
        none = np.empty(0, dtype=np.int64)
        return Conversations(members, members, none, members, none, none)
    later = np.abs(np.diff(times(survey.view, members))) > context.gap_hours * HOUR_US
    begins = (np.diff(stretches) != 0) | later
    number = np.concatenate([[0], np.cumsum(begins)]).astype(np.int32)
    bounds = np.concatenate([[0], begins.nonzero()[0] + 1, [len(members)]])
    by_slot = np.argsort(members, kind="stable")
    return Conversations(
        members, number, by_slot, members[by_slot], bounds[number], bounds[number + 1]
    )


def surroundings(talk: Conversations, context: ConversationContext, slots: I32) -> I32:
    """``slots``, ascending, with all facts that share something with them."""
    if not len(talk.members):
        return slots
    at, found = talk.places(slots)
    reach = max(len(context.before), len(context.after))
    inside = talk.members[talk.stretch(np.sort(at[found]), reach, reach)]
    return np.sort(np.concatenate([slots[~found], inside]))


def spread(survey: Survey, context: ConversationContext, fused: Fused) -> Fused:
    """Add to every fact a share of its conversation's best fused score; a fact outside
    conversations gets the share of its own."""
    if not context.session or not len(fused.slots):
        return fused
    talk = conversations(survey, context, fused.slots)
    number = talk.of(fused.slots)
    alone = number < 0
    best = np.zeros(int(number.max(initial=-1)) + 1)
    np.maximum.at(best, number[~alone], fused.score[~alone])
    session = fused.score.copy()
    session[~alone] = best[number[~alone]]
    score = (fused.score + context.session * session) / (1.0 + context.session)
    return msgspec.structs.replace(fused, score=score, session=session)
