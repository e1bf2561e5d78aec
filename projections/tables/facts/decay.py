"""Decay: how a sweep changes confidence, and the record of sweeps.

Confidence at a moment is defined, not accumulated: ``round(max(floor, base * 2 ** (-age /
half_life)), 6)``, with the age at the latest sweep that applies, or 0 after a sweep retracted the
fact. Tables and memory image use the same functions, so both hold the same bits. Source: the
protocol's §15, DESIGN §2.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw
import msgspec
import numpy as np

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import DecayPolicy, DecaySwept
from engramlog.projections.arrays import F64, I32, I64, Bool, Slots
from engramlog.projections.ascending import grouped
from engramlog.projections.columns.fact_columns import ColumnView
from engramlog.projections.interner import Interner
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import SCOPES, matches_label
from engramlog.projections.tables.database import query
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import insert_row

EXEMPT_PREFIXES = ("stigmem:", "rel:")
MAY_DECAY = """facts.relation NOT GLOB 'stigmem:*' AND facts.relation NOT GLOB 'rel:*'
    AND (facts.entity NOT GLOB 'stigmem:*' OR facts.entity GLOB 'stigmem://*')"""
"""``not is_exempt`` in SQL."""
DECIMALS = 6
"""Of a decayed confidence."""
HALVINGS_MAX = 64.0
"""After which nothing is left that ``DECIMALS`` show."""
_SWEEPS = "SELECT position, scope, at_us, policies, gardens FROM decay_sweeps ORDER BY position"
GARDENS_SWEPT = """(garden_id IS NULL OR garden_id IN (SELECT value FROM json_each(?3))
    OR '*' IN (SELECT value FROM json_each(?3)))"""
"""Selects the facts that a sweep covers; its third binding is ``gardens_json``."""


def gardens_json(sweep: DecaySwept) -> str:
    """The gardens of a sweep, ``*`` for all."""
    return msgspec.json.encode(sweep.gardens).decode()


def ends_facts(sweep: DecaySwept) -> bool:
    """Whether a sweep can end facts, not only weaken them."""
    return any(policy.mode == "retract" for policy in sweep.policies)


def is_exempt(entity: str, relation: str) -> bool:
    """System facts and relationship facts never decay."""
    return relation.startswith(EXEMPT_PREFIXES) or (
        entity.startswith("stigmem:") and not entity.startswith("stigmem://")
    )


def policy_for(policies: Sequence[DecayPolicy], relation: str, scope: str) -> DecayPolicy | None:
    """The most specific policy for (relation, scope), or None if no policy covers it or the chosen
    one exempts the relation. An exact or longer relation pattern beats a shorter one, then a named
    scope beats ``*``, then the smaller id wins."""
    best: tuple[int, int, str] | None = None
    chosen: DecayPolicy | None = None
    for policy in policies:
        if policy.scope not in ("*", scope) or not matches_label(policy.relation, relation):
            continue
        exact = not policy.relation.endswith("*")
        rank = (-2 * len(policy.relation) - exact, int(policy.scope == "*"), policy.id)
        if best is None or rank < best:
            best, chosen = rank, policy
    if chosen is None:
        return None
    if any(matches_label(pattern, relation) for pattern in chosen.exempt_relations):
        return None
    return chosen


def decayed_confidence(base: F64, age_us: I64, half_life_s: float | F64, floor: float | F64) -> F64:
    """Half-life decay with a floor, never above the base, rounded to six places."""
    halvings = np.maximum(age_us, 0) / (half_life_s * 1e6)
    decayed = np.round(np.maximum(floor, base * np.exp2(-halvings)), DECIMALS)
    return np.minimum(base, decayed).astype(np.float64)


def retracted_by(policy: DecayPolicy, confidence: F64, age_us: I64) -> Bool:
    """Facts a retract-mode policy ends: older than the TTL, or under the floor of confidence."""
    ended: Bool = np.zeros(len(confidence), dtype=bool)
    if policy.ttl_s is not None:
        ended |= age_us >= policy.ttl_s * 1e6
    if policy.min_confidence is not None:
        ended |= confidence < policy.min_confidence
    return ended


def swept_rows(
    sweeps: Mapping[str, tuple[int, DecaySwept]], rows: Iterable[Sequence[Any]]
) -> tuple[list[tuple[int, int]], list[tuple[float, int]]]:
    """What sweeps do to rows: (positions and the rows ended there, new confidences and rows).
    ``sweeps``: each with its position, by scope. ``rows``: an identity, relation, scope, asserted
    and current confidence, and ``recorded_at``. None is exempt."""
    groups: dict[tuple[str, str], list[Sequence[Any]]] = {}
    for row in rows:
        groups.setdefault((row[1], row[2]), []).append(row)
    ended: list[tuple[int, int]] = []
    weaker: list[tuple[float, int]] = []
    for (relation, scope), members in groups.items():
        position, sweep = sweeps[scope if scope in sweeps else "*"]
        policy = policy_for(sweep.policies, relation, scope)
        if policy is None:
            continue
        names, _, _, asserted, current, recorded_at = zip(*members, strict=True)
        age: I64 = sweep.at_us - np.array(recorded_at, dtype=np.int64)
        now: F64 = np.array(current, dtype=np.float64)
        if policy.mode == "retract":
            gone = retracted_by(policy, now, age)
            ended += [(position, names[n]) for n in np.flatnonzero(gone).tolist()]
        elif policy.half_life_s is not None:
            base: F64 = np.array(asserted, dtype=np.float64)
            floor = policy.min_confidence or 0.0
            after = decayed_confidence(base, age, policy.half_life_s, floor)
            changed = np.flatnonzero(after != now)
            chosen = (names[n] for n in changed.tolist())
            weaker += zip(after[changed].tolist(), chosen, strict=True)
    return ended, weaker


class DecayProjector(Projector):
    """``decay_sweeps``: every sweep with its policies. The confidence at any moment follows from
    it."""

    name = "decay"
    version = 2
    schema = """
    CREATE TABLE decay_sweeps (
        position INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        at_us INTEGER NOT NULL,
        policies TEXT NOT NULL,
        gardens TEXT NOT NULL
    ) STRICT;
    """
    kinds = frozenset({"decay_swept"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        insert_row(db, "decay_sweeps", event)


def _sweeps(db: apsw.Connection) -> list[tuple[int, DecaySwept]]:
    """All sweeps with their positions, oldest first."""
    decode = msgspec.json.Decoder(list[DecayPolicy]).decode
    names = msgspec.json.Decoder(list[str]).decode
    return [
        (
            position,
            DecaySwept(scope=scope, at_us=at_us, policies=decode(policies), gardens=names(gardens)),
        )
        for position, scope, at_us, policies, gardens in query(db, _SWEEPS)
    ]


class _Regime:
    """All sweeps of one scope and the same gardens with equal policies: positions and instants."""

    def __init__(self, sweep: DecaySwept) -> None:
        self.sweep = sweep
        self.positions: list[int] = []
        self.instants: list[int] = []
        empty: F64 = np.empty(0, dtype=np.float64)
        self._rates: tuple[F64, F64] = (empty, empty)

    def rates(self, relations: Interner) -> tuple[F64, F64]:
        """For every relation in every scope: the half-life in seconds (NaN without decay) and the
        floor. The index is the relation's number times the number of scopes, plus the scope's
        number."""
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
            self._rates = (lives, floors)  # in one step: others may read them meanwhile
        return lives, floors

    def _rate(self, relation: str, scope: str) -> tuple[float, float]:
        if self.sweep.scope not in ("*", scope) or is_exempt("", relation):
            return np.nan, 0.0
        policy = policy_for(self.sweep.policies, relation, scope)
        if policy is None or policy.mode != "confidence" or policy.half_life_s is None:
            return np.nan, 0.0
        return policy.half_life_s, policy.min_confidence or 0.0


_decode_state = msgspec.msgpack.Decoder(list[tuple[DecaySwept, list[int], list[int]]]).decode


class DecayPart(SmallPart):
    """Confidence at any position, from the list of sweeps."""

    kinds = DecayProjector.kinds

    def __init__(self) -> None:
        self._regimes: dict[str, _Regime] = {}

    def load(self, db: apsw.Connection) -> None:
        for position, sweep in _sweeps(db):
            self._add(sweep, [position], [sweep.at_us])

    def fold_event(self, event: Recorded) -> None:
        assert isinstance(event.payload, DecaySwept)
        self._add(event.payload, [event.position], [event.payload.at_us])

    def state(self) -> bytes:
        kept = [(each.sweep, each.positions, each.instants) for each in self._regimes.values()]
        return msgspec.msgpack.encode(kept)

    def restore(self, state: bytes) -> None:
        for sweep, positions, instants in _decode_state(state):
            self._add(sweep, positions, instants)

    def _add(self, sweep: DecaySwept, positions: Sequence[int], instants: Sequence[int]) -> None:
        name = repr((sweep.scope, sweep.gardens, sweep.policies))
        regime = self._regimes.setdefault(name, _Regime(sweep))
        regime.positions.extend(positions)
        regime.instants.extend(instants)

    def positions(self, until: int) -> list[int]:
        """Positions of all sweeps up to one, ascending."""
        regimes = list(self._regimes.values())  # the writer may add one meanwhile
        return sorted({at for regime in regimes for at in regime.positions if at <= until})

    def confidence(self, view: ColumnView, slots: Slots, position: int) -> F64:
        """Decayed confidence of slots; ignores retractions."""
        base: F64 = view.base[slots].astype(np.float64)
        reached = [
            (regime.positions[count - 1], regime.instants[count - 1], regime)
            for regime in list(self._regimes.values())  # the writer may add one meanwhile
            if (count := bisect_right(regime.positions, position))
        ]
        if not reached:
            return base
        many = np.atleast_1d(slots)
        confidence = np.array(base, ndmin=1)
        open_slots: Bool = confidence > 0.0
        for swept, at_us, regime in sorted(reached, key=lambda entry: -entry[0]):
            waiting = np.flatnonzero(open_slots & (view.from_position[many] < swept))
            waiting = waiting[_covered(view, many[waiting], regime.sweep.gardens)]
            if not len(waiting):
                continue
            self._sweep(view, many, waiting, at_us, regime, confidence, open_slots)
        return confidence.reshape(np.shape(slots))

    def above(self, view: ColumnView, slots: I32, position: int, bound: float) -> Bool:
        """``confidence(view, slots, position) > bound``, which most facts reach even if the
        fastest policy had faded all of them since the oldest was recorded."""
        fading = [
            (regime.instants[count - 1], policy.half_life_s)
            for regime in list(self._regimes.values())  # the writer may add one meanwhile
            if (count := bisect_right(regime.positions, position))
            for policy in regime.sweep.policies
            if policy.half_life_s is not None
        ]
        if not fading or not len(slots):
            return view.base[slots] > bound
        age_s = max(0, max(at_us for at_us, _ in fading) - int(view.recorded_at.min())) / 1e6
        halvings = age_s / min(half_life_s for _, half_life_s in fading)
        sure = view.base[slots] > (bound + 10.0**-DECIMALS) * 2.0 ** min(halvings, HALVINGS_MAX)
        unsure = np.flatnonzero(~sure)
        sure[unsure] = self.confidence(view, slots[unsure], position) > bound
        return sure

    def _sweep(
        self,
        view: ColumnView,
        slots: I32,
        waiting: I64,
        at_us: int,
        regime: _Regime,
        confidence: F64,
        open_slots: Bool,
    ) -> None:
        """Apply a sweep at ``at_us`` to the waiting facts (indexes into ``slots``) that fade: set
        their ``confidence``, and clear them in ``open_slots``."""
        chosen = slots[waiting]
        lives, floors = regime.rates(view.relations)
        labels = view.relation[chosen].astype(np.int64) * len(SCOPES) + view.scope[chosen]
        half_life = lives[labels]
        fades = ~np.isnan(half_life) & may_decay(view, chosen)
        picked, rows = waiting[fades], chosen[fades]
        age: I64 = at_us - view.recorded_at[rows]
        confidence[picked] = decayed_confidence(
            view.base[rows], age, half_life[fades], floors[labels[fades]]
        )
        open_slots[picked] = False

    def ended_by(self, view: ColumnView, sweep: DecaySwept, position: int) -> I32:
        """Which live slots a retract-mode sweep ends."""
        none: I32 = np.empty(0, dtype=np.int32)
        if not ends_facts(sweep):
            return none
        live = np.flatnonzero((view.to_position == LIVE) & (view.base > 0.0)).astype(np.int32)
        live = live[_covered(view, live, sweep.gardens)]
        current = self.confidence(view, live, position - 1)
        ended: list[I32] = []
        labels = view.relation[live].astype(np.int64) * len(SCOPES) + view.scope[live]
        for label, picked in grouped(labels):
            relation = view.relations.text(label // len(SCOPES))
            scope = SCOPES[label % len(SCOPES)]
            policy = policy_for(sweep.policies, relation, scope)
            if sweep.scope not in ("*", scope) or policy is None or policy.mode != "retract":
                continue
            chosen = picked[_decays(view, live[picked], relation)]
            rows = live[chosen]
            age: I64 = sweep.at_us - view.recorded_at[rows]
            ended.append(rows[retracted_by(policy, current[chosen], age)])
        return np.sort(np.concatenate(ended)) if ended else none


def _covered(view: ColumnView, slots: I32, gardens: Sequence[str]) -> Bool:
    """Which facts lie in the gardens of a sweep."""
    garden = view.garden[slots]
    covered: Bool = garden < 0
    if "*" in gardens:
        covered[:] = True
    elif gardens and not covered.all():
        numbers = [view.gardens.number(name) for name in gardens]
        covered |= np.isin(garden, [number for number in numbers if number is not None])
    return covered


def _decays(view: ColumnView, slots: I32, relation: str) -> Bool:
    """Which facts of a relation a sweep may touch."""
    if is_exempt("", relation):
        return np.zeros(len(slots), dtype=bool)
    return may_decay(view, slots)


def may_decay(view: ColumnView, slots: I32) -> Bool:
    """Which facts are about entities that are not exempt."""
    exempt = view.entities.chosen("exempt from decay", lambda text: is_exempt(text, ""))
    if not len(exempt):
        return np.ones(len(slots), dtype=np.bool_)
    return np.isin(view.entity[slots], exempt, invert=True)
