"""A property of numbers that takes long to find."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engramlog.projections.arrays import I32, grown
from engramlog.projections.ascending import distinct


class JudgedNumbers:
    """Each number is judged once, when first asked. Any thread may ask. ``kind``: the type of the
    judgements, which are from -1 on."""

    def __init__(self, kind: type[np.signedinteger[Any]] = np.int8) -> None:
        self._judged: np.ndarray[Any, Any] = np.zeros(0, dtype=kind)
        """By number, plus 2; 0: not judged."""

    def of(
        self, numbers: I32, judge: Callable[[I32], np.ndarray[Any, Any]]
    ) -> np.ndarray[Any, Any]:
        """For each number. ``judge``: of numbers, ascending and each once."""
        judged = self._judged
        count = int(numbers.max(initial=-1)) + 1
        if count > len(judged):  # a thread that grows it at the same time judges some again
            self._judged = judged = grown(judged, 2 * count)
        found = judged[numbers]
        if not found.all():
            new = distinct(numbers[found == 0])
            judged[new] = judge(new) + 2
            found = judged[numbers]
        return found - 2
