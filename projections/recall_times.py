"""When recalls returned each fact: the last few instants, as of any position (abmind seed,
"recall tracking")."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from eventlog.kinds import RecallUse

KEPT_MAX = 20
"""Instants kept of each fact, at any moment."""


def instants_of(uses: Iterable[RecallUse]) -> list[int]:
    """The last instants of a fact's uses in one batch, oldest first (microseconds)."""
    instants = [at for use in uses for at in (*use.earlier_us, use.last_at_us)]
    return sorted(instants)[-KEPT_MAX:]


class RecallTimes:
    """The instants by slot, in the order of the log."""

    def __init__(self) -> None:
        self._by_slot: dict[int, tuple[array[int], array[int]]] = {}

    def add(self, position: int, slot: int, instants: Sequence[int]) -> None:
        """Note what one event says of a slot."""
        known = self._by_slot.get(slot)
        if known is None:
            known = self._by_slot[slot] = (array("q"), array("q"))
        positions, times = known
        times.extend(instants)  # before the positions, by which readers count them
        positions.extend([position] * len(instants))

    def drop(self, slot: int) -> None:
        """Forget an erased fact."""
        self._by_slot.pop(slot, None)

    def at(self, slot: int, position: int) -> tuple[int, ...]:
        """The last instants known at a position, oldest first."""
        known = self._by_slot.get(slot)
        if known is None:
            return ()
        positions, times = known
        count = bisect_right(positions, position)
        return tuple(sorted(times[max(0, count - KEPT_MAX) : count]))
