"""Entities by the words of their display names, as questions may name them."""

import re
import threading
from collections.abc import Iterable

from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display
from engramlog.projections.text.stop_words import STOP_WORDS

_WORDS = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The runs of letters and digits in a text, case folded."""
    return _WORDS.findall(text.casefold())


def phrase_of(entity: str) -> str:
    """The words of an entity's display name, separated by spaces: ``new york`` for
    ``place:new-york``; empty if it has none."""
    return " ".join(words_of(entity_display(entity)))


class EntityNames:
    """Numbers of entities by display name, and the other way. Built on the first request, because
    not every node needs it; afterwards it only grows. Safe from any thread."""

    def __init__(self, entities: Interner) -> None:
        self._entities = entities
        self._numbers: dict[str, list[int]] = {}
        self._phrases: list[str] = []
        self._lock = threading.Lock()

    def numbers(self, phrase: str) -> list[int]:
        """Entities with exactly this display name, in order of first appearance."""
        self._grow()
        return list(self._numbers.get(phrase, ()))

    def spelled_out(self, text: str, numbers: Iterable[int]) -> list[int]:
        """Those of the entities whose display name is in a text and is more than stop-words."""
        self._grow()
        words, phrases = f" {' '.join(words_of(text))} ", self._phrases
        return [
            number
            for number in numbers
            if (phrase := phrases[number]) in words  # few are: the rest is not looked at
            and f" {phrase} " in words
            and not STOP_WORDS.issuperset(phrase.split())
        ]

    def _grow(self) -> None:
        if len(self._phrases) == len(self._entities):
            return
        with self._lock:
            for number in range(len(self._phrases), len(self._entities)):
                phrase = phrase_of(self._entities.text(number))
                known = self._numbers.setdefault(phrase, [])
                known.append(number)
                self._phrases.append(phrase)
