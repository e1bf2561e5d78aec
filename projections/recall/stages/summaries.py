"""Paragraphs of summaries that hold a keyword of the question (abmind's S6).

A paragraph matches if any keyword is a substring of it, ignoring case. All score the same. Sources
take turns, so that none takes all places; each begins with its newest periods. Of its paragraphs of
one period with the same beginning only the first counts.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import I32
from engramlog.projections.memories.summary_naming import Period, period_of_entity
from engramlog.projections.recall.keywords import entries_of, own_words
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates
from engramlog.projections.text.stop_words import STOP_WORDS

KEYWORDS_MAX = 64
BEGINNING = 80
"""How many first characters of a source's paragraphs must differ within one period."""

_OPERATORS = re.compile(r"\b(?:OR|AND|NOT)\b")
_QUOTED = re.compile(r'"([^"]*)"')
_WORDS = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``score``: of every paragraph. ``results``: most paragraphs. ``keyword_length``: shorter
    words are no keywords, unless quoted."""

    score: Annotated[float, Meta(gt=0, le=1)] = 0.5
    results: Annotated[int, Meta(ge=1, le=1000)] = 10
    keyword_length: Annotated[int, Meta(ge=1, le=100)] = 3


class _Passage(Struct, frozen=True):
    """A paragraph that matched; ``place``: in the order of all."""

    slot: int
    place: int
    period: Period
    keyword: str


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """The newest paragraphs that hold a keyword, among the survivors that pass the gate."""
    keywords = looked_for(survey.request, parameters.keyword_length)
    found = _in_turns(survey, _paragraphs_passing(survey), keywords, parameters.results)
    by_slot = {each.slot: each for each in found}

    def why(slots: I32) -> list[list[str]]:
        passages = [by_slot[slot] for slot in slots.tolist()]
        return [[f"S6:consolidation:{p.period.tier}: holds {p.keyword}"] for p in passages]

    chosen: I32 = np.array(sorted(by_slot), dtype=np.int32)
    scores = np.full(len(chosen), parameters.score)
    return Candidates(
        chosen,
        scores,
        np.zeros(len(chosen), dtype=np.int32),
        why,
        ages=survey.view.ages,
        origin=lambda slot: f"consolidation:{by_slot[slot].period.tier}",
    )


def looked_for(request: RecallRequest, length_min: int) -> list[str]:
    """The request's keywords unchanged, or those of its one message; plus, unchanged, the question
    in the caller's own words."""
    given = entries_of(request) if request.keywords else []
    if len(given) > 1:
        words = [entry.strip().lower() for entry in given]
    else:
        words = keywords_of(given[0] if given else request.query, length_min)
    original = own_words(request).lower()
    return list(dict.fromkeys([*words, original] if original else words))[:KEYWORDS_MAX]


def _paragraphs_passing(survey: Survey) -> I32:
    """Paragraphs that pass the gate and all filters except time. Time filters compare when a fact
    was recorded, but a paragraph belongs to its period, whenever it was recorded."""
    timeless = msgspec.structs.replace(survey.filters, since_us=None, until_us=None)
    slots = survey.view.summary_slots()
    return survey.admits(slots[survey.filtered(timeless).survivor_mask[slots]])


def keywords_of(query: str, length_min: int = 1) -> list[str]:
    """The keywords, in lower case: quoted text, and every other word except the operators OR, AND,
    NOT. Stop-words and short words count only if no other is left."""
    quoted = [text for part in _QUOTED.findall(query) if (text := part.strip().lower())]
    rest = _OPERATORS.sub(" ", _QUOTED.sub(" ", query))
    words = [word.lower() for word in _WORDS.findall(rest)]
    telling = [word for word in words if word not in STOP_WORDS and len(word) >= length_min]
    return list(dict.fromkeys(quoted + telling or words))[:KEYWORDS_MAX]


def _in_turns(survey: Survey, slots: I32, keywords: list[str], most: int) -> list[_Passage]:
    """Up to ``most`` paragraphs that hold a keyword: each voice's first, then each one's second."""
    rows = list(_by_period(survey, slots))
    ordered = np.array([slot for slot, _ in rows], dtype=np.int32)
    of_voice: dict[int, list[int]] = {}
    for place, voice in enumerate(survey.view.voices(ordered).tolist()):
        of_voice.setdefault(voice, []).append(place)
    waiting: list[Iterator[_Passage]] = [
        _matching(survey, rows, places, keywords) for places in of_voice.values()
    ]
    found: list[_Passage] = []
    while waiting and len(found) < most:
        turn = [(voice, next(voice, None)) for voice in waiting]
        waiting = [voice for voice, passage in turn if passage is not None]
        passages = [passage for _, passage in turn if passage is not None]
        found += sorted(passages, key=lambda each: each.place)[: most - len(found)]
    return found


def _matching(
    survey: Survey, rows: list[tuple[int, Period]], places: list[int], keywords: list[str]
) -> Iterator[_Passage]:
    """One voice's paragraphs that hold a keyword, in order; read lazily."""
    told: set[tuple[int, str]] = set()
    for place in places:
        slot, period = rows[place]
        text = survey.view.passage(slot)
        lowered = text.lower()
        keyword = next((each for each in keywords if each in lowered), None)
        beginning = period.start_us, text[:BEGINNING]
        if keyword is not None and beginning not in told:
            told.add(beginning)
            yield _Passage(slot, place, period, keyword)


def _by_period(survey: Survey, slots: I32) -> Iterator[tuple[int, Period]]:
    """Paragraphs of the periods within the request's times: the newest periods first, within one
    period the oldest first."""
    view, filters = survey.view, survey.filters
    since = -math.inf if filters.since_us is None else filters.since_us
    until = math.inf if filters.until_us is None else filters.until_us
    entities, entity_of = np.unique(view.entity[slots], return_inverse=True)
    periods = [period_of_entity(text) for text in view.entities.texts(entities.tolist())]
    starts = np.array([0 if each is None else each.start_us for each in periods], dtype=np.int64)
    kept = [each is not None and since <= each.start_us <= until for each in periods]
    chosen = np.flatnonzero(np.array(kept, dtype=np.bool_)[entity_of])
    order = np.lexsort((*view.ages(slots[chosen]), -starts[entity_of[chosen]]))
    for at in chosen[order].tolist():
        period = periods[entity_of[at]]
        assert period is not None  # those were left out
        yield int(slots[at]), period
