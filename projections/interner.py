"""Text to small numbers and back; append-only, so a number never changes its meaning."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.text_table import TextTable, key_of

_CHOICES_MAX = 64


class Interner:
    """Numbers texts 0, 1, 2 … in order of first appearance. One thread adds; any may read. The
    first texts may lie in a sealed table; ``rest`` swaps in another copy of it."""

    def __init__(self) -> None:
        self.sealed = TextTable()
        self._first = 0
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._choices: dict[object, tuple[int, I32]] = {}
        self._choosing = threading.Lock()

    def rest(self, sealed: TextTable) -> None:
        """Keep the first texts in a table: all current ones, or as many as before."""
        self.sealed = sealed
        self._first = len(sealed)

    def fill(self, texts: Sequence[str]) -> None:
        """Give these texts the first numbers; an empty one is a gap."""
        self._texts += texts
        self._numbers.update((text, number) for number, text in enumerate(texts) if text)

    def add(self, text: str) -> int:
        """The number of ``text``; a new text gets a new number."""
        number = self._numbers.get(text)
        if number is None and self._first:
            number = self.sealed.number(key_of(text))
        if number is None:
            number = self._first + len(self._texts)
            self._texts.append(text)
            self._numbers[text] = number
        return number

    def number(self, text: str) -> int | None:
        """The number of ``text``, or None if it never appeared."""
        number = self._numbers.get(text)
        return self.sealed.number(key_of(text)) if number is None and self._first else number

    def numbered(self, text: str) -> int:
        """The number of a known text. Raises KeyError for an unknown one."""
        number = self.number(text)
        if number is None:
            raise KeyError(text)
        return number

    def text(self, number: int) -> str:
        """The text of a number. Raises IndexError for an unknown one."""
        if number < self._first:
            return self.sealed.text(number)
        return self._texts[number - self._first]

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """The texts of numbers, in the given order. Raises IndexError for an unknown one."""
        if not self._first:
            texts = self._texts
            return [texts[number] for number in numbers]
        return [self.text(number) for number in numbers]

    def since(self, start: int) -> list[str]:
        """All texts from a number on."""
        return list(self._since(start))

    def _since(self, start: int) -> Iterator[str]:
        yield from self.sealed.texts(start)
        yield from self._texts[max(0, start - self._first) :]

    def texts_between(self, numbers: I32, after: str, last: str) -> list[str]:
        """The texts of numbers that sort after ``after``, up to ``last``."""
        sealed = numbers < self._first
        kept = self.sealed.between(numbers[sealed], key_of(after), key_of(last))
        fresh = self.texts(numbers[~sealed].tolist())
        return self.texts(kept.tolist()) + [each for each in fresh if after < each <= last]

    def chosen(self, name: object, choose: Callable[[str], bool]) -> I32:
        """Numbers of the texts that ``choose`` keeps, ascending. ``name`` identifies the function:
        its result for each text is cached under it."""
        with self._choosing:
            asked, numbers = self._choices.pop(name, (0, np.empty(0, dtype=np.int32)))
            count = len(self)
            if asked < count:
                texts = islice(self._since(asked), count - asked)
                fresh = [n for n, text in enumerate(texts, asked) if choose(text)]
                numbers = np.concatenate((numbers, np.array(fresh, dtype=np.int32)))
            while len(self._choices) >= _CHOICES_MAX:
                self._choices.pop(next(iter(self._choices)))
            self._choices[name] = (count, numbers)
            return numbers

    def __len__(self) -> int:
        return self._first + len(self._texts)
