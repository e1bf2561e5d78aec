"""BM25 over posting lists, with every statistic counted over the survivors.

``idf = ln(1 + (N - df + 0.5) / (df + 0.5))``; ``score = sum of idf * tf * (k1 + 1) / (tf + k1 * (1
- b + b * length / average length))``. A fact matches if it holds any term of the query; terms count
once, in sorted order. If the profile has a ``context``, ``tf`` and ``length`` include shares of the
neighbours'.
"""

import math
import re
from collections.abc import Mapping
from itertools import compress, islice
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32
from engramlog.projections.ascending import among, places
from engramlog.projections.image.view import View
from engramlog.projections.recall.conversation.channels import said_by
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import surroundings
from engramlog.projections.recall.conversation.shares import Shares, shares
from engramlog.projections.recall.conversation.speakers import capitalised_words
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, best_indices
from engramlog.projections.recall.stages.tally import Tally, looked_up
from engramlog.projections.text.stop_words import STOP_WORDS, without_stop_words

TERMS_MAX = 64
"""The most terms of a query that are searched."""
_NEIGHBOURS = re.compile(r"(?<![^\W_])(?=([^\W\d_]+)([ _-])([^\W\d_]+)(\s*(?:[^\w\s]|$))?)")
"""Two words side by side, each pair, and what ends a phrase after them."""


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``k1``: how soon repetition saturates. ``b``: how much length counts against a fact.
    ``joined``: whether two neighbouring words are also searched as one."""

    k1: Annotated[float, Meta(ge=0, le=10)] = 1.2
    b: Annotated[float, Meta(ge=0, le=1)] = 0.75
    joined: bool = False


class Term(Struct, frozen=True):
    """A term of the query: its weight, the survivors that hold it, and how often."""

    text: str
    idf: float
    slots: I32
    frequencies: F64

    def frequency(self, slots: I32, count: int = 0) -> F64:
        """How often each of ``slots`` holds the term. Many slots are found sooner with ``count``,
        that of all facts."""
        if len(self.slots) < count and len(self.slots) < slots.size:
            return looked_up(count, self.slots, self.frequencies, slots)
        if not len(self.slots):
            return np.zeros(slots.shape)
        at, holds = places(self.slots, slots)
        return np.where(holds, self.frequencies[at], 0.0)


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """Every survivor that holds a term of the query, ascending by slot; with a context, the best of
    them and their neighbours."""
    said = _said_by_names(survey)
    texts = query_terms(survey.view, survey.request.query)
    if parameters.joined:
        texts = sorted({*texts, *_joined_terms(survey)})
    terms = [_term(survey, text, said.get(text)) for text in texts]
    slots, scores = _bm25(survey, terms, parameters)
    if survey.context is not None:
        slots, scores = _in_context(survey, survey.context, terms, parameters, slots, scores)

    def why(chosen: I32) -> list[list[str]]:
        holds = [(term.frequency(chosen) > 0).tolist() for term in terms]
        found: list[list[str]] = []
        for of_fact in zip(*holds, strict=True):
            held = ", ".join(compress(texts, of_fact))
            found.append([f"lexical: holds {held}" if held else "lexical: near facts that match"])
        return found

    hops = np.zeros(len(slots), dtype=np.int32)
    details = [f"{word} is read as {name}" for word, name in survey.names.items()]
    if survey.topic is not None:
        details.append(f"a question about the whole conversation, on: {survey.topic}")
    detail = "; ".join(details)
    return Candidates(slots, scores, hops, why, detail, ages=survey.view.ages)


def query_terms(view: View, query: str) -> list[str]:
    """The query's distinct terms, sorted; stop-words only if no other term is left."""
    terms = view.tokenize(without_stop_words(query)) or view.tokenize(query)
    return sorted(set(terms[:TERMS_MAX]))


def _joined_terms(survey: Survey) -> list[str]:
    """Terms of facts that are two neighbouring words of the query in one: "email" for "e-mail",
    "todo" for "left to do". Inside a phrase, two stop-words are none: "be an" asks for no bean."""
    view, joined = survey.view, list[str]()
    for pair in islice(_NEIGHBOURS.finditer(survey.request.query), TERMS_MAX):
        one, mark, other, end = pair.groups()
        if (one + other).lower() in STOP_WORDS:
            continue
        idle = end is None and STOP_WORDS.issuperset((one.lower(), other.lower()))
        if mark == " " and (idle or min(len(one), len(other)) == 1):
            continue
        terms = view.tokenize(one + other)
        if len(terms) == 1 and survey.survivor_mask[view.postings(terms[0])[0]].any():
            joined += terms
    return joined


def _said_by_names(survey: Survey) -> dict[str, I32]:
    """By term of the query: what the speakers of this name said in channels, whose facts need not
    hold the name."""
    if survey.context is None:
        return {}
    found: dict[str, I32] = {}
    for word in capitalised_words(survey.request.query):
        terms, said = survey.view.tokenize(word), said_by(survey, word)
        if len(terms) == 1 and len(said):
            found[terms[0]] = said
    return found


def _term(survey: Survey, text: str, said: I32 | None) -> Term:
    survivors = survey.surviving.survivors
    slots, frequencies = survey.view.postings(text)
    if said is not None:
        every = np.union1d(slots, said)
        total = among(every, said).astype(np.int32)
        total[every.searchsorted(slots)] += frequencies
        slots, frequencies = every, total
    if not survivors.everything:
        kept = survivors.mask[slots]
        slots, frequencies = slots[kept], frequencies[kept]
    count, df = len(survivors.slots), len(slots)
    idf = math.log1p((count - df + 0.5) / (df + 0.5))
    return Term(text, idf, slots, frequencies.astype(np.float64))


def _bm25(survey: Survey, terms: list[Term], parameters: Parameters) -> tuple[I32, F64]:
    """Slots that hold a term, and their scores."""
    view, survivors = survey.view, survey.surviving.survivors
    count = len(survivors.slots)
    if not count:
        return survivors.slots, np.empty(0)
    average = max(survivors.total_length / count, 1.0)
    tally = Tally(view.count)
    for term in terms:
        lengths = view.length[term.slots] / average
        tally.add(term.slots, _of_term(term.idf, term.frequencies, lengths, parameters))
    return tally.result()


def _in_context(
    survey: Survey,
    context: ConversationContext,
    terms: list[Term],
    parameters: Parameters,
    slots: I32,
    scores: F64,
) -> tuple[I32, F64]:
    """The best facts and their neighbours, each scored as if it held a share of its neighbours'
    words. The average length is that of these facts with their shares."""
    best = slots[best_indices(scores, context.pool, lambda at: survey.view.ages(slots[at]))]
    if not len(best):
        return slots, scores
    given = shares(survey, context, best)
    pool = surroundings(given.talk, context, best)
    share, everyone = _with_neighbours(given, pool)
    lengths = (share * survey.view.length[everyone]).sum(axis=0)
    lengths /= max(float(lengths.mean()), 1.0)
    total: F64 = np.zeros(len(pool))
    for term in terms:
        frequency = (share * term.frequency(everyone, survey.view.count)).sum(axis=0)
        total += _of_term(term.idf, frequency, lengths, parameters)
    held = total > 0
    return pool[held], total[held]


def _with_neighbours(given: Shares, pool: I32) -> tuple[F64, I32]:
    """Facts and their neighbours, a line for each step, and the share that each lends: first the
    facts themselves, which count in full."""
    at, inside = given.talk.places(pool)
    if not inside.any():
        return np.ones((1, len(pool))), pool[np.newaxis]
    everyone = np.stack([pool, *(given.talk.at(at + step) for step in given.steps)])
    share = np.zeros(everyone.shape)
    share[0] = 1.0
    share[1:, inside] = given.at(at[inside])
    return share, everyone


def _of_term(idf: float, frequency: F64, length: F64, parameters: Parameters) -> F64:
    k1, b = parameters.k1, parameters.b
    return idf * frequency * (k1 + 1.0) / (frequency + k1 * (1.0 - b + b * length))
