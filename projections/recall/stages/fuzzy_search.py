"""The searches of ``fuzzy``: phrases of stems, and pieces of text. Each returns its best hits, by
BM25 over the survivors."""

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64
from engramlog.projections.columns.substring_index import strip_diacritics
from engramlog.projections.image.fact_texts import Which
from engramlog.projections.recall.keywords import swapped, windows
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import best_indices
from engramlog.projections.recall.stages.tally import Tally

K1 = 1.2
B = 0.75
"""FTS5's numbers."""
PIECE_MIN = 3
"""Least letters of a piece: every second fact holds shorter ones."""


class Hit(Struct, frozen=True):
    """The first search that found a fact: its name, its piece, and the BM25 score."""

    origin: str
    of: str
    bm25: float


class FuzzySearch:
    """Searches over one survey's survivors, each for at most ``fetch`` hits."""

    def __init__(self, survey: Survey, fetch: int) -> None:
        self._survey = survey
        self._fetch = fetch
        self._lengths: dict[Which, tuple[I32, float]] = {}

    def phrases(self, phrases: Iterable[str]) -> list[tuple[int, Hit]]:
        """Facts that hold any of the phrases, best first."""
        view, survivors = self._survey.view, self._survey.surviving.survivors
        measured = view.content_lengths()
        total = int(measured[survivors.slots].sum(dtype=np.int64))
        average = max(total / max(len(survivors.slots), 1), 1.0)
        cut = [tuple(view.tokenize(phrase.replace('"', " "))) for phrase in phrases]
        sought = [stems for stems in dict.fromkeys(cut) if stems]
        tally = Tally(view.count)
        for stems in sought:
            slots, frequencies = self._holding_sequence(stems)
            lengths = measured[slots] / average
            tally.add(slots, self._bm25(frequencies, lengths))
        slots, scores = tally.result()
        return self._best(slots, scores, "porter", " or ".join(" ".join(s) for s in sought))

    def letters(self, piece: str, origin: str, which: Which) -> list[tuple[int, Hit]]:
        """Facts whose texts hold the piece, best first. Without any, those that hold it with z and
        y exchanged; else those that hold windows of it, window by window."""
        folded = strip_diacritics(piece)
        if len(folded) < PIECE_MIN:
            return []
        for tried in dict.fromkeys((folded, swapped(folded))):
            hits = self._substring(tried, origin, which)
            if hits:
                return hits
        return [hit for window in windows(folded) for hit in self._substring(window, origin, which)]

    def _holding_sequence(self, stems: Sequence[str]) -> tuple[I32, I32]:
        """Survivors that hold the stems in sequence, and how often."""
        view, survivors = self._survey.view, self._survey.surviving.survivors
        postings = [view.content_postings(stem) for stem in dict.fromkeys(stems)]
        if len(stems) == 1:
            slots, frequencies = postings[0]
            kept = survivors.mask[slots]
            return slots[kept], frequencies[kept]
        slots = reduce(np.intersect1d, (found for found, _ in postings))
        slots = slots[survivors.mask[slots]]
        texts = (view.tokenize(view.value_text_of(slot)) for slot in slots.tolist())
        times = np.array([_count_sequences(text, stems) for text in texts], dtype=np.int32)
        return slots[times > 0], times[times > 0]

    def _substring(self, piece: str, origin: str, which: Which) -> list[tuple[int, Hit]]:
        survey = self._survey
        counts = survey.view.texts.counts(survey.view, survey.moment, which, piece)
        survivors = survey.survivors
        slots: I32 = survivors[counts[survivors] > 0]
        if not len(slots):
            return []
        lengths, average = self._text_lengths(which)
        return self._best(slots, self._bm25(counts[slots], lengths[slots] / average), origin, piece)

    def _text_lengths(self, which: Which) -> tuple[I32, float]:
        """Lengths by slot, and their average over survivors with such a text."""
        if which not in self._lengths:
            survey = self._survey
            lengths = survey.view.texts.lengths(survey.view, survey.moment, which)
            among = lengths[survey.survivors]
            texts = max(int(np.count_nonzero(among)), 1)
            self._lengths[which] = (lengths, max(int(among.sum(dtype=np.int64)) / texts, 1.0))
        return self._lengths[which]

    def _bm25(self, frequencies: I32, lengths: F64) -> F64:
        count, df = len(self._survey.survivors), len(frequencies)
        idf = math.log1p((count - df + 0.5) / (df + 0.5))
        return idf * frequencies * (K1 + 1.0) / (frequencies + K1 * (1.0 - B + B * lengths))

    def _best(self, slots: I32, scores: F64, origin: str, of: str) -> list[tuple[int, Hit]]:
        ages = self._survey.view.ages
        best: I64 = best_indices(scores, self._fetch, lambda at: ages(slots[at]))
        best = best[np.lexsort((*ages(slots[best]), -scores[best]))]
        return [
            (slot, Hit(origin, of, score))
            for slot, score in zip(slots[best].tolist(), scores[best].tolist(), strict=True)
        ]


def _count_sequences(text: Sequence[str], stems: Sequence[str]) -> int:
    """How often a text holds the stems in sequence."""
    wanted, size = list(stems), len(stems)
    return sum(text[at : at + size] == wanted for at, stem in enumerate(text) if stem == wanted[0])
