"""Which numbers have a property that takes long to find."""

from collections.abc import Callable

import numpy as np

from engramlog.projections.arrays import I8, I32, Bool
from engramlog.projections.ascending import distinct

_NO, _YES = 1, 2


class JudgedNumbers:
    """Each number is judged once, when first asked. Any thread may ask."""

    def __init__(self) -> None:
        self._judged: I8 = np.zeros(0, dtype=np.int8)

    def among(self, numbers: I32, judge: Callable[[I32], Bool]) -> Bool:
        """For each number. ``judge``: of numbers, ascending and each once."""
        judged = self._judged
        count = int(numbers.max(initial=-1)) + 1
        if count > len(judged):  # a thread that grows it at the same time judges some again
            grown = np.zeros(2 * count, dtype=np.int8)
            grown[: len(judged)] = judged
            self._judged = judged = grown
        found = judged[numbers]
        if not found.all():
            new = distinct(numbers[found == 0])
            judged[new] = np.where(judge(new), _YES, _NO)
            found = judged[numbers]
        return found == _YES
