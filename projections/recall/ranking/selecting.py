"""From scores to packed facts: order, diversity, budget, and the parents of derived facts."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.conversation.layouts import are_discussed
from engramlog.projections.recall.plan import Plan
from engramlog.projections.recall.ranking.diversity import (
    SIMILARITIES,
    ByMarginalRelevance,
    ByScore,
    Chooser,
    Crowding,
    Material,
)
from engramlog.projections.recall.ranking.packing import COSTS, ESTIMATORS, pack
from engramlog.projections.recall.ranking.scoring import Scored
from engramlog.projections.recall.ranking.ties import ranking
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.tables.facts.fact_rows import FactRow

Rows = Callable[[Sequence[int]], list[FactRow]]
"""Rows of the facts asserted at these positions, in that order."""
SlotsOfCid = Callable[[str], Sequence[int]]
"""Slots that may hold the fact with this CID (``sha256:`` and 64 hex digits)."""


class Selected(Struct, frozen=True):
    """A fact of the answer. ``index``: its index among the scored candidates, None for a parent
    that was no candidate."""

    slot: int
    row: FactRow
    tokens: int
    index: int | None
    provenance_of: str | None = None


def select(survey: Survey, plan: Plan, scored: Scored, rows: Rows) -> list[Selected]:
    """The packed candidates, in the order of choice. Only their rows are read, as long as no
    similarity compares texts."""
    view, profile = survey.view, plan.profile
    if plan.token_budget <= 0:
        return []
    order = ranking(view, scored.fused.slots, scored.score, profile.ties)
    slots, disputed = scored.fused.slots, scored.features.contradicted
    order, firsts = repeats_last(survey, slots, disputed, order)
    is_first = np.arange(len(order)) < firsts
    order = order[: max(profile.diversity.pool, plan.limit)]
    is_first = is_first[: len(order)]
    while True:
        slots = scored.fused.slots[order]
        pool = _Pool(view.from_position[slots], rows)
        firsts = int(np.count_nonzero(is_first))
        costs = COSTS[profile.packing.estimator](view.value_bytes[slots])
        packed = pack(
            _chooser(survey, plan, pool, slots, scored.score[order], firsts),
            costs,
            budget=plan.token_budget,
            limit=plan.limit,
            skips_max=profile.packing.skips_max,
        )
        found = pool.at(packed)
        if len(found) == len(packed):
            return [
                Selected(int(slots[n]), row, costs[n], int(order[n]))
                for n, row in zip(packed, found, strict=True)
            ]
        # Facts without a row were erased since the view was pinned: choose among the others.
        held = pool.held()
        order, is_first = order[held], is_first[held]


class _Pool:
    """The candidates to choose from; their rows are read on request. ``positions``: of each, in the
    order of rank."""

    def __init__(self, positions: I64, rows: Rows) -> None:
        self._positions = positions
        self._rows = rows
        self._all: dict[int, FactRow] | None = None

    def __len__(self) -> int:
        return len(self._positions)

    def at(self, indices: Sequence[int]) -> list[FactRow]:
        """The rows of some, in this order, without those of erased facts."""
        positions: list[int] = self._positions[list(indices)].tolist()
        if self._all is None:
            return self._rows(positions) if positions else []
        return [self._all[each] for each in positions if each in self._all]

    def each(self) -> Iterator[FactRow | None]:
        """The row of every candidate, None for an erased fact."""
        return map(self._known().get, self._positions.tolist())

    def held(self) -> Bool:
        """Which candidates have a row; erased facts have none."""
        return np.isin(self._positions, list(self._known()))

    def _known(self) -> dict[int, FactRow]:
        if self._all is None:
            found = self._rows(self._positions.tolist())
            self._all = {row.from_position: row for row in found}
        return self._all


def add_parents(
    survey: Survey,
    plan: Plan,
    scored: Scored,
    selected: list[Selected],
    rows: Rows,
    slots_of_cid: SlotsOfCid,
) -> list[Selected]:
    """Immediate parents of the selected facts that are visible, not yet selected, pass the gate,
    and fit budget and limit whole (seed §20.6.3)."""
    estimate = ESTIMATORS[plan.profile.packing.estimator]
    left = plan.token_budget - sum(each.tokens for each in selected)
    room = plan.limit - len(selected)
    present = {each.slot for each in selected}
    parents: list[Selected] = []

    @cache  # a thousand facts may be derived from the same thousand
    def newest(content: str, voice: tuple[int, int]) -> tuple[int, FactRow] | None:
        return _newest(survey, f"sha256:{content}", voice, rows, slots_of_cid)

    for child in selected:
        if child.row.parents_json == "[]":
            continue
        for parent in child.row.derived_from:
            if len(parents) >= room:
                return parents
            found = newest(parent.hash, survey.view.voice(child.slot))
            if found is None or found[0] in present:
                continue
            slot, row = found
            tokens = estimate(row.value_v)
            if tokens <= left:
                left -= tokens
                present.add(slot)
                index = _index(scored.fused.slots, slot)
                parents.append(Selected(slot, row, tokens, index, child.row.id))
    return parents


def _chooser(
    survey: Survey, plan: Plan, pool: _Pool, slots: I32, scores: F64, firsts: int
) -> Chooser:
    """What chooses the facts: by score alone, or by score and difference from those already
    chosen."""
    if not plan.diverse:
        return ByScore(len(pool))
    diversity = plan.profile.diversity
    highest = float(scores.max(initial=0.0))
    if diversity.scale == "max" and highest > 0:
        scores = scores / highest
    tokenize = survey.view.tokenize
    texts = _Cut(pool, lambda row: tokenize(f"{row.relation} {row.value_v}"))
    material = Material(texts, words=_Cut(pool, lambda row: row.value_v.lower().split()))
    if survey.semantics is not None:
        vectors, embedded = survey.semantics.vectors.rows(slots)
        material = msgspec.structs.replace(material, vectors=vectors, embedded=embedded)
    similarity = SIMILARITIES[diversity.similarity](material)
    crowding = None
    if plan.spread and survey.context is not None:
        talks = conversations(survey, survey.context, slots).of(slots)
        crowding = Crowding(talks, plan.spread)
    return ByMarginalRelevance(scores, similarity, plan.lambda_mmr, firsts, crowding)


class _Cut(Collection[list[str]]):
    """Rows split into pieces on first use."""

    def __init__(self, pool: _Pool, cut: Callable[[FactRow], list[str]]) -> None:
        self._pool = pool
        self._cut = cut

    def __len__(self) -> int:
        return len(self._pool)

    def __iter__(self) -> Iterator[list[str]]:
        return (self._cut(row) if row is not None else [] for row in self._pool.each())

    def __contains__(self, terms: object) -> bool:
        return terms in list(self)


def _newest(
    survey: Survey, cid: str, voice: tuple[int, int], rows: Rows, slots_of_cid: SlotsOfCid
) -> tuple[int, FactRow] | None:
    """The newest fact with this CID that may be in the answer, of the voice if there is one, and
    its row."""
    view = survey.view
    slots: I32 = np.array([n for n in slots_of_cid(cid) if n < view.count], dtype=np.int32)
    if not len(slots):
        return None
    slots = survey.view.by_age(np.sort(survey.walkable(slots)))[::-1]
    # The lookup may match a prefix of the hash; the row decides.
    same = [row for row in rows(view.from_position[slots].tolist()) if row.cid == cid]
    found: I32 = np.array([view.slot_at(row.position) for row in same], dtype=np.int32)
    if not len(found):
        return None
    slot = int(view.of_voice(found, voice)[0])
    return slot, next(row for row in same if row.position == view.from_position[slot])


def _index(slots: I32, slot: int) -> int | None:
    at = int(slots.searchsorted(slot))
    return at if at < len(slots) and int(slots[at]) == slot else None


VALUES_OF_A_VOICE = 2
"""What it says now and what it said before, or both sides of its doubt."""


def repeats_last(survey: Survey, slots: I32, contradicted: Bool, order: I32) -> tuple[I32, int]:
    """``order``, indices into ``slots`` by rank, repeats last; and how many are no repeats.

    One source's repetitions do not push out another source's single statement. Of contradicted
    facts, those that repeat a value of their key and voice come after all other candidates. So do a
    voice's further values of a key, after its best ``VALUES_OF_A_VOICE``, if another voice
    disagrees: thirty variations of a statement are as cheap as thirty repetitions. But a
    conversation under a relation that is not declared set-valued has no variations.
    """
    view = survey.view
    disputed = contradicted[order].nonzero()[0]
    if len(disputed) < 2:
        return order, len(order)
    said = slots[order[disputed]]
    what = np.stack([view.key[said], view.value[said], view.voices(said)])
    alike = np.lexsort((*view.ages(said), *what))  # the newest of those alike comes last
    repeats = (what[:, alike[1:]] == what[:, alike[:-1]]).all(axis=0)
    repeated = np.zeros(len(order), dtype=np.bool_)
    repeated[disputed[alike[:-1][repeats]]] = True
    once = (~repeated[disputed]).nonzero()[0]
    key, voice = what[0, once], what[2, once]
    further = _further_values(key, voice)
    if further.any():
        further &= ~are_discussed(survey, key.astype(np.int32), voice)
        repeated[disputed[once[further]]] = True
    return np.concatenate([order[~repeated], order[repeated]]), int(np.count_nonzero(~repeated))


def _further_values(key: I64, voice: I64) -> Bool:
    """Which facts, by rank, follow ``VALUES_OF_A_VOICE`` of their key and voice, where another
    voice speaks about the key."""
    alike = np.lexsort((voice, key))  # stable: by rank within a voice of a key
    key, voice = key[alike], voice[alike]
    begins = np.ones(len(alike), dtype=np.bool_)
    begins[1:] = (key[1:] != key[:-1]) | (voice[1:] != voice[:-1])
    starts = begins.nonzero()[0]
    turn = np.arange(len(alike)) - np.repeat(starts, np.diff(np.append(starts, len(alike))))
    late = (turn >= VALUES_OF_A_VOICE).nonzero()[0]
    further = np.zeros(len(alike), dtype=np.bool_)
    if len(late):
        spoken, voices = np.unique(key[starts], return_counts=True)
        argued = np.isin(key[late], spoken[voices > 1])
        further[alike[late[argued]]] = True
    return further
