"""The chance that the best fact answers the question, from the first facts' scores.

``chance = 1 / (1 + exp(-(bias + semantic * s + speaker * p + margin * m)))``, over the facts with
the highest scores: ``s`` is the mean semantic score of the first five (of the compared ones; see
``Fused.unjudged``). ``p`` is the share of the first three's scores that belongs to the named
speakers' words (1 if the question names none). ``m`` is 1 less the second to fifth's mean score, as
a share of the first's; but being far ahead says little of a fact that is not like the question, or
that has few rivals. So ``m`` shrinks where the first's semantic score is under ``LIKE``, and where
fewer than ``MANY`` facts compete.

An answer's scores are scaled so that the best has that chance; their order and ratios stay.

Whether the memory knows an answer at all is another chance, of ``s``, ``p`` and the missing word
(see ``missing_word``): a question about an unknown detail of a known event has good hits, and a
rare word that none of them holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64
from engramlog.projections.ascending import among
from engramlog.projections.columns.names.entity_names import words_of
from engramlog.projections.normalization import entity_display
from engramlog.projections.recall.conversation.channels import speaker_name, speakers
from engramlog.projections.recall.conversation.speakers import without_speakers
from engramlog.projections.recall.ranking.scoring import SCORE_DECIMALS, Scored
from engramlog.projections.recall.stages import STAGES
from engramlog.projections.recall.stages.candidates import best_indices
from engramlog.projections.recall.stages.lexical import query_terms

if TYPE_CHECKING:
    from engramlog.projections.recall.certainty import Certainty
    from engramlog.projections.recall.profile import Profile
    from engramlog.projections.recall.request_facts import Survey
    from engramlog.projections.recall.stages.candidates import Candidates

FIRST = 5
"""Facts compared with the first."""
SPEAKING = 3
"""Facts whose speakers are read."""
LIKE = 0.4
"""The semantic score of a fact that is like the question."""
MANY = 50
"""Rivals whose number no longer counts."""
ALONE = 0.4
"""``m`` of a fact that is like the question and would have no rival at all."""
STAGE = "semantic"


class Chance(Struct, frozen=True):
    """``chance`` and its inputs. ``answerable``: the chance that the memory knows an answer; None
    if the profile does not tell."""

    chance: float
    semantic: float
    speaker: float
    margin: float
    missing: float = 0.0
    answerable: float | None = None


def chance_of(survey: Survey, certainty: Certainty, scored: Scored) -> Chance | None:
    """None without facts, or if none of the first was compared by meaning."""
    likeness = scored.fused.raw.get(STAGE)
    if likeness is None or not len(scored.score):
        return None
    slots = scored.fused.slots
    best = best_indices(scored.score, FIRST, lambda at: survey.view.ages(slots[at]))
    best = best[np.lexsort((*survey.view.ages(slots[best]), -scored.score[best]))]
    scores = scored.score[best]
    if scores[0] <= 0:
        return None
    compared = best
    if STAGE in scored.fused.unjudged:
        compared = best[~scored.fused.unjudged[STAGE][best]]
        if not len(compared):
            return None
    semantic = float(likeness[compared].mean())
    first = float(likeness[best[0]]) if compared[0] == best[0] else semantic
    margin = _margin(scores, first, len(survey.survivors))
    speaker = _share_of_named_speakers(survey, scored, best[:SPEAKING])
    total = (
        certainty.bias
        + certainty.semantic * semantic
        + certainty.speaker * speaker
        + certainty.margin * margin
    )
    chance = Chance(_logistic(total), *map(_rounded, (semantic, speaker, margin)))
    known = certainty.answer
    if known is None:
        return chance
    missing = missing_word(survey, slots[best])
    total = (
        known.bias + known.speaker * speaker + known.semantic * semantic + known.missing * missing
    )
    return msgspec.structs.replace(chance, missing=_rounded(missing), answerable=_logistic(total))


def _margin(scores: F64, first: float, facts: int) -> float:
    """``m``, of the best scores in order. ``first``: the first's semantic score; ``facts``: those
    that compete."""
    ahead = 1.0 - float(scores[1:].mean() / scores[0]) if len(scores) > 1 else 0.0
    like = min(1.0, first / LIKE)
    many = min(1.0, math.log1p(facts) / math.log1p(MANY))
    return like * (ahead * many + ALONE * like * (1.0 - many) ** 4)


def _logistic(total: float) -> float:
    return _rounded(float(1.0 / (1.0 + np.exp(-total))))


def _rounded(number: float) -> float:
    return round(number, SCORE_DECIMALS)


def scaled(scored: Scored, chance: Chance) -> Scored:
    """The same scores, scaled so that the highest is the chance."""
    share = chance.chance / float(scored.score.max())
    score: F64 = np.round(scored.score * share, SCORE_DECIMALS)
    return msgspec.structs.replace(scored, score=score, scale=share, unscaled=scored.score)


def _share_of_named_speakers(survey: Survey, scored: Scored, best: I64) -> float:
    names = {word for name in without_speakers(survey).names for word in words_of(name)}
    if not names:
        return 1.0
    by = speakers(survey, scored.fused.slots[best]).tolist()
    named = [
        not names.isdisjoint(words_of(entity_display(speaker_name(survey, each)))) for each in by
    ]
    scores = scored.score[best]
    return float(scores[np.array(named)].sum() / scores.sum())


def missing_word(survey: Survey, first: I32) -> float:
    """The rarity of the rarest word of a question that none of the first facts (slots) holds: its
    inverse document frequency over the survivors, as a share of that of a word that no fact holds.
    1 for an unknown word, 0 if the facts hold every word. Names of speakers do not count: their
    facts need not repeat them."""
    view, survivors = survey.view, survey.surviving.survivors
    asked = without_speakers(survey)
    named = {term for name in asked.names for term in view.tokenize(name)}
    terms = query_terms(view, survey.request.query)
    count = len(survivors.slots)
    fewest: int | None = None
    for term in [term for term in terms if term not in named] or terms:
        slots, _ = view.postings(term)
        if not survivors.everything:
            slots = slots[survivors.mask[slots]]
        if (fewest is None or len(slots) < fewest) and not among(first, slots).any():
            fewest = len(slots)
    if fewest is None:
        return 0.0
    return _idf(count, fewest) / _idf(count, 0)


def _idf(count: int, holders: int) -> float:
    return math.log1p((count - holders + 0.5) / (holders + 0.5))


def evidence_of(
    profile: Profile, hits: Mapping[str, Candidates], chance: Chance | None = None
) -> str | None:
    """How strong the evidence of an answer is (abmind's newer version, ``weakEvidence``):
    ``strong``, ``weak`` or ``none``; None if no stage of the profile can tell strong hits and the
    answer has no ``chance``. Strong: a lexical hit that holds every keyword, or a hit above the
    threshold of a stage that compares meaning; counted before the answer is cut."""
    if profile.certainty is not None:
        if not any(len(each.slots) for each in hits.values()):
            return "none"
        if chance is not None:
            return "weak" if _is_weak(profile.certainty, chance) else "strong"
    if not any(STAGES[choice.name].judges(choice.parameters) for choice in profile.stages):
        return None
    if not any(len(each.slots) for each in hits.values()):
        return "none"
    strong = any(
        each.strong and not each.strong.isdisjoint(each.slots.tolist()) for each in hits.values()
    )
    meant = any(STAGES[name].tells and len(each.slots) for name, each in hits.items())
    return "strong" if strong or meant else "weak"


def _is_weak(certainty: Certainty, chance: Chance) -> bool:
    """Whether the first fact is unlikely evidence, or the memory unlikely knows an answer."""
    if chance.chance < certainty.weak_below:
        return True
    known, answerable = certainty.answer, chance.answerable
    return known is not None and answerable is not None and answerable < known.weak_below
