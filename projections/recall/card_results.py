"""Cards in a recall (seed §20.4.4, §20.4.5).

For a question about one entity, the answer carries that entity's card beside the raw facts. For
other questions, a profile may let an entity's card replace its facts (the fast path).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from engramlog.projections.arrays import I32
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.rows import summary_of_card
from engramlog.projections.cards.source import CardSource, Served
from engramlog.projections.normalization import SCOPES
from engramlog.projections.recall.answer import Recalled
from engramlog.projections.recall.plan import Plan
from engramlog.projections.recall.ranking.packing import ESTIMATORS
from engramlog.projections.recall.ranking.scoring import Scored
from engramlog.projections.recall.ranking.selecting import Rows, Selected
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.tables.facts.cards import CARD_CONFIDENCE, CardKey

STALE_FACTS_MAX = 10
"""Raw facts beside a stale card (seed §20.4.4)."""
FAST_PATH_ENTITIES_MAX = 100
"""Entities whose card one recall checks."""


class EntityCard(Struct, frozen=True):
    """The answer to an entity-centric recall: the card, and the facts beside it."""

    served: Served | None
    selected: list[Selected]

    @property
    def limited(self) -> bool:
        """Whether a stale card limits the facts beside it."""
        served = self.served
        return served is not None and served.card is not None and served.stale


def entity_card(
    survey: Survey,
    plan: Plan,
    scored: Scored,
    selected: list[Selected],
    rows: Rows,
    cards: CardSource,
) -> EntityCard:
    """The card of the request's entity. None if the request is not about one entity, is limited to
    one relation or source, or sees nothing of the entity."""
    key = None if _is_filtered(survey) else _key_of(survey)
    if key is None:
        return EntityCard(None, selected)
    served = cards.serve(_asked(survey, key), force=survey.request.force_refresh)
    made = EntityCard(served, selected)
    wanted: list[int] = served.divergent.tolist()
    if served.card is not None and plan.gate.contradicted:
        positions = [fact.position for sides in served.card.disputes for fact in sides]
        slots = (survey.view.slot_at(position) for position in positions)
        wanted += [slot for slot in slots if slot is not None]
    kept = selected[:STALE_FACTS_MAX] if made.limited else selected
    return EntityCard(served, _with_wanted(survey, plan, scored, kept, wanted, rows))


def _asked(survey: Survey, key: CardKey) -> AskedCard:
    return AskedCard(survey.view, key, survey.authorization, survey.moment)


def _is_filtered(survey: Survey) -> bool:
    return survey.request.relation is not None or survey.request.source is not None


def _key_of(survey: Survey) -> CardKey | None:
    """The entity's card to show: outside gardens first, then the one with the most facts."""
    if survey.focus is None or survey.focus < 0:
        return None
    view = survey.view
    slots = view.entity_slots(survey.focus)
    slots = slots[survey.visible_mask[slots]]
    places: list[tuple[int, int]] = list(
        zip(view.garden[slots].tolist(), view.scope[slots].tolist(), strict=True)
    )
    counts = Counter(places)
    if not counts:
        return None
    garden, scope = min(counts, key=lambda place: (place[0] >= 0, -counts[place], place[1]))
    name = None if garden < 0 else view.gardens.text(garden)
    return CardKey(view.entities.text(survey.focus), SCOPES[scope], name)


def _with_wanted(
    survey: Survey,
    plan: Plan,
    scored: Scored,
    selected: list[Selected],
    wanted: Iterable[int],
    rows: Rows,
) -> list[Selected]:
    """``selected`` with the wanted facts added; the last of the others make room. Wanted facts
    displace at most half of the answer, or as much as one contradiction takes: any writer may
    contradict, itself too."""
    estimate = ESTIMATORS[plan.profile.packing.estimator]
    have = {each.slot: each for each in selected}
    candidates = scored.fused.slots
    wanted = [slot for slot in dict.fromkeys(wanted) if slot in have or slot in candidates]
    missing = [slot for slot in wanted if slot not in have]
    if not missing:
        return selected
    slots: I32 = np.array(missing, dtype=np.int32)
    for row in rows(survey.view.from_position[slots].tolist()):
        slot, cost = survey.view.slot_at(row.position), estimate(row.value_v)
        assert slot is not None
        have[slot] = Selected(slot, row, cost, int(np.searchsorted(candidates, slot)))
    pinned: list[Selected] = []
    room = min(max(2, plan.limit // 2), plan.limit - 1)
    budget = plan.token_budget // 2
    for each in (have[slot] for slot in wanted if slot in have):
        if len(pinned) < room and each.tokens <= budget:
            pinned.append(each)
            budget -= each.tokens
    kept: list[Selected] = []
    tokens = 0
    others = [each for each in selected if each not in pinned]
    for each in (*pinned, *others):
        if tokens + each.tokens <= plan.token_budget and len(kept) < plan.limit:
            kept.append(each)
            tokens += each.tokens
    return sorted(kept, key=lambda each: -float(scored.score[each.index or 0]))


def fast_path(
    survey: Survey, plan: Plan, results: tuple[Recalled, ...], cards: CardSource
) -> tuple[Recalled, ...]:
    """``results`` with an entity's facts replaced by its card, if the profile allows it and the
    card is fresh, undisputed and confident enough. Facts that the card does not show, instructions,
    and parents of other results stay. The card's parents are the parents of its facts (seed
    §20.6.3)."""
    chosen = plan.profile.cards
    if not chosen.fast_path or survey.request.entity is not None or _is_filtered(survey):
        return results
    estimate = ESTIMATORS[plan.profile.packing.estimator]
    left = plan.token_budget - sum(each.token_estimate for each in results)
    answer = list(results)
    for key, members in list(_by_key(results).items())[:FAST_PATH_ENTITIES_MAX]:
        served = cards.exact(_asked(survey, key))
        card = served.card
        if card is None or served.stale or card.has_contradictions:
            continue
        shown = {fact.position for fact in card.summarized}
        covered = [
            each for each in members if each.row.position in shown and each.provenance_of is None
        ]
        cost = estimate(card.summary) - sum(each.token_estimate for each in covered)
        if not covered or card.avg_confidence < chosen.min_avg_confidence or cost > left:
            continue
        left -= cost
        gone = {each.slot for each in covered[1:]}
        stand_in = _card_as_fact(covered, card, estimate(card.summary))
        children = {each.row.id for each in covered}
        answer = [
            stand_in
            if each is covered[0]
            else replace(each, provenance_of=stand_in.row.id)
            if each.provenance_of in children
            else each
            for each in answer
            if each.slot not in gone
        ]
    return tuple(answer)


def _by_key(results: tuple[Recalled, ...]) -> dict[CardKey, list[Recalled]]:
    groups: dict[CardKey, list[Recalled]] = {}
    for each in results:
        if each.row.interpret_as == "content":
            key = CardKey(each.row.entity, each.row.scope, each.row.garden_id)
            groups.setdefault(key, []).append(each)
    return groups


def _card_as_fact(covered: Sequence[Recalled], card: Card, tokens: int) -> Recalled:
    """The card in place of the best fact it covers, with that fact's score."""
    best = covered[0]
    parents = dict.fromkeys(parent for each in covered for parent in each.row.derived_from)
    return replace(
        best,
        row=summary_of_card(card, parents),
        token_estimate=tokens,
        confidence=CARD_CONFIDENCE,
        source_trust=1.0,
        effective_confidence=CARD_CONFIDENCE,
        contradicted=False,
        why=(f"card: stands for facts about {card.key.entity}", *best.why),
        provenance_of=None,
        from_card=True,
        attributes=None,
    )
