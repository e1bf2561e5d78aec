"""Context: facts of one source, in the order of assertion, form a conversation.

The facts just before and after a fact often say what it is about: an answer seldom repeats its
question's words. A profile's ``context`` sets how much of its neighbours' words and meaning a fact
gets, and how much of its conversation's best score.

Only survivors that pass the gate are members. A hidden or retracted fact between two others lends
nothing and adds no distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.ascending import distinct, places
from engramlog.projections.moment import NO_START
from engramlog.projections.recall.conversation.context import ConversationContext, shares_of

if TYPE_CHECKING:
    from engramlog.projections.image.view import View
    from engramlog.projections.recall.ranking.fusion import Fused
    from engramlog.projections.recall.request_facts import Survey

HOUR_US = 3_600_000_000


class Conversations(Struct, frozen=True):
    """The members of some conversations: slots, ordered by conversation ``number`` and age.
    ``by_slot`` sorts the members by slot, as in ``ascending``."""

    members: I32
    number: I32
    by_slot: I64
    ascending: I32

    def of(self, slots: I32) -> I32:
        """The number of each fact's conversation, or -1."""
        if not len(self.members):
            return np.full(len(slots), -1, dtype=np.int32)
        at, found = self._places(slots)
        return np.where(found, self.number[at], np.int32(-1))

    def neighbours(self, slots: I32, steps: Sequence[int]) -> list[I32]:
        """For each of ``steps``, the member at that distance after (below 0: before) each fact, or
        -1."""
        if not len(self.members):
            return [np.full(len(slots), -1, dtype=np.int32) for _ in steps]
        at, found = self._places(slots)
        stepped = (self._places_at_step(at, found, step) for step in steps)
        return [np.where(within, self.members[there], np.int32(-1)) for there, within in stepped]

    def around(
        self, slots: I32, context: ConversationContext, lengths: I32
    ) -> list[tuple[F64, I32]]:
        """(shares, neighbour of each fact) for every step with a share. ``lengths``: terms of every
        fact by slot."""
        shares = shares_of(context)
        own = bounded(lengths[slots], context)
        found = self.neighbours(slots, [*shares])
        return [
            (share * own * bounded(lengths[near], context), near)
            for share, near in zip(shares.values(), found, strict=True)
        ]

    def windows(self, slots: I32, context: ConversationContext) -> Windows:
        """The neighbours of each fact, in the order of the conversation."""
        if not len(self.members):
            nowhere = np.zeros(len(slots), dtype=np.bool_)
            steps = dict.fromkeys(shares_of(context), nowhere)
            return Windows(self.members, np.zeros(len(slots), dtype=np.int64), steps)
        at, found = self._places(slots)
        stepped = {step: self._places_at_step(at, found, step) for step in shares_of(context)}
        beside = (there[within] for there, within in stepped.values())
        wanted = distinct(np.concatenate([at[found], *beside]))
        places = np.where(found, wanted.searchsorted(at), len(wanted))
        steps = {step: within for step, (_, within) in stepped.items()}
        return Windows(self.members[wanted], places, steps)

    def _places(self, slots: I32) -> tuple[I64, Bool]:
        at, found = places(self.ascending, slots)
        return self.by_slot[at], found

    def _places_at_step(self, at: I64, found: Bool, step: int) -> tuple[I64, Bool]:
        """The places at that distance, and which of them lie in the same conversation."""
        there = np.minimum(np.maximum(at + step, 0), len(self.members) - 1)
        return there, found & (there == at + step) & (self.number[there] == self.number[at])


class Windows(Struct, frozen=True):
    """Stretches of conversations around some facts. ``members``: in the order in which they were
    said, so the next place holds the member one step later. ``places``: the place of each fact, or
    ``len(members)`` outside all conversations. ``steps``: for each step, which facts have a
    neighbour there."""

    members: I32
    places: I64
    steps: dict[int, Bool]


def conversations(survey: Survey, context: ConversationContext, slots: I32) -> Conversations:
    """The conversations of ``slots``."""
    sources = tuple(distinct(survey.view.source[slots]).tolist())
    key = ("conversations", sources, context, survey.gate)
    found: Conversations = survey.surviving.survivors.derived(
        key, lambda: _conversations_of(survey, context, sources)
    )
    return found


def _conversations_of(
    survey: Survey, context: ConversationContext, sources: tuple[int, ...]
) -> Conversations:
    view, survivors = survey.view, survey.surviving.survivors
    lists = [np.empty(0, dtype=np.int32)]
    for source in sources:
        key = ("said", source, context.facts_max, survey.gate)
        lists.append(
            survivors.derived(key, partial(_conversation_slots, survey, context.facts_max, source))
        )
    members = np.concatenate(lists)
    if not len(members):
        return Conversations(members, members, np.empty(0, dtype=np.int64), members)
    later = np.abs(np.diff(_times(view, members))) > context.gap_hours * HOUR_US
    begins = (np.diff(view.source[members]) != 0) | later
    number = np.concatenate([[0], np.cumsum(begins)]).astype(np.int32)
    by_slot = np.argsort(members, kind="stable")
    return Conversations(members, number, by_slot, members[by_slot])


def _conversation_slots(survey: Survey, facts_max: int, source: int) -> I32:
    """A source's facts that may be part of a conversation, by age; none for a feed."""
    listed = survey.view.source_slots(source)
    kept = listed[survey.survivor_mask[listed]]
    return kept[:0] if len(kept) > facts_max else survey.view.by_age(survey.admits(kept))


def bounded(terms: I32, context: ConversationContext) -> F64:
    """The factor on the shares that facts with this many terms get and give."""
    if context.terms is None:
        return np.ones(len(terms))
    return context.terms / np.maximum(terms, context.terms)


def surroundings(talk: Conversations, context: ConversationContext, slots: I32) -> I32:
    """``slots``, ascending, with all facts that share something with them."""
    reach = max(len(context.before), len(context.after))
    steps = [step for step in range(-reach, reach + 1) if step]
    both = distinct(np.concatenate([slots, *talk.neighbours(slots, steps)]))
    return both[both >= 0]


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


def _times(view: View, slots: I32) -> I64:
    start = view.valid_from[slots]
    times: I64 = np.where(start == NO_START, view.recorded_at[slots], start)
    return times
