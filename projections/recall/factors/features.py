"""The input of factors: one array per property, in the order of the candidates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.image.contradicted_facts import are_contradicted, have_one_voice
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import DAY_US
from engramlog.projections.recall.conversation.channels import machine_said
from engramlog.projections.recall.conversation.layouts import are_discussed
from engramlog.projections.recall.factors.memory_features import Memories, load_memories
from engramlog.projections.recall.request import Situation
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates

if TYPE_CHECKING:
    from engramlog.projections.recall.ranking.fusion import Fused

Need = Literal["memories", "cosine", "speakers"]

HOPS_MAX = 5
LOOKUPS_MAX = 20_000
"""Facts read for one request; longer chains end there."""


class Features(Struct, frozen=True):
    """Properties of each candidate at the Moment.

    ``age_days`` is never negative. ``derivation_depth`` counts hops to an underived fact. ``terms``
    are those of the searched text. ``asking`` is the share of the value in questions, in [0, 1].
    ``instant_us`` is the Moment's, ``situation`` the caller's. ``raw``: the stages' scores by
    stage, 0 for facts that a stage did not find. ``strong``: strong hits by a stage's own rule, and
    ``cosine``: of the fact's vector with the question's (NaN without a vector); None if no stage
    can tell. ``memories`` and ``machine`` (said by an assistant or a tool, see ``machine_names``)
    are loaded only for factors that need them. ``outdated``: contradicted facts whose voice states
    another value of the key later. ``revised``: those that only their voice contradicts.
    """

    age_days: F64
    confidence: F64
    source_trust: F64
    access_count: I64
    contradicted: Bool
    outdated: Bool
    revised: Bool
    in_garden: Bool
    derivation_depth: I64
    in_quarantine: Bool
    terms: I32
    asking: F64
    instant_us: int = 0
    situation: Situation = Situation()
    raw: Mapping[str, F64] = {}
    unjudged: Mapping[str, Bool] = {}
    strong: Bool | None = None
    cosine: F64 | None = None
    memories: Memories | None = None
    machine: Bool | None = None


def load_features(
    survey: Survey,
    slots: I32,
    needs: Collection[Need],
    hits: Mapping[str, Candidates],
    fused: Fused,
) -> Features:
    """The features of ``slots``, each read once.

    Args:
        needs: features beyond the plain columns.
        hits: of the stages that completed.
        fused: the fused hits; its slots are ``slots``.
    """
    view, moment = survey.view, survey.moment
    age_us = np.maximum(moment.instant_us - view.recorded_at[slots], 0)
    contradicted = are_contradicted(view, slots, moment, survey.authorization)
    return Features(
        age_days=age_us / DAY_US,
        confidence=view.confidence(slots, moment),
        source_trust=view.trust(slots, moment),
        access_count=view.access_count(slots, moment),
        contradicted=contradicted,
        outdated=_are_outdated(survey, slots, contradicted),
        revised=_are_revised(survey, slots, contradicted),
        in_garden=view.garden[slots] >= 0,
        derivation_depth=derivation_depth(survey, slots),
        in_quarantine=view.in_quarantine(slots),
        terms=view.length[slots],
        asking=view.asking[slots] / 100.0,
        instant_us=moment.instant_us,
        situation=survey.request.situation,
        raw=fused.raw,
        unjudged=fused.unjudged,
        strong=_strong_hits(slots, hits),
        cosine=_cosines(survey, slots) if "cosine" in needs else None,
        memories=load_memories(survey, slots) if "memories" in needs else None,
        machine=machine_said(survey, slots) if "speakers" in needs else None,
    )


def _are_outdated(survey: Survey, slots: I32, contradicted: Bool) -> Bool:
    """Which contradicted candidates another one of their key and voice follows with another value.
    One that has not begun outdates none, and a discussion has no latest word."""
    view = survey.view
    outdated = np.zeros(len(slots), dtype=np.bool_)
    begun = view.valid_from[slots] <= survey.moment.valid_us
    disputed = (contradicted & begun).nonzero()[0]
    if len(disputed) < 2:
        return outdated
    said = slots[disputed]
    key, voice = view.key[said], view.voices(said)
    order = np.lexsort((*view.ages(said), voice, key))
    disputed, key, voice, value = disputed[order], key[order], voice[order], view.value[said[order]]
    ends = np.append((key[1:] != key[:-1]) | (voice[1:] != voice[:-1]), True)
    latest = ends.nonzero()[0][np.cumsum(ends) - ends]
    followed = value != value[latest]
    if followed.any():
        followed[followed] = ~are_discussed(survey, key[followed], voice[followed])
    outdated[disputed[followed]] = True
    return outdated


def _are_revised(survey: Survey, slots: I32, contradicted: Bool) -> Bool:
    """Which contradicted candidates only their own voice contradicts."""
    revised = np.zeros(len(slots), dtype=np.bool_)
    if contradicted.any():
        revised[contradicted] = have_one_voice(
            survey.view, slots[contradicted], survey.moment, survey.authorization
        )
    return revised


def _strong_hits(slots: I32, hits: Mapping[str, Candidates]) -> Bool | None:
    strong_hits = [each.strong for each in hits.values() if each.strong is not None]
    if not strong_hits:
        return None
    strong = [slot for each in strong_hits for slot in sorted(each)]
    return np.isin(slots, np.array(strong, dtype=np.int32))


def _cosines(survey: Survey, slots: I32) -> F64 | None:
    """NaN for a fact without vector; None if the question's vector is not available."""
    semantics = survey.semantics
    query = None if semantics is None else semantics.known(survey.request.query)
    if semantics is None or query is None:
        return None
    cosines: F64 = np.full(len(slots), np.nan)
    embedded = semantics.vectors.present(slots)
    if embedded.any():
        cosines[embedded], _ = semantics.vectors.cosines(query, slots[embedded])
    return cosines


def derivation_depth(survey: Survey, slots: I32) -> I64:
    """How many hops lie between each fact and an underived one (seed §20.6.3), at most
    ``HOPS_MAX``, which also ends cycles.

    Only ancestors visible to the request at its Moment count, so a hidden parent looks like an
    absent one. The longest chain counts: a conclusion is no surer than its longest way from an
    observation.
    """
    depths: I64 = np.zeros(len(slots), dtype=np.int64)
    if not survey.view.has_derivations:
        return depths
    levels: list[dict[int, tuple[int, ...]]] = []
    frontier: Sequence[int] = [n for n in slots.tolist() if survey.view.parents(n)]
    looked_at = 0
    while frontier and len(levels) < HOPS_MAX and looked_at < LOOKUPS_MAX:
        levels.append(_visible_parents(survey, frontier))
        looked_at += len(frontier)
        reached = {each for parents in levels[-1].values() for each in parents}
        frontier = [each for each in sorted(reached) if survey.view.parents(each)]
    below: dict[int, int] = {}
    for level in reversed(levels):
        below = {
            child: 1 + max(below.get(parent, 0) for parent in parents)
            for child, parents in level.items()
            if parents
        }
    for index, slot in enumerate(slots.tolist()):
        depths[index] = below.get(slot, 0)
    return depths


def _visible_parents(survey: Survey, children: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """By child: the newest visible fact for each content that it was derived from, of the child's
    node if that stated it."""
    view = survey.view
    candidates: dict[int, I32] = {}
    for child in children:
        for number in view.parents(child):
            if number not in candidates:
                candidates[number] = view.cid_slots(number)
    if not candidates:
        return {}
    everyone: I32 = np.unique(np.concatenate(list(candidates.values())))
    visible = set(known(view, survey.authorization, survey.moment, everyone).tolist())
    shown: dict[int, I32] = {}
    for number, found in candidates.items():
        seen = [slot for slot in found.tolist() if slot in visible]
        if seen:
            shown[number] = np.array(seen, dtype=np.int32)

    @cache
    def newest(number: int, voice: tuple[int, int]) -> int:
        return int(view.by_age(view.of_voice(shown[number], voice))[-1])

    links: dict[int, tuple[int, ...]] = {}
    for child in children:
        voice = view.voice(child)
        numbers = view.parents(child)
        links[child] = tuple(newest(number, voice) for number in numbers if number in shown)
    return links
