"""BM25 over posting lists, with every statistic counted over the survivors.

``idf = ln(1 + (N - df + 0.5) / (df + 0.5))``;
``score = sum of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average length))``.
A fact matches if it holds any term of the query; terms count once, in sorted order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta, Struct

from projections.arrays import F64, I32
from projections.recall.candidates import Candidates
from projections.recall.tally import Tally

if TYPE_CHECKING:
    from projections.recall.survey import Survey
    from projections.view import View

TERMS_MAX = 64
"""Terms of a query that are looked up; the rest of a longer query is not searched."""

_STOP_TEXT = """
    a about am an and any are as at be been being but by can could d did do does doing for
    from had has have having he her hers him his how i if in into is it its just ll m me my
    of on or our ours re s she should so some such t than that the their theirs them then
    there these they this those to too us ve very was we were what when where which while who
    whom whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD_EDGE = r"[\w\u0300-\u036f]"
_STOP_WORD = re.compile(
    rf"(?<!{_WORD_EDGE})(?:{'|'.join(sorted(STOP_WORDS))})(?!{_WORD_EDGE})", re.IGNORECASE
)


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``k1``: how soon repetition saturates. ``b``: how much length counts against a fact."""

    k1: Annotated[float, Meta(ge=0, le=10)] = 1.2
    b: Annotated[float, Meta(ge=0, le=1)] = 0.75


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """Every survivor that holds a term of the query, ascending by slot."""
    view = survey.view
    holders: dict[str, I32] = {}
    slots, scores = _bm25(survey, query_terms(view, survey.request.query), parameters, holders)

    def why(slot: int) -> list[str]:
        held = [term for term, among in holders.items() if _holds(among, slot)]
        return [f"lexical: holds {', '.join(held)}"]

    return Candidates(slots, scores, np.zeros(len(slots), dtype=np.int32), why)


def query_terms(view: View, query: str) -> list[str]:
    """The query's distinct terms, sorted; stop-words only where nothing else is left."""
    terms = view.tokenize(_STOP_WORD.sub(" ", query)) or view.tokenize(query)
    return sorted(set(terms[:TERMS_MAX]))


def _bm25(
    survey: Survey, terms: list[str], parameters: Parameters, holders: dict[str, I32]
) -> tuple[I32, F64]:
    """Slots that hold a term, and their scores; notes in ``holders`` which survivors hold
    each term."""
    view, survivors = survey.view, survey.surviving.survivors
    count = len(survivors.slots)
    if not count:
        return survivors.slots, np.empty(0)
    average = max(survivors.total_length / count, 1.0)
    k1, b = parameters.k1, parameters.b
    tally = Tally(view.count)
    for term in terms:
        slots, frequencies = view.postings(term)
        if not survivors.everything:
            kept = survivors.mask[slots]
            slots, frequencies = slots[kept], frequencies[kept]
        frequency = frequencies.astype(np.float64)
        holders[term] = slots
        df = len(slots)
        idf = math.log1p((count - df + 0.5) / (df + 0.5))
        norm = k1 * (1.0 - b + b * (view.length[slots] / average))
        tally.add(slots, idf * frequency * (k1 + 1.0) / (frequency + norm))
    return tally.result()


def _holds(slots: I32, slot: int) -> bool:
    at = int(slots.searchsorted(slot))
    return at < len(slots) and int(slots[at]) == slot
