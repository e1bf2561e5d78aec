"""Packing: which candidates fit the caller's budget, in the order a chooser proposes them.

Packed facts never cost more than the budget and never exceed the limit.
"""

from collections.abc import Callable, Sequence

from engramlog.projections.arrays import I32
from engramlog.projections.recall.ranking.diversity import Chooser

OVERHEAD_TOKENS = 40
BYTES_PER_TOKEN = 4


def by_value_bytes(value_text: str) -> int:
    """``40 + ceil(utf-8 bytes of the value / 4)`` (seed §20.3.4)."""
    return OVERHEAD_TOKENS + -(-len(value_text.encode()) // BYTES_PER_TOKEN)


def costs_by_value_bytes(value_bytes: I32) -> list[int]:
    """``by_value_bytes`` of many values, given the bytes of each."""
    costs: list[int] = (OVERHEAD_TOKENS + -(-value_bytes // BYTES_PER_TOKEN)).tolist()
    return costs


ESTIMATORS: dict[str, Callable[[str], int]] = {"value_bytes": by_value_bytes}
COSTS: dict[str, Callable[[I32], list[int]]] = {"value_bytes": costs_by_value_bytes}
"""The same estimators for many values, without their texts."""


def pack(
    chooser: Chooser, costs: Sequence[int], *, budget: int, limit: int, skips_max: int
) -> list[int]:
    """Take proposed candidates while they fit; returns their indices in the order packed.
    ``skips_max``: how many candidates that do not fit may be skipped; at the next one packing
    stops. 0 stops at the first (the seed's loop)."""
    chosen: list[int] = []
    used = skipped = 0
    cheapest = min(costs, default=0)
    while len(chosen) < limit and used + cheapest <= budget:
        index = chooser.propose()
        if index is None:
            break
        if used + costs[index] <= budget:
            chooser.take(index)
            chosen.append(index)
            used += costs[index]
        elif skipped < skips_max:
            chooser.reject(index)
            skipped += 1
        else:
            break
    return chosen
