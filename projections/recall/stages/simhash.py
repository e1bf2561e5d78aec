"""Ss: facts whose signature is near the question's (abmind's seed, "Ss").

``score = 1 - hamming / 256``, of all survivors or of a sample of them. Version 1 signs as abmind
does. Version 2 weighs the question's words by how few survivors hold them (``ln(1 + N / df)``); a
fact's signature never depends on other facts.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import I32
from engramlog.projections.columns.simhash import StillSigning, sign_v1, sign_v2, similarities
from engramlog.projections.image.view import View
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled, best_indices
from engramlog.projections.text.stop_words import without_stop_words

MULTIPLIER = 2_654_435_761
MODULUS = 2_147_483_647
"""Of abmind's order of rows: ``number * MULTIPLIER % MODULUS``."""


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """``threshold``: least similarity, inclusive. ``cap``: most candidates. ``rows``: of more
    survivors, compare this many of the whole history, always the same ones (see ``sampled``); None
    compares all."""

    version: Literal[1, 2] = 1
    rows: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.65
    cap: Annotated[int, Meta(ge=1, le=5000)] = 5


def run(survey: Survey, parameters: Parameters, _earlier: Mapping[str, Candidates]) -> Candidates:
    """The survivors most similar to the question, ascending by slot; among equals the oldest.
    Raises StageDisabled: the question has nothing to sign, or some facts are not signed yet."""
    signature = sign_v1([survey.request.query])[0].tobytes()
    if parameters.version == 2:
        signature = _weighted_signature(survey)
    if not any(signature):
        raise StageDisabled("the question has no word to sign")
    slots = sampled(survey.survivors, parameters.rows, survey.view)
    try:
        signed = survey.view.signatures(slots, parameters.version)
    except StillSigning as fault:
        raise StageDisabled(str(fault)) from fault
    compared = len(slots)
    likeness = similarities(signed, signature)
    # A text without words has all bits 0, which resembles the many 0s of a short question.
    near = np.flatnonzero((likeness >= parameters.threshold) & signed.any(axis=1))
    ages = survey.view.ages
    best = near[best_indices(likeness[near], parameters.cap, lambda at: ages(slots[near[at]]))]
    slots, likeness = slots[best], likeness[best]

    def why(chosen: I32) -> list[list[str]]:
        alike = likeness[slots.searchsorted(chosen)].tolist()
        return [[f"simhash: {each:.3f} of the bits agree"] for each in alike]

    missing = len(survey.survivors) - compared
    detail = f"{compared} of {compared + missing} facts compared" if missing else ""
    hops = np.zeros(len(slots), dtype=np.int32)
    return Candidates(slots, likeness, hops, why, detail=detail, ages=ages)


def sampled(slots: I32, rows: int | None, view: View) -> I32:
    """At most ``rows`` of the slots, ascending: the first in a fixed pseudo-random order (abmind's
    newer version). A fact's place comes from its id alone, so it is the same on every node."""
    if rows is None or len(slots) <= rows:
        return slots
    keys = view.tie[slots].astype(np.uint64) * np.uint64(MULTIPLIER) % np.uint64(MODULUS)
    last = np.partition(keys, rows - 1)[rows - 1]
    first = np.flatnonzero(keys <= last)
    by_key = np.lexsort((*view.ages(slots[first]), keys[first]))[:rows]
    return slots[np.sort(first[by_key])]


def _weighted_signature(survey: Survey) -> bytes:
    """The question's version 2 signature, with its words weighted by rarity among the survivors."""
    survivors = survey.surviving.survivors
    terms = survey.view.tokenize(without_stop_words(survey.request.query))
    weights: dict[str, float] = {}
    for term in set(terms):
        holding = int(np.count_nonzero(survivors.mask[survey.view.postings(term)[0]]))
        weights[term] = math.log1p(len(survivors.slots) / max(holding, 1))
    return sign_v2(terms, weights)
