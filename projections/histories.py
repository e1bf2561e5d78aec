"""Small histories beside the mirror's columns: decay sweeps, accesses, declarations.

Each answers "as of which position", so live and past questions take the same path.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from eventlog.kinds import DecaySwept, RecallUse
from projections.arrays import F64, I8, I32, I64, Bool
from projections.decay import decayed_confidence, is_exempt, policy_for, retracted_by
from projections.interner import Interner
from projections.normalization import SCOPES, matches_label
from projections.policies import ALWAYS_SET_VALUED


class Ageing(Protocol):
    """Columns that decay depends on."""

    @property
    def from_position(self) -> I64: ...
    @property
    def recorded_at(self) -> I64: ...
    @property
    def base(self) -> F64: ...
    @property
    def entity(self) -> I32: ...
    @property
    def relation(self) -> I32: ...
    @property
    def scope(self) -> I8: ...
    @property
    def garden(self) -> I32: ...
    @property
    def entities(self) -> Interner: ...
    @property
    def relations(self) -> Interner: ...
    @property
    def gardens(self) -> Interner: ...


class _Regime:
    """All sweeps of one scope and the same gardens that carried equal policies: their
    positions and instants."""

    def __init__(self, sweep: DecaySwept) -> None:
        self.scope = sweep.scope
        self.gardens = sweep.gardens
        self.policies = sweep.policies
        self.positions: list[int] = []
        self.instants: list[int] = []
        empty: F64 = np.empty(0, dtype=np.float64)
        self._rates: tuple[F64, F64] = (empty, empty)

    def rates(self, relations: Interner) -> tuple[F64, F64]:
        """Half-life in seconds, NaN where nothing fades, and floor of every relation in every
        scope: by number of the relation times the scopes, plus that of the scope."""
        lives, floors = self._rates
        known, count = len(lives) // len(SCOPES), len(relations)
        if known < count:
            fresh = [
                self._rate(relations.text(number), scope)
                for number in range(known, count)
                for scope in SCOPES
            ]
            lives = np.concatenate((lives, [life for life, _ in fresh]))
            floors = np.concatenate((floors, [floor for _, floor in fresh]))
            self._rates = (lives, floors)  # at once: others may read them meanwhile
        return lives, floors

    def _rate(self, relation: str, scope: str) -> tuple[float, float]:
        if self.scope not in ("*", scope) or is_exempt("", relation):
            return np.nan, 0.0
        policy = policy_for(self.policies, relation, scope)
        if policy is None or policy.mode != "confidence" or policy.half_life_s is None:
            return np.nan, 0.0
        return policy.half_life_s, policy.min_confidence or 0.0


class DecayHistory:
    """Confidence at any position, from the list of sweeps."""

    def __init__(self) -> None:
        self._regimes: dict[str, _Regime] = {}

    def add(self, position: int, sweep: DecaySwept) -> None:
        name = repr((sweep.scope, sweep.gardens, sweep.policies))
        regime = self._regimes.setdefault(name, _Regime(sweep))
        regime.positions.append(position)
        regime.instants.append(sweep.at_us)

    def positions(self, until: int) -> list[int]:
        """Positions of all sweeps up to one, ascending."""
        regimes = list(self._regimes.values())  # the writer may add one meanwhile
        return sorted({at for regime in regimes for at in regime.positions if at <= until})

    def confidence(self, view: Ageing, slots: I32, position: int) -> F64:
        """Decayed confidence of slots, retraction left aside."""
        base: F64 = view.base[slots].astype(np.float64)
        reached = [
            (regime.positions[count - 1], regime.instants[count - 1], regime)
            for regime in list(self._regimes.values())  # the writer may add one meanwhile
            if (count := bisect_right(regime.positions, position))
        ]
        if not reached:
            return base
        confidence = base.copy()
        open_slots: Bool = base > 0.0
        for swept, at_us, regime in sorted(reached, key=lambda entry: -entry[0]):
            waiting = np.flatnonzero(open_slots & (view.from_position[slots] < swept))
            waiting = waiting[_covered(view, slots[waiting], regime.gardens)]
            if not len(waiting):
                continue
            self._sweep(view, slots, waiting, at_us, regime, confidence, open_slots)
        return confidence

    def _sweep(
        self,
        view: Ageing,
        slots: I32,
        waiting: I64,
        at_us: int,
        regime: _Regime,
        confidence: F64,
        open_slots: Bool,
    ) -> None:
        chosen = slots[waiting]
        lives, floors = regime.rates(view.relations)
        labels = view.relation[chosen].astype(np.int64) * len(SCOPES) + view.scope[chosen]
        half_life = lives[labels]
        fades = ~np.isnan(half_life) & _may_decay(view, chosen)
        picked, rows = waiting[fades], chosen[fades]
        age: I64 = at_us - view.recorded_at[rows]
        confidence[picked] = decayed_confidence(
            view.base[rows], age, half_life[fades], floors[labels[fades]]
        )
        open_slots[picked] = False

    def ended_by(self, view: Ageing, sweep: DecaySwept, position: int, live: I32) -> I32:
        """Which live slots a retract-mode sweep ends."""
        if not any(policy.mode == "retract" for policy in sweep.policies):
            return live[:0]
        live = live[_covered(view, live, sweep.gardens)]
        current = self.confidence(view, live, position - 1)
        ended: list[I32] = []
        labels = view.relation[live].astype(np.int64) * len(SCOPES) + view.scope[live]
        for label in np.unique(labels):
            relation = view.relations.text(int(label) // len(SCOPES))
            scope = SCOPES[int(label) % len(SCOPES)]
            policy = policy_for(sweep.policies, relation, scope)
            if sweep.scope not in ("*", scope) or policy is None or policy.mode != "retract":
                continue
            picked = np.flatnonzero(labels == label)
            picked = picked[_decays(view, live[picked], relation)]
            rows = live[picked]
            age: I64 = sweep.at_us - view.recorded_at[rows]
            ended.append(rows[retracted_by(policy, current[picked], age)])
        return np.sort(np.concatenate(ended)) if ended else live[:0]


def _covered(view: Ageing, slots: I32, gardens: Sequence[str]) -> Bool:
    """Which facts lie where a sweep of these gardens reaches."""
    garden = view.garden[slots]
    covered: Bool = garden < 0
    if "*" in gardens:
        covered[:] = True
    elif gardens and not covered.all():
        numbers = [view.gardens.number(name) for name in gardens]
        covered |= np.isin(garden, [number for number in numbers if number is not None])
    return covered


def _decays(view: Ageing, slots: I32, relation: str) -> Bool:
    """Which facts of a relation a sweep may touch."""
    if is_exempt("", relation):
        return np.zeros(len(slots), dtype=bool)
    return _may_decay(view, slots)


def _may_decay(view: Ageing, slots: I32) -> Bool:
    """Which facts are about entities that are not exempt."""
    exempt = view.entities.chosen("exempt from decay", lambda text: is_exempt(text, ""))
    if not len(exempt):
        return np.ones(len(slots), dtype=np.bool_)
    return np.isin(view.entity[slots], exempt, invert=True)


class AccessHistory:
    """How often facts had been returned by recalls, as of any position."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._slots: list[I32] = []
        self._counts: list[I64] = []
        self._totals: I64 = np.zeros(0, dtype=np.int64)

    def add(self, position: int, uses: Iterable[tuple[int, int]]) -> None:
        """Uses are (slot, count)."""
        pairs = list(uses)
        if not pairs:
            return
        slots: I32 = np.array([slot for slot, _ in pairs], dtype=np.int32)
        counts: I64 = np.array([count for _, count in pairs], dtype=np.int64)
        totals = self._totals
        if int(slots.max()) >= len(totals):
            grown: I64 = np.zeros(max(2 * len(totals), int(slots.max()) + 1), dtype=np.int64)
            grown[: len(totals)] = totals
            totals = grown
        else:
            totals = totals.copy()
        np.add.at(totals, slots, counts)
        self._positions.append(position)
        self._slots.append(slots)
        self._counts.append(counts)
        self._totals = totals

    def at(self, slots: I32, position: int) -> I64:
        """Counts of slots at a position."""
        totals = self._totals  # before the positions: the writer may add to both meanwhile
        known = bisect_right(self._positions, position)
        if known < len(self._positions):
            totals = np.zeros(len(self._totals), dtype=np.int64)
            for index in range(known):
                np.add.at(totals, self._slots[index], self._counts[index])
        counts: I64 = np.zeros(len(slots), dtype=np.int64)
        inside = slots < len(totals)
        counts[inside] = totals[slots[inside]]
        return counts


class SetValuedHistory:
    """Which relations were declared set-valued, as of any position."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._patterns: list[tuple[str, ...]] = []
        self._covered: dict[tuple[str, int], bool] = {}

    def add(self, position: int, patterns: Iterable[str]) -> None:
        self._positions.append(position)
        self._patterns.append(tuple(patterns))

    def covers(self, relation: str, position: int) -> bool:
        """Whether a relation label was set-valued at a position."""
        count = bisect_right(self._positions, position)
        known = self._covered.get((relation, count))
        if known is None:
            declared = self._patterns[count - 1] if count else ()
            patterns = (*ALWAYS_SET_VALUED, *declared)
            known = any(matches_label(pattern, relation) for pattern in patterns)
            self._covered[relation, count] = known
        return known


def uses_by_slot(uses: Iterable[RecallUse], slot_of: dict[str, int]) -> Iterable[tuple[int, int]]:
    """(slot, count) of the uses whose facts are known here."""
    for use in uses:
        slot = slot_of.get(use.fact_id)
        if slot is not None:
            yield slot, use.count
