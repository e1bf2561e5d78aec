"""Recall, from a request to the packed facts.

request → authorise → plan → stages → gate → fuse → factors → diversify → pack → enrich. Every read
is as of the given Moment; the only clock is the stopwatch passed in.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.ascending import among
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.source import CardSource
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer, Recalled
from engramlog.projections.recall.card_results import EntityCard, entity_card, fast_path
from engramlog.projections.recall.conversation.called_names import read_as, renamed
from engramlog.projections.recall.conversation.conversations import spread
from engramlog.projections.recall.conversation.overview import Overview, topic_of
from engramlog.projections.recall.factors.factors import FACTORS
from engramlog.projections.recall.factors.features import Need, load_features
from engramlog.projections.recall.plan import Plan, make_plan
from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.question_intent import Chosen, choose
from engramlog.projections.recall.question_spelling import spelled
from engramlog.projections.recall.ranking.breakdown import breakdowns
from engramlog.projections.recall.ranking.chance import Chance, chance_of, evidence_of, scaled
from engramlog.projections.recall.ranking.fusion import FUSIONS, NORMALISATIONS, Fused, redistribute
from engramlog.projections.recall.ranking.scoring import Scored, score
from engramlog.projections.recall.ranking.selecting import (
    Rows,
    Selected,
    SlotsOfCid,
    add_parents,
    select,
)
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Survey, survey
from engramlog.projections.recall.stages.candidates import Candidates, StageOutcome
from engramlog.projections.recall.stages.dates import with_facts_of_named_time
from engramlog.projections.recall.stages.running import run_stages
from engramlog.projections.tables.declared.aliases import AliasBook


def recall(
    view: View,
    rows: Rows,
    request: RecallRequest,
    profile: Profile,
    authorization: Authorization,
    moment: Moment,
    *,
    slots_of_cid: SlotsOfCid | None = None,
    semantics: Semantics | None = None,
    executor: Executor | None = None,
    cards: CardSource | None = None,
    aliases: AliasBook | None = None,
    stopwatch: Callable[[], float] = perf_counter,
) -> RecallAnswer:
    """The facts that answer ``request`` best within its budget.

    Args:
        rows: rows of facts by position, in that order.
        slots_of_cid: finds the parents of derived facts; without it none are added.
        semantics: vectors of the query and of facts; without it meaning has no influence.
        cards: source of memory cards; without it answers have none.
        aliases: other names of entities, for stages that look names up.
        executor: runs stages in parallel and with deadlines; None runs them here.
        stopwatch: seconds, only for the stages' timings and deadlines.
    """
    plan = make_plan(profile, request)
    ambient = profile.ambient if request.intent == "ambient" else None
    surveyed = survey(
        view,
        request,
        authorization,
        moment,
        gate=plan.gate,
        depth=plan.depth,
        limit=plan.limit,
        semantics=semantics,
        context=profile.context,
        aliases=aliases,
    )
    dropped: tuple[str, ...] = ()
    if ambient is not None:
        chosen = choose(surveyed, ambient)
        if chosen.skipped is not None:
            return _answer_without_search(plan, moment, chosen)
        dropped = chosen.dropped
        surveyed = msgspec.structs.replace(surveyed, request=chosen.request)
    if profile.context is not None:
        surveyed = _asking(surveyed, spelled(surveyed.request.query))
        if profile.context.calls:
            surveyed = _with_own_names(surveyed, profile.context.calls)
    if plan.weights.get("dates"):
        surveyed = with_facts_of_named_time(surveyed)
    if profile.overview is not None:
        plan, surveyed = _about_topic(plan, surveyed, profile.overview)
    hits, outcomes = run_stages(surveyed, profile.stages, plan.weights, stopwatch, executor)
    weights = _weights(plan, hits)
    fused = _fuse(surveyed, plan, hits, weights)
    needs = frozenset[Need]().union(*(FACTORS[each.name].needs for each in profile.factors))
    features = load_features(surveyed, fused.slots, needs, hits, fused)
    scored = score(fused, features, profile.factors, weights)
    selected = select(surveyed, plan, scored, rows)
    beside = EntityCard(None, selected)
    if cards is not None:
        beside = entity_card(surveyed, plan, scored, selected, rows, cards)
        selected = beside.selected
    if slots_of_cid is not None and profile.packing.parents and not beside.limited:
        selected += add_parents(surveyed, plan, scored, selected, rows, slots_of_cid)
    total = len(fused.slots) + sum([each.index is None for each in selected])
    chance = None
    if profile.certainty is not None:
        chance = chance_of(surveyed, profile.certainty, scored)
    if chance is not None:
        scored = scaled(scored, chance)
    results = _all_recalled(surveyed, plan, scored, hits, selected, weights, chance)
    if profile.enrichment:
        results = _with_earlier_recalls(surveyed, results)
    if cards is not None:
        results = fast_path(surveyed, plan, results, cards)
    return RecallAnswer(
        results=results,
        total_scored=total,
        tokens_used=sum([each.token_estimate for each in results]),
        truncated=len(selected) < total,
        stages=outcomes,
        weights=weights,
        profile=profile.name,
        moment=moment,
        card=beside.served,
        short_circuit_after=next((o.skipped_after for o in outcomes if o.skipped_after), None),
        evidence=evidence_of(profile, hits, chance),
        answerable=None if chance is None else chance.answerable,
        enrichment=profile.enrichment,
        dropped_terms=dropped,
    )


def _asking(surveyed: Survey, query: str) -> Survey:
    """The question in other words."""
    if query == surveyed.request.query:
        return surveyed
    request = msgspec.structs.replace(surveyed.request, query=query)
    return msgspec.structs.replace(surveyed, request=request)


def _with_own_names(surveyed: Survey, calls_min: int) -> Survey:
    """The question with the speakers' own names in place of other names."""
    names = read_as(surveyed, calls_min)
    if not names:
        return surveyed
    surveyed = _asking(surveyed, renamed(surveyed.request.query, names))
    return msgspec.structs.replace(surveyed, names=names)


def _about_topic(plan: Plan, surveyed: Survey, overview: Overview) -> tuple[Plan, Survey]:
    """A question about a whole conversation asks for its topic, spread out; others stay as they
    are."""
    topic = topic_of(surveyed.request.query)
    if topic is None:
        return plan, surveyed
    return (
        msgspec.structs.replace(plan, spread=overview.spread),
        msgspec.structs.replace(_asking(surveyed, topic), topic=topic),
    )


def _answer_without_search(plan: Plan, moment: Moment, chosen: Chosen) -> RecallAnswer:
    """The answer to a question without a search: no stage ran."""
    profile = plan.profile
    stages = (
        StageOutcome(choice.name, "not-requested", 0, 0.0, label=choice.label)
        for choice in profile.stages
    )
    return RecallAnswer(
        results=(),
        total_scored=0,
        tokens_used=0,
        truncated=False,
        stages=tuple(stages),
        weights=_weights(plan, {}),
        profile=profile.name,
        moment=moment,
        evidence=evidence_of(profile, {}),
        enrichment=profile.enrichment,
        dropped_terms=chosen.dropped,
        skipped=chosen.skipped,
    )


def _weights(plan: Plan, hits: Mapping[str, Candidates]) -> dict[str, float]:
    adding = {each.name for each in plan.profile.factors if each.mode == "add"}
    return redistribute(plan.weights, frozenset(hits), plan.profile.weights, adding)


def _fuse(
    surveyed: Survey, plan: Plan, hits: dict[str, Candidates], weights: dict[str, float]
) -> Fused:
    """All candidates with one fused score. For an entity-centric request: every fact of the entity,
    and the facts that the graph reached from it."""
    own: I32 = np.empty(0, dtype=np.int32)
    counted: Mapping[str, Candidates] = hits
    if surveyed.focus is not None:
        own = _own_facts(surveyed)
        near = np.union1d(own, hits["graph"].slots) if "graph" in hits else own
        counted = {name: each.only(np.isin(each.slots, near)) for name, each in hits.items()}
    fusion = plan.profile.fusion
    normalise = NORMALISATIONS[fusion.normalisation]
    fused = FUSIONS[fusion.name](counted, weights, normalise, own, fusion)
    context = plan.profile.context
    return fused if context is None else spread(surveyed, context, fused)


def _own_facts(surveyed: Survey) -> I32:
    if surveyed.focus is None or surveyed.focus < 0:
        return np.empty(0, dtype=np.int32)
    slots = surveyed.view.entity_slots(surveyed.focus)
    return surveyed.admits(slots[surveyed.survivor_mask[slots]])


def _all_recalled(
    surveyed: Survey,
    plan: Plan,
    scored: Scored,
    hits: Mapping[str, Candidates],
    selected: Sequence[Selected],
    weights: dict[str, float],
    chance: Chance | None,
) -> tuple[Recalled, ...]:
    """The selected facts with every number of the answer, in order."""
    slots = np.array([each.slot for each in selected], dtype=np.int32)
    score, hops, confidence, trust, contradicted = _numbers(surveyed, scored, selected)
    indices = [each.index for each in selected]
    explained: list[dict[str, Any] | None] = [None] * len(selected)
    if surveyed.request.explain:
        explained = [_explain(scored, index, weights, chance) for index in indices]
    columns = zip(
        selected,
        score,
        breakdowns(scored, plan.profile.factors, indices, trust),
        hops,
        confidence,
        trust,
        contradicted,
        explained,
        surveyed.view.stated_attributes(slots, surveyed.moment),
        *_reasons(plan, hits, selected, slots),
        strict=True,
    )
    # In the order of the fields: far sooner than by name.
    return tuple(
        Recalled(
            each.slot, each.row, score, breakdown, hops, each.tokens, confidence, trust,
            confidence * trust, contradicted, why, each.provenance_of, explain, False, attributes,
            found_by,
        )
        for each, score, breakdown, hops, confidence, trust, contradicted, explain, attributes, why,
        found_by in columns
    )  # fmt: skip


def _reasons(
    plan: Plan, hits: Mapping[str, Candidates], selected: Sequence[Selected], slots: I32
) -> tuple[list[tuple[str, ...]], list[str]]:
    """``why`` and ``found_by`` of each selected fact."""
    labels = {choice.name: choice.label or choice.name for choice in plan.profile.stages}
    reasons = [
        [f"parent of {each.provenance_of}"] if each.provenance_of else [] for each in selected
    ]
    found_by = [""] * len(selected)
    for name, found in hits.items():
        numbers = among(slots, found.slots).nonzero()[0]
        for number, of_stage in zip(numbers.tolist(), found.why(slots[numbers]), strict=True):
            reasons[number] += of_stage
            part = "" if found.origin is None else f":{found.origin(selected[number].slot)}"
            found_by[number] = found_by[number] or f"{labels[name]}{part}"
    return [tuple(each) for each in reasons], found_by


def _numbers(
    surveyed: Survey, scored: Scored, selected: Sequence[Selected]
) -> tuple[list[float], list[int], list[float], list[float], list[bool]]:
    """Score, hops, confidence, source trust and whether it is contradicted, of each selected
    fact. A parent that no stage found has the last three alone."""
    at = np.array([each.index or 0 for each in selected], dtype=np.int64)
    found: Bool = np.array([each.index is not None for each in selected], dtype=np.bool_)
    features, view, moment = scored.features, surveyed.view, surveyed.moment
    score = np.where(found, scored.score[at], 0.0)
    hops = np.where(found, scored.fused.hops[at], 0)
    confidence, trust = features.confidence[at], features.source_trust[at]
    contradicted = features.contradicted[at]
    if not found.all():
        rest: I32 = np.array([each.slot for each in selected if each.index is None], dtype=np.int32)
        confidence[~found] = view.confidence(rest, moment)
        trust[~found] = view.trust(rest, moment)
        contradicted[~found] = are_contradicted(view, rest, moment, surveyed.authorization)
    return score.tolist(), hops.tolist(), confidence.tolist(), trust.tolist(), contradicted.tolist()


def _with_earlier_recalls(surveyed: Survey, results: tuple[Recalled, ...]) -> tuple[Recalled, ...]:
    """The results with their earlier recalls."""
    slots = np.array([each.slot for each in results], dtype=np.int32)
    view, moment = surveyed.view, surveyed.moment
    return tuple(
        msgspec.structs.replace(
            each,
            recalls=recalls,
            idle_us=moment.instant_us - (times[-1] if times else each.row.recorded_at),
        )
        for each, recalls, times in zip(
            results,
            view.access_count(slots, moment).tolist(),
            view.recall_times(slots, moment),
            strict=True,
        )
    )


def _explain(
    scored: Scored, index: int | None, weights: dict[str, float], chance: Chance | None
) -> dict[str, Any]:
    """The numbers behind one score, by stage and factor; ``index``: of the fact among the scored
    ones, None for one that was added without a score."""
    if index is None:
        return {"stages": {}, "factors": {}}
    fused = scored.fused
    parts: dict[str, Any] = {
        "stages": {
            name: {
                "raw": float(fused.raw[name][index]),
                "normalised": float(fused.normalised[name][index]),
                "weight": weights[name],
                **({"unjudged": True} if _is_unjudged(fused, name, index) else {}),
            }
            for name in fused.raw
        },
        "factors": scored.only(index),
    }
    if fused.session is not None:
        parts["session"] = float(fused.session[index])
    if chance is not None:
        parts["certainty"] = msgspec.structs.asdict(chance)
    return parts


def _is_unjudged(fused: Fused, stage: str, index: int) -> bool:
    return stage in fused.unjudged and bool(fused.unjudged[stage][index])
