"""The intent of a question, and which of its words are searched (abmind's newer version).

An ``explicit`` question is searched in full: no word is rewritten or dropped. ``ambient`` questions
come with every turn of a conversation, of any speaker. Words that a great share of the facts hold
do not distinguish facts and are dropped; if no other word is left, no search runs. Shares are
counted over the survivors: the facts that this caller may read at this moment and that pass the
request's filters.
"""

from functools import reduce
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.columns.substring_index import strip_diacritics
from engramlog.projections.image.fact_texts import Which
from engramlog.projections.recall.keywords import entries_of, own_words, words_of
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.fuzzy_search import PIECE_MIN

SkipReason = Literal["no-informative-terms"]
NO_INFORMATIVE_TERMS: SkipReason = "no-informative-terms"

JUDGED_MAX = 64
"""Words of one text that are looked up; later words are kept without a check."""
BY_LETTERS_MAX = 16
"""How many of these may be words that the index does not know. Counting them letter by letter reads
all texts; further such words are kept without a check."""

_TEXTS: tuple[Which, ...] = ("content", "original")


class Ambient(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a term is too common to distinguish facts. ``ceiling``: the largest share of the facts
    that may hold it; a more common term is dropped. ``facts_min``: among fewer facts, no term
    counts as common."""

    ceiling: Annotated[float, Meta(gt=0, le=1)] = 0.5
    facts_min: Annotated[int, Meta(ge=1, le=1_000_000)] = 10


class Chosen(Struct, frozen=True):
    """The request with its distinguishing terms, and the dropped ones. ``skipped``: why no search
    runs at all."""

    request: RecallRequest
    dropped: tuple[str, ...] = ()
    skipped: SkipReason | None = None


def choose(survey: Survey, ambient: Ambient) -> Chosen:
    """What to search for in an ambient request.

    A keyword of several words is common if too many facts hold all of them. A message alone is
    judged word by word and keeps its meaning: only the stages that search for words use the
    remaining words. The question in the caller's own words stays whole; if one of its words
    distinguishes facts, keywords that are all common stay too.
    """
    request = survey.request
    entries = entries_of(request)
    message = len(entries) == 1 and len(entries[0].split()) > 1
    terms = words_of(entries) if message else entries
    kept = _distinguishing_terms(survey, ambient, terms)
    if not kept:
        if not _distinguishing_terms(survey, ambient, words_of([own_words(request)])):
            return Chosen(request, tuple(terms), NO_INFORMATIVE_TERMS)
        return Chosen(request)
    if len(kept) == len(terms):
        return Chosen(request)
    left = " ".join(kept)
    if message:
        # The remaining words are searched; its meaning stays that of the whole message.
        changed = msgspec.structs.replace(request, keywords=(left,))
    else:
        changed = msgspec.structs.replace(request, query=left, keywords=tuple(kept))
    dropped = tuple(dict.fromkeys(term for term in terms if term not in kept))
    return Chosen(changed, dropped)


def _distinguishing_terms(survey: Survey, ambient: Ambient, terms: list[str]) -> list[str]:
    """The terms that not too many survivors hold."""
    count = len(survey.survivors)
    if count < ambient.facts_min:
        return terms
    most = ambient.ceiling * count
    judged = list(dict.fromkeys(terms))[:JUDGED_MAX]
    held = {term: _count_by_stems(survey, term) for term in judged}
    unknown = [term for term, holding in held.items() if not holding]
    held |= {term: _count_by_letters(survey, term) for term in unknown[:BY_LETTERS_MAX]}
    return [term for term in terms if held.get(term, 0) <= most]


def _count_by_stems(survey: Survey, term: str) -> int:
    """How many survivors hold all stems of a term in their text."""
    view, survivors = survey.view, survey.surviving.survivors
    stems = dict.fromkeys(view.tokenize(term))
    if not stems:
        return 0
    slots = reduce(np.intersect1d, (view.content_postings(stem)[0] for stem in stems))
    return int(np.count_nonzero(survivors.mask[slots]))


def _count_by_letters(survey: Survey, term: str) -> int:
    """How many survivors hold a term as a piece of their texts, the user's own words and the
    keywords included."""
    view, survivors = survey.view, survey.surviving.survivors
    folded = strip_diacritics(term)
    if len(folded) < PIECE_MIN:
        return 0
    held = [view.texts.counts(view, survey.moment, which, folded) > 0 for which in _TEXTS]
    return int(np.count_nonzero((held[0] | held[1])[survivors.slots]))
