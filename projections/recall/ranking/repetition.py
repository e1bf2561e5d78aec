"""One source's repeated values count once if other sources disagree.

Of contradicted facts, those that repeat a value of their key and voice come after all other
candidates: thirty repetitions do not push out another source's single statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import I32, Bool

if TYPE_CHECKING:
    from engramlog.projections.image.view import View


def repeats_last(view: View, slots: I32, contradicted: Bool, order: I32) -> tuple[I32, int]:
    """``order``, indices into ``slots`` by rank, repeats last; and how many are no repeats."""
    disputed = np.flatnonzero(contradicted[order])
    if len(disputed) < 2:
        return order, len(order)
    said = slots[order[disputed]]
    what = np.stack([view.key[said], view.value[said], view.voices(said)])
    alike = np.lexsort(what)  # stable: the best of those alike comes first
    repeats = (what[:, alike[1:]] == what[:, alike[:-1]]).all(axis=0)
    repeated = np.zeros(len(order), dtype=np.bool_)
    repeated[disputed[alike[1:][repeats]]] = True
    return np.concatenate([order[~repeated], order[repeated]]), int(np.count_nonzero(~repeated))
