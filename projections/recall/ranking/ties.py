"""Which of two facts with equal scores comes first. Smaller keys come first; age ends every tie,
the older first."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engramlog.projections.arrays import F64, I32, I64
from engramlog.projections.image.view import View
from engramlog.projections.memories.summary_naming import RELATION


def _period(view: View, slots: I32) -> I64:
    """Paragraphs of summaries by period, the newest first; other facts after them."""
    summary = view.relations.number(RELATION)
    starts = view.valid_from[slots]
    return np.where(view.relation[slots] == (-1 if summary is None else summary), -starts, 2**62)


TIES: dict[str, Callable[[View, I32], np.ndarray[Any, Any]]] = {
    "newest": lambda view, slots: -view.hlc[slots],
    "oldest": lambda view, slots: view.hlc[slots],
    "period": _period,
}


def ranking(view: View, slots: I32, scores: F64, ties: Sequence[str]) -> I32:
    """Indices into ``slots`` by descending score, ties broken in the order named."""
    keys = [TIES[name](view, slots) for name in reversed(ties)]
    return np.lexsort((*view.ages(slots), *keys, -scores)).astype(np.int32)
