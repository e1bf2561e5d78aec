"""The input of factors: one array per property, in the order of the candidates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.moment import DAY_US
from engramlog.projections.recall.conversation.channels import machine_said
from engramlog.projections.recall.factors.lineage import derivation_depth
from engramlog.projections.recall.factors.memory_features import Memories, load_memories
from engramlog.projections.recall.request import Situation
from engramlog.projections.recall.stages.candidates import Candidates

if TYPE_CHECKING:
    from engramlog.projections.recall.ranking.fusion import Fused
    from engramlog.projections.recall.request_facts import Survey

Need = Literal["memories", "cosine", "speakers"]


class Features(Struct, frozen=True):
    """Properties of each candidate at the Moment.

    ``age_days`` is never negative. ``derivation_depth`` counts hops to an underived fact (see
    ``lineage``). ``terms`` are those of the lexicon. ``asking`` is the share of the value in
    questions, in [0, 1]. ``instant_us`` is the Moment's, ``situation`` the caller's. ``raw``: the
    stages' scores by stage, 0 for facts that a stage did not find. ``strong``: strong hits by a
    stage's own rule, and ``cosine``: of the fact's vector with the question's (NaN without a
    vector); None if no stage can tell. ``memories`` and ``machine`` (said by an assistant or a
    tool, see ``machine_names``) are loaded only for factors that need them.
    """

    age_days: F64
    confidence: F64
    source_trust: F64
    access_count: I64
    contradicted: Bool
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
    needs: Collection[Need] = (),
    hits: Mapping[str, Candidates] | None = None,
    fused: Fused | None = None,
) -> Features:
    """The features of ``slots``, each read once.

    Args:
        needs: features beyond the plain columns.
        hits: of the stages that completed.
        fused: the fused hits; its slots are ``slots``.
    """
    view, moment = survey.view, survey.moment
    age_us = np.maximum(moment.instant_us - view.recorded_at[slots], 0)
    return Features(
        age_days=age_us / DAY_US,
        confidence=view.confidence(slots, moment),
        source_trust=view.trust(slots, moment),
        access_count=view.access_count(slots, moment),
        contradicted=are_contradicted(view, slots, moment, survey.authorization),
        in_garden=view.garden[slots] >= 0,
        derivation_depth=derivation_depth(survey, slots),
        in_quarantine=view.in_quarantine(slots),
        terms=view.length[slots],
        asking=view.asking[slots] / 100.0,
        instant_us=moment.instant_us,
        situation=survey.request.situation,
        raw={} if fused is None else fused.raw,
        unjudged={} if fused is None else fused.unjudged,
        strong=_strong_hits(slots, hits or {}),
        cosine=_cosines(survey, slots) if "cosine" in needs else None,
        memories=load_memories(survey, slots) if "memories" in needs else None,
        machine=machine_said(survey, slots) if "speakers" in needs else None,
    )


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
