"""A second hop for passages: facts that hold a name which the best hits bring up.

"Where was the director of Heat born?" is answered by two passages. The first names the director,
and shares words with the question; the second is about that director, and may share none. So names
in the best hits that the question lacks are searched: ``r / sqrt(n)`` for a name in a hit of the
relative score ``r`` that ``n`` facts hold, and in proportion less if no hit is like the question
(``LIKE``). Facts of conversations neither lend names nor are found this way: they have their
context, and name each other often.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32, Bool
from engramlog.projections.ascending import among, distinct, places
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled, best_indices
from engramlog.projections.text.stop_words import STOP_WORDS

LEADING = 20
"""How many of each stage's best hits are compared."""
LIKE = 0.4
"""The semantic score of a fact that is like the question."""
LETTERS_MIN = 4
NAMES_MAX = 40
"""The most names of one fact that are searched."""
NAME_WORDS_MAX = 8
QUESTION_WORDS_MAX = 32
"""The most words of a question that are tried as names."""

_NAME = re.compile(
    r"[A-Z][\w'\u2019&-]*"
    r"(?: +(?:(?:of|the|and|de|for|in) +)?[A-Z][\w'\u2019&-]*)*"
)


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``facts``: how many of the best hits lend names. ``holders_max``: how many other facts may
    hold a name; more common ones say too little."""

    facts: Annotated[int, Meta(ge=1, le=20)] = 3
    holders_max: Annotated[int, Meta(ge=1, le=100)] = 5


def run(survey: Survey, parameters: Parameters, earlier: Mapping[str, Candidates]) -> Candidates:
    """Facts outside conversations that hold such a name, ascending by slot. Raises StageDisabled:
    neither a best hit outside a conversation nor the question brings up a name that others hold."""
    scored: dict[int, tuple[float, str]] = {}
    lent = [*_lent_by_hits(survey, parameters, earlier), *_lent_by_question(survey, parameters)]
    held = distinct(np.concatenate([np.empty(0, dtype=np.int32), *(each.held for each in lent)]))
    alone = held[_alone(survey, held)]
    for each in lent:
        holders = each.held[among(each.held, alone)]
        for holder in holders.tolist():
            score = each.share / float(np.sqrt(len(holders)))
            scored[holder] = max(scored.get(holder, (0.0, "")), (score, each.reason))
    if not scored:
        raise StageDisabled("neither question nor best facts bring up a name that others hold")
    slots: I32 = np.array(sorted(scored), dtype=np.int32)
    scores: F64 = np.array([scored[slot][0] for slot in slots.tolist()])

    def why(chosen: I32) -> list[list[str]]:
        return [[f"bridge: holds {scored[slot][1]}"] for slot in chosen.tolist()]

    hops = np.zeros(len(slots), dtype=np.int32)
    return Candidates(slots, scores, hops, why, ages=survey.view.ages, whole=1.0)


def _likeness(earlier: Mapping[str, Candidates]) -> float:
    """How like the question the best hit is, at most 1; 1 if meaning says nothing."""
    meant = earlier.get("semantic")
    if meant is None or not len(meant.scores):
        return 1.0
    return min(1.0, float(meant.scores.max()) / LIKE)


class _Lent(Struct, frozen=True):
    """The survivors to which a name leads: its ``share`` of the highest score, and why."""

    share: float
    reason: str
    held: I32


def _lent_by_hits(
    survey: Survey, parameters: Parameters, earlier: Mapping[str, Candidates]
) -> Iterator[_Lent]:
    """The names that the best hits bring up and few others hold."""
    view, likeness = survey.view, _likeness(earlier)
    asked = set(view.tokenize(survey.request.query))
    for slot, relative in _best_hits(survey, parameters.facts, earlier):
        for name in _names(view.value_text_of(slot)):
            terms = set(view.tokenize(name))
            if not terms <= asked:
                held = survey.holding(terms)
                if 1 < len(held) <= parameters.holders_max + 1:
                    reason = f"{name}, as a better hit"
                    yield _Lent(likeness * relative, reason, held[held != slot])


def _lent_by_question(survey: Survey, parameters: Parameters) -> list[_Lent]:
    """The names that few survivors hold, of a question with several names."""
    held = dict(_names_of_question(survey))
    if len(held) == 1:
        return []
    return [
        _Lent(1.0, f"{name}, as the question", slots)
        for name, slots in held.items()
        if len(slots) <= parameters.holders_max
    ]


def _names_of_question(survey: Survey) -> Iterator[tuple[str, I32]]:
    """The longest parts of the question's capitalised phrases that survivors hold; none has an
    "and", which rather joins two names."""
    left = QUESTION_WORDS_MAX
    for phrase in " and ".join(_names(survey.request.query)).split(" and "):
        words = phrase.split()[:left]
        left -= len(words)
        while words:
            count = 0
            for count in range(min(len(words), NAME_WORDS_MAX), 0, -1):
                if STOP_WORDS.isdisjoint((words[0].casefold(), words[count - 1].casefold())):
                    name = " ".join(words[:count])
                    held = survey.holding(set(survey.view.tokenize(name)))
                    if len(held):
                        yield name, held
                        break
            words = words[count:]


def _best_hits(
    survey: Survey, count: int, earlier: Mapping[str, Candidates]
) -> Iterator[tuple[int, float]]:
    """The best hits of the earlier stages together that are outside conversations, each with its
    share of the best score."""
    judged = [hits for hits in earlier.values() if not hits.builds_on and len(hits.slots)]
    if not judged:
        return
    leading = [hits.best(LEADING).slots for hits in judged]
    slots: I32 = distinct(np.concatenate(leading))
    scores = np.zeros(len(slots))
    for hits in judged:
        at, found = places(hits.slots, slots)
        own = np.where(found, hits.scores[at], 0.0)
        scores += own / hits.scores.max()
    best = best_indices(scores, count, lambda at: survey.view.ages(slots[at]))
    kept = best[_alone(survey, slots[best])]
    for at in kept.tolist():
        yield int(slots[at]), float(scores[at] / scores.max())


def _alone(survey: Survey, slots: I32) -> Bool:
    """Which facts are in no conversation with others."""
    if survey.context is None or not len(slots):
        return np.ones(len(slots), dtype=np.bool_)
    talk = conversations(survey, survey.context, slots)
    number = talk.of(slots)
    sizes = np.bincount(talk.number, minlength=1)
    return (number < 0) | (sizes[np.maximum(number, 0)] == 1)


def _names(text: str) -> list[str]:
    """Capitalised phrases, each once, in their order."""
    found = dict.fromkeys(_NAME.findall(text))
    return [
        name for name in found if len(name) >= LETTERS_MIN and name.casefold() not in STOP_WORDS
    ][:NAMES_MAX]
