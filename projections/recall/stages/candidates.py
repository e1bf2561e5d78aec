"""The output of a stage, and the exceptions with which a stage reports that it did not run."""

from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool, Keys

Status = Literal["completed", "skipped", "not-requested", "disabled", "deadline", "failed"]


def by_slot(slots: I32) -> Keys:
    """Sort keys for facts without an age."""
    return (slots,)


def best_indices(scores: F64, count: int, ages: Callable[[I64], Keys]) -> I64:
    """Indices of the ``count`` highest scores, ascending; among equals the oldest by ``ages``, keys
    of indices."""
    if len(scores) <= count:
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    best: I64 = (scores >= least).nonzero()[0]
    if len(best) > count:
        above, equal = best[scores[best] > least], best[scores[best] == least]
        equal = equal[np.lexsort(ages(equal))][: count - len(above)]
        best = np.sort(np.concatenate([above, equal]))
    return best


class Candidates(Struct, frozen=True):
    """Facts that a stage proposes.

    ``slots`` ascending and unique; raw ``scores`` above 0; ``hops`` from a seed (0 for direct
    hits); ``why`` gives reasons in words, of each of some of the slots; ``detail``: how the stage
    found facts, or what it could not read, if anything. ``ages``: sort keys of slots, older first.
    ``origin``: the part of the stage that found a fact; None without parts. ``strong``: facts that
    hold every keyword; None if the stage cannot tell. ``unjudged``: ascending slots of facts that
    the stage could not judge yet. ``builds_on``: whether the stage judged by other stages' hits
    instead of by the facts themselves. ``whole``: the score that counts fully; 0 if that is the
    highest, whatever it is.
    """

    slots: I32
    scores: F64
    hops: I32
    why: Callable[[I32], list[list[str]]]
    detail: str = ""
    ages: Callable[[I32], Keys] = by_slot
    origin: Callable[[int], str] | None = None
    strong: frozenset[int] | None = None
    unjudged: I32 | None = None
    builds_on: bool = False
    whole: float = 0.0

    def best(self, count: int) -> "Candidates":
        """The ``count`` highest scores; among equals the older facts."""
        if len(self.slots) <= count:
            return self
        return self.only(best_indices(self.scores, count, lambda at: self.ages(self.slots[at])))

    def leading(self, count: int) -> I64:
        """Indices of the ``count`` highest scores, and of all that tie with the last, ascending."""
        scores = self.scores
        if len(scores) <= count:
            return np.arange(len(scores))
        return np.flatnonzero(scores >= np.partition(scores, len(scores) - count)[-count])

    def only(self, chosen: I64 | Bool) -> "Candidates":
        """The candidates chosen by index or mask."""
        slots, scores, hops = self.slots[chosen], self.scores[chosen], self.hops[chosen]
        return msgspec.structs.replace(self, slots=slots, scores=scores, hops=hops)


class StageOutcome(Struct, frozen=True):
    """The outcome of a stage. ``hits`` counts candidates after the gate. ``skipped_after``: the
    stage that had found enough."""

    name: str
    status: Status
    hits: int
    milliseconds: float
    detail: str = ""
    label: str = ""
    skipped_after: str | None = None


class StageDisabled(Exception):
    """This request switches the stage off; the message gives the reason."""


class DeadlinePassed(Exception):
    """The stage ran out of its time."""
