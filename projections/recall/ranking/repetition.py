"""One source's repetitions do not push out another source's single statement.

Of contradicted facts, those that repeat a value of their key and voice come after all other
candidates. So do a voice's further values of a key, after its best ``VALUES_OF_A_VOICE``, if
another voice disagrees: thirty variations of a statement are as cheap as thirty repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engramlog.projections.arrays import I32, I64, Bool

if TYPE_CHECKING:
    from engramlog.projections.image.view import View

VALUES_OF_A_VOICE = 2
"""What it says now and what it said before, or both sides of its doubt."""


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
    once = np.flatnonzero(~repeated[disputed])
    repeated[disputed[once[_further_values(what[0, once], what[2, once])]]] = True
    return np.concatenate([order[~repeated], order[repeated]]), int(np.count_nonzero(~repeated))


def _further_values(key: I64, voice: I64) -> Bool:
    """Which facts, by rank, follow ``VALUES_OF_A_VOICE`` of their key and voice, where another
    voice speaks about the key."""
    alike = np.lexsort((voice, key))  # stable: by rank within a voice of a key
    key, voice = key[alike], voice[alike]
    begins = np.ones(len(alike), dtype=np.bool_)
    begins[1:] = (key[1:] != key[:-1]) | (voice[1:] != voice[:-1])
    starts = np.flatnonzero(begins)
    turn = np.arange(len(alike)) - np.repeat(starts, np.diff(np.append(starts, len(alike))))
    late = np.flatnonzero(turn >= VALUES_OF_A_VOICE)
    further = np.zeros(len(alike), dtype=np.bool_)
    if len(late):
        spoken, voices = np.unique(key[starts], return_counts=True)
        argued = np.isin(key[late], spoken[voices > 1])
        further[alike[late[argued]]] = True
    return further
