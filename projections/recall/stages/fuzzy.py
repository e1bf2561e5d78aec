"""Sf: three searches one after the other, by stems, then letter by letter (abmind's seed).

``porter`` searches each keyword as a phrase in a fact's value, not in the entity and relation,
which many facts share. If it finds fewer facts than the answer may hold, two more searches look for
the keywords as pieces of text, ignoring accents and case: ``trigram_en`` in the same text and the
fact's keywords, ``trigram_orig`` in the user's own words. A piece without a hit is tried with z and
y exchanged, then in overlapping windows, some of which survive a typing error. The first search
that finds a fact is its origin. All statistics are counted over the survivors.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32
from engramlog.projections.columns.substring_index import beginning, strip_diacritics
from engramlog.projections.image.fact_texts import Which
from engramlog.projections.recall.factors.memory_features import load_memories
from engramlog.projections.recall.keywords import Cutting, Keywords, keywords_of
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.bm25_product import Product, bm25_product
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled
from engramlog.projections.recall.stages.fuzzy_search import FuzzySearch, Hit

BY_LETTERS: tuple[tuple[str, Which], ...] = (
    ("trigram_en", "content"),
    ("trigram_orig", "original"),
)


class Parameters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to search, and the score of a hit.

    Attributes:
        fetch: hits of one search, as a multiple of the answer's limit.
        cutting: how to split a message of several words.
        rescue: for such a message, always search each term letter by letter, and take this many
            new facts per term and text; 0 only fills up to the limit.
        coverage: rank facts by how many keywords they hold and how rare those are; facts with
            all of them are strong hits.
        scoring: ``product`` is abmind's formula with the numbers of ``product``; ``place`` keeps
            only the order.
    """

    fetch: Annotated[int, Meta(ge=1, le=20)] = 3
    cutting: Cutting = Cutting()
    rescue: Annotated[int, Meta(ge=0, le=100)] = 0
    coverage: bool = False
    scoring: Literal["product", "place"] = "product"
    product: Product = Product()


def judges(parameters: Parameters) -> bool:
    """Whether this marks facts that hold every keyword."""
    return parameters.coverage


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """What the searches find, ascending by slot. Raises StageDisabled without a keyword."""
    words = keywords_of(survey.request, parameters.cutting)
    if not words.phrases:
        raise StageDisabled("the request has no keyword")
    pool = _run_searches(survey, parameters, words)
    strong: frozenset[int] | None = None
    if parameters.coverage:
        covered = {slot: _keywords_in(survey, slot, words) for slot in pool}
        wanted = len(words.wanted)
        strong = frozenset(n for n, held in covered.items() if len(held) == wanted > 0)
        if not words.raw:
            pool = _by_coverage(survey, pool, covered)
    slots: I32 = np.array(sorted(pool), dtype=np.int32)
    return Candidates(
        slots,
        _scores(survey, parameters, pool, slots),
        np.zeros(len(slots), dtype=np.int32),
        lambda slots: [
            [f"fuzzy: by {found.origin}, {found.of}"]
            for found in map(pool.__getitem__, slots.tolist())
        ],
        detail=_counts(pool),
        ages=survey.view.ages,
        origin=lambda slot: pool[slot].origin,
        strong=strong,
    )


def _run_searches(survey: Survey, parameters: Parameters, words: Keywords) -> dict[int, Hit]:
    """Hits by slot, in the order found; the first search that finds a fact keeps it."""
    search = FuzzySearch(survey, parameters.fetch * survey.limit)
    pool: dict[int, Hit] = {}

    def take(hits: list[tuple[int, Hit]], most: int | None = None) -> None:
        fresh = [(slot, hit) for slot, hit in hits if slot not in pool]
        pool.update(fresh[:most])

    take(search.phrases(words.phrases))
    if words.raw:
        take(search.phrases(words.terms))
    if words.raw and parameters.rescue:
        for term in words.terms:
            for origin, which in BY_LETTERS:
                take(search.letters(term, origin, which), parameters.rescue)
        return pool
    for origin, which in BY_LETTERS:
        for piece in words.probes:
            if len(pool) < survey.limit:
                take(search.letters(piece, origin, which))
    return pool


def _scores(survey: Survey, parameters: Parameters, pool: Mapping[int, Hit], slots: I32) -> F64:
    if parameters.scoring == "place":
        place = {slot: 1.0 / (1 + n) for n, slot in enumerate(pool)}
        return np.array([place[slot] for slot in slots.tolist()], dtype=np.float64)
    bm25 = np.array([pool[slot].bm25 for slot in slots.tolist()], dtype=np.float64)
    return bm25_product(bm25, load_memories(survey, slots), parameters.product)


def _keywords_in(survey: Survey, slot: int, words: Keywords) -> list[str]:
    """The keywords that begin a word of the fact's texts."""
    view = survey.view
    own = view.attributes(np.array([slot], dtype=np.int32), survey.moment)[0]
    text = strip_diacritics(f"{view.value_text_of(slot)} {own.keywords} {own.original}")
    return [wanted for wanted in words.wanted if beginning(wanted)(text)]


def _by_coverage(
    survey: Survey, pool: dict[int, Hit], covered: Mapping[int, list[str]]
) -> dict[int, Hit]:
    """The pool by the sum of ``ln(1 + N / df)`` over a fact's keywords; equals keep their order."""
    survivors = survey.surviving.survivors
    count = len(survivors.slots)
    weights: dict[str, float] = {}
    for term in {term for held in covered.values() for term in held}:
        lists = [survey.view.content_postings(stem)[0] for stem in survey.view.tokenize(term)]
        holding = min((int(np.count_nonzero(survivors.mask[slots])) for slots in lists), default=0)
        weights[term] = math.log1p(count / max(1, holding))
    weight = {slot: math.fsum(weights[term] for term in held) for slot, held in covered.items()}
    return dict(sorted(pool.items(), key=lambda item: -weight[item[0]]))


def _counts(pool: Mapping[int, Hit]) -> str:
    """How many facts each search found."""
    origins = [hit.origin for hit in pool.values()]
    return ", ".join(f"{origins.count(each)} by {each}" for each in dict.fromkeys(origins))
