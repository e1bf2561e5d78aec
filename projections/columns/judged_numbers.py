"""A property of numbers that takes long to find."""

from collections.abc import Callable

import numpy as np

from engramlog.projections.arrays import I8, I32
from engramlog.projections.ascending import distinct


class JudgedNumbers:
    """Each number is judged once, when first asked. Any thread may ask."""

    def __init__(self) -> None:
        self._judged: I8 = np.zeros(0, dtype=np.int8)

    def of(self, numbers: I32, judge: Callable[[I32], I8]) -> I8:
        """For each number. ``judge``: of numbers, ascending and each once; from 0 to 126."""
        judged = self._judged
        count = int(numbers.max(initial=-1)) + 1
        if count > len(judged):  # a thread that grows it at the same time judges some again
            grown = np.zeros(2 * count, dtype=np.int8)
            grown[: len(judged)] = judged
            self._judged = judged = grown
        found = judged[numbers]
        if not found.all():
            new = distinct(numbers[found == 0])
            judged[new] = judge(new) + 1
            found = judged[numbers]
        return found - 1
