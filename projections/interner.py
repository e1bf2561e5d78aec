"""Text to small numbers and back; append-only, so a number never changes its meaning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from engramlog.projections.arrays import I32

_CHOICES_MAX = 64


class Interner:
    """Numbers texts 0, 1, 2 … in order of first appearance. One thread adds; any may read."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._choices: dict[object, tuple[int, I32]] = {}
        self._choosing = threading.Lock()

    def add(self, text: str) -> int:
        """The number of ``text``, given now if it is new."""
        number = self._numbers.get(text)
        if number is None:
            number = len(self._texts)
            self._texts.append(text)
            self._numbers[text] = number
        return number

    def number(self, text: str) -> int | None:
        """The number of ``text``, or None where it never appeared."""
        return self._numbers.get(text)

    def numbered(self, text: str) -> int:
        """The number of a text that has one. Raises KeyError for an unknown one."""
        return self._numbers[text]

    def text(self, number: int) -> str:
        """The text of a number. Raises IndexError for an unknown one."""
        return self._texts[number]

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """The texts of numbers, in the order given. Raises IndexError for an unknown one."""
        texts = self._texts
        return [texts[number] for number in numbers]

    def since(self, start: int) -> list[str]:
        """All texts from a number on."""
        return self._texts[start:]

    def texts_between(self, numbers: Sequence[int], after: str, last: str) -> list[str]:
        """Those texts of numbers that come after ``after`` and not after ``last``."""
        texts = self._texts
        return [text for n in numbers if (text := texts[n]) <= last and text > after]

    def chosen(self, name: object, choose: Callable[[str], bool]) -> I32:
        """Numbers of the texts that ``choose`` keeps, ascending. ``name`` stands for the
        function: each text is asked about once under a name, as long as it is remembered."""
        with self._choosing:
            asked, numbers = self._choices.pop(name, (0, np.empty(0, dtype=np.int32)))
            count = len(self._texts)
            if asked < count:
                fresh = [n for n in range(asked, count) if choose(self._texts[n])]
                numbers = np.concatenate((numbers, np.array(fresh, dtype=np.int32)))
            while len(self._choices) >= _CHOICES_MAX:
                self._choices.pop(next(iter(self._choices)))
            self._choices[name] = (count, numbers)
            return numbers

    def __len__(self) -> int:
        return len(self._texts)
