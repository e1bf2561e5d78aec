"""Decay: how a sweep changes confidence, and the record of sweeps.

Confidence at a moment is defined, not accumulated:
``round(max(floor, base * 2 ** (-age / half_life)), 6)`` with the age at the latest sweep
that applies, or 0 once a sweep has retracted the fact. The same functions serve the
tables and the mirror, so both hold the same bits. Source: the protocol's §15, DESIGN §2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec
import numpy as np

from eventlog.event import Recorded
from eventlog.kinds import DecayPolicy, DecaySwept
from projections.arrays import F64, I64, Bool
from projections.database import query
from projections.normalization import matches_label

EXEMPT_PREFIXES = ("stigmem:", "rel:")
SWEPT_COLUMNS = "from_position, entity, relation, scope, base_confidence, confidence, recorded_at"
"""What ``swept_rows`` needs of a row, its identity first."""


_SWEEPS = "SELECT position, scope, at_us, policies, gardens FROM decay_sweeps ORDER BY position"
GARDENS_SWEPT = """(garden_id IS NULL OR garden_id IN (SELECT value FROM json_each(?))
    OR '*' IN (SELECT value FROM json_each(?)))"""
"""Which facts a sweep covers; takes ``gardens_json`` twice."""


def gardens_json(sweep: DecaySwept) -> str:
    """The gardens whose facts a sweep covers, ``*`` for all."""
    return msgspec.json.encode(sweep.gardens).decode()


def is_exempt(entity: str, relation: str) -> bool:
    """System facts and relationship facts never decay."""
    return relation.startswith(EXEMPT_PREFIXES) or (
        entity.startswith("stigmem:") and not entity.startswith("stigmem://")
    )


def policy_for(policies: Sequence[DecayPolicy], relation: str, scope: str) -> DecayPolicy | None:
    """The most specific policy that covers (relation, scope); None where none does or the
    chosen one exempts the relation. An exact or longer relation pattern beats a shorter
    one, then a named scope beats ``*``, then the smaller id."""
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
    decayed = np.round(np.maximum(floor, base * np.exp2(-halvings)), 6)
    return np.minimum(base, decayed).astype(np.float64)


def retracted_by(policy: DecayPolicy, confidence: F64, age_us: I64) -> Bool:
    """Which facts a retract-mode policy ends: older than the TTL, or sunk under the floor."""
    ended: Bool = np.zeros(len(confidence), dtype=bool)
    if policy.ttl_s is not None:
        ended |= age_us >= policy.ttl_s * 1e6
    if policy.min_confidence is not None:
        ended |= confidence < policy.min_confidence
    return ended


def swept_rows(
    sweep: DecaySwept, rows: Iterable[Sequence[Any]]
) -> tuple[list[int], list[tuple[int, float]]]:
    """What a sweep does to rows of ``SWEPT_COLUMNS``: (rows it ends, rows it weakens)."""
    groups: dict[tuple[str, str, bool], list[Sequence[Any]]] = {}
    for row in rows:
        key = (row[2], row[3], is_exempt(row[1], row[2]))
        groups.setdefault(key, []).append(row)
    ended: list[int] = []
    decayed: list[tuple[int, float]] = []
    for (relation, scope, exempt), members in groups.items():
        policy = None if exempt else policy_for(sweep.policies, relation, scope)
        if policy is None:
            continue
        age: I64 = np.array([sweep.at_us - row[6] for row in members], dtype=np.int64)
        current: F64 = np.array([row[5] for row in members], dtype=np.float64)
        if policy.mode == "retract":
            gone = retracted_by(policy, current, age)
            ended.extend(members[i][0] for i in np.flatnonzero(gone))
        elif policy.half_life_s is not None:
            base: F64 = np.array([row[4] for row in members], dtype=np.float64)
            floor = policy.min_confidence or 0.0
            after = decayed_confidence(base, age, policy.half_life_s, floor)
            decayed.extend(
                (members[i][0], float(after[i])) for i in np.flatnonzero(after != current)
            )
    return ended, decayed


class DecayProjector:
    """``decay_sweeps``: every sweep with its policies; any moment's confidence follows."""

    name = "decay"
    version = 2
    tables = ("decay_sweeps",)
    schema = """
    CREATE TABLE decay_sweeps (
        position INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        at_us INTEGER NOT NULL,
        policies TEXT NOT NULL,
        gardens TEXT NOT NULL
    ) STRICT;
    """
    late_indexes = ""
    kinds = frozenset({"decay_swept"})
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            sweep = event.payload
            assert isinstance(sweep, DecaySwept)
            policies = msgspec.json.encode(sweep.policies).decode()
            db.execute(
                "INSERT INTO decay_sweeps VALUES (?,?,?,?,?)",
                (event.position, sweep.scope, sweep.at_us, policies, gardens_json(sweep)),
            )


def load_sweeps(db: apsw.Connection) -> list[tuple[int, DecaySwept]]:
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
