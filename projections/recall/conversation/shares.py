"""What members of conversations get from their neighbours: shares of words and of meaning.

Both are found for the members that a question reaches, and kept for the next questions about the
same conversations. Shares depend on nothing else. The lengths of blended vectors depend on the
vectors too, and are kept while no vector changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.columns.remembered_answers import Remembered
from engramlog.projections.recall.conversation.context import ConversationContext, shares_of
from engramlog.projections.recall.conversation.conversations import Conversations, conversations

if TYPE_CHECKING:
    from engramlog.projections.embedding.semantics import Semantics
    from engramlog.projections.recall.request_facts import Survey


SHARES_KEPT_MAX = 16
"""Sets of conversations whose shares are kept."""


class Shares:
    """The shares of the members of some conversations. Parallel stages may both find the same
    numbers, which are then equal. ``lengths``: terms of every fact by slot. ``steps``: the
    distances from which a fact gets something (below 0: before it)."""

    def __init__(self, talk: Conversations, context: ConversationContext, lengths: I32) -> None:
        shares = shares_of(context)
        self.talk = talk
        self.steps = tuple(shares)
        self._share = tuple(shares.values())
        self._context = context
        self._lengths = lengths
        # Zeroed pages from the system: members that no question reaches cost no memory.
        self._known: Bool = np.zeros(len(talk.members), dtype=np.bool_)
        self._shares: F64 = np.zeros((len(self.steps), len(talk.members)))
        self._blended = _Blended(None, 0, len(talk.members))

    def at(self, places: I64) -> F64:
        """A line for each of ``steps``: the share that each fact gets from its neighbour there."""
        if not len(places):
            return np.zeros((len(self.steps), 0))
        if not self._known[places].all():
            self._find(places[~self._known[places]])
        return self._shares.take(places, axis=1)

    def _find(self, places: I64) -> None:
        talk = self.talk
        own = bounded(self._lengths[talk.members[places]], self._context)
        for line, (step, share) in enumerate(zip(self.steps, self._share, strict=True)):
            given = bounded(self._lengths[talk.at(places + step)], self._context)
            self._shares[line, places] = share * own * given * talk.near(places, step)
        self._known[places] = True

    def blended_lengths(self, semantics: Semantics, places: I64) -> F64:
        """The length of each fact's vector plus its neighbours' shares."""
        vectors, held = semantics.vectors, self._blended
        if held.vectors is not vectors or held.changes != vectors.changes:
            held = self._blended = _Blended(vectors, vectors.changes, len(self.talk.members))
        missing = places[~held.known[places]]
        if len(missing):
            missing = np.sort(missing)
            held.lengths[missing] = self._blended_lengths(semantics, missing)
            held.known[missing] = True
        found: F64 = held.lengths[places]
        return found

    def _blended_lengths(self, semantics: Semantics, places: I64) -> F64:
        """The sums themselves are never built: a few products of each vector with the next ones
        suffice, and all near facts share them."""
        steps = sorted((0, *self.steps))
        members = self.talk.stretch(places, -steps[0], steps[-1])
        rows, _ = semantics.vectors.rows(self.talk.members[members])
        found = self.at(places)
        weights = {step: found[line] for line, step in enumerate(self.steps)}
        weights[0] = np.ones(len(places))
        # Each row by itself: the last bits of a matrix product depend on the other rows.
        overlaps = [
            np.vecdot(rows[: len(rows) - apart], rows[apart:]).astype(np.float64)
            for apart in range(min(steps[-1] - steps[0] + 1, len(rows)))
        ]
        here = members.searchsorted(places)
        squared = np.zeros(len(places))
        for number, step in enumerate(steps):
            squared += weights[step] ** 2 * overlaps[0].take(here + step, mode="clip")
            for later in steps[number + 1 :]:
                if later - step < len(overlaps):
                    overlap = overlaps[later - step].take(here + step, mode="clip")
                    squared += 2.0 * weights[step] * weights[later] * overlap
        return np.sqrt(np.maximum(squared, 0.0))


class _Blended:
    """Lengths by place, of those ``known``, for the vectors after so many ``changes``."""

    def __init__(self, vectors: object, changes: int, count: int) -> None:
        self.vectors = vectors
        self.changes = changes
        self.lengths: F64 = np.zeros(count)
        self.known: Bool = np.zeros(count, dtype=np.bool_)


def shares(survey: Survey, context: ConversationContext, slots: I32) -> Shares:
    """Of the conversations of ``slots``."""
    kept: Remembered = survey.surviving.survivors.derived(
        "shares", lambda: Remembered(SHARES_KEPT_MAX)
    )
    talk = conversations(survey, context, slots)
    found: Shares | None = kept.get(id(talk))
    if found is None or found.talk is not talk:
        found = Shares(talk, context, survey.view.length)
        kept.put(id(talk), found)
    return found


def bounded(terms: I32, context: ConversationContext) -> F64:
    """The factor on the shares that facts with this many terms get and give."""
    if context.terms is None:
        return np.ones(len(terms))
    return context.terms / np.maximum(terms, context.terms)
