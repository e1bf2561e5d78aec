"""Compares two answers to one question, fact by fact: the recorded one and a repeated one."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Change = Literal["same", "moved", "gone", "new"]


class RankedFact(Struct, frozen=True):
    """A fact in an answer; its rank counts from 1."""

    fact_id: str
    rank: int
    score: float


class Compared(Struct, frozen=True):
    """A fact of either answer. ``then`` or ``now`` is None if that answer lacks it."""

    fact_id: str
    change: Change
    then: RankedFact | None
    now: RankedFact | None


def compare(then: Sequence[RankedFact], now: Sequence[RankedFact]) -> list[Compared]:
    """Every fact of both answers: those of ``now`` in its order, then those only in ``then``. A
    fact is ``same`` if its rank is; scores may differ."""
    earlier = {each.fact_id: each for each in then}
    compared = [_compare_present(each, earlier.get(each.fact_id)) for each in now]
    present = {each.fact_id for each in now}
    gone = [Compared(each.fact_id, "gone", each, None) for each in then]
    return compared + [each for each in gone if each.fact_id not in present]


def _compare_present(now: RankedFact, then: RankedFact | None) -> Compared:
    if then is None:
        return Compared(now.fact_id, "new", None, now)
    return Compared(now.fact_id, "same" if then.rank == now.rank else "moved", then, now)
