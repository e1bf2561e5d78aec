"""Trust in sources as of any position, for many facts at once: the mirror's side of it."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from eventlog.kinds import TrustPolicy
from projections.arrays import F64, I8, I32, I64, Bool
from projections.interner import Interner
from projections.moment import LIVE
from projections.trust_formula import CLAIMED, RECEIVED, WRITTEN_HERE, trust_levels

_DEFAULT = TrustPolicy()


class TrustHistory:
    """One thread adds, any may ask. See ``trust_formula`` for what the numbers mean."""

    def __init__(self, sources: Interner) -> None:
        self._sources = sources
        self._settings: dict[int, tuple[list[int], list[float]]] = {}
        self._keyed: dict[str, int] = {}
        self._policy_positions: list[int] = []
        self._policies: list[TrustPolicy] = []

    def add(self, position: int, source: str, trust: float) -> None:
        """An operator set a trust."""
        positions, values = self._settings.setdefault(self._sources.add(source), ([], []))
        values.append(trust)
        positions.append(position)

    def add_key(self, position: int, source: str) -> None:
        """A key was issued for a source."""
        self._sources.add(source)
        self._keyed.setdefault(source, position)

    def add_policy(self, position: int, policy: TrustPolicy) -> None:
        """The formula changed."""
        self._policies.append(policy)
        self._policy_positions.append(position)

    def keyed(self, source: str, position: int) -> bool:
        """Whether a source held a key before an event."""
        return self._keyed.get(source, LIVE) < position

    def policy(self, position: int) -> TrustPolicy:
        """The formula's parameters in force at a position."""
        count = bisect_right(self._policy_positions, position)
        return self._policies[count - 1] if count else _DEFAULT

    def at(self, sources: I32, warrants: I8, position: int) -> F64:
        """Trust in the source of each fact at a position.

        Args:
            sources, warrants: by fact: number of its source, and ``warrant_of``.
        """
        policy = self.policy(position)
        if policy.mode == "off":
            return np.ones(len(sources), dtype=np.float64)
        if (warrants != WRITTEN_HERE).any():
            trust: F64 = trust_levels(policy)[warrants]
            claimed: Bool = (warrants >= CLAIMED) & (warrants < RECEIVED)
            if claimed.any():
                trust[claimed & (self._key_positions()[sources] <= position)] = 1.0
        else:
            trust = np.ones(len(sources), dtype=np.float64)
        for source, (positions, values) in list(self._settings.items()):
            count = bisect_right(positions, position)
            if count:
                trust[sources == source] = values[count - 1]
        return trust

    def _key_positions(self) -> I64:
        """By source number: the position of its first key."""
        keyed = list(self._keyed.items())
        positions: I64 = np.full(len(self._sources), LIVE, dtype=np.int64)
        for source, position in keyed:
            number = self._sources.number(source)
            if number is not None:
                positions[number] = position
        return positions
