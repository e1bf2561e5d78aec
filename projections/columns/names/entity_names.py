"""Entities by the words of their display names, as questions may name them."""

import re
import threading

from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display

_WORDS = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The runs of letters and digits in a text, case folded."""
    return _WORDS.findall(text.casefold())


def phrase_of(entity: str) -> str:
    """The words of an entity's display name, separated by spaces: ``new york`` for
    ``place:new-york``; empty if it has none."""
    return " ".join(words_of(entity_display(entity)))


class EntityNames:
    """Numbers of entities by display name. Built on the first request, because not every node needs
    it; afterwards it only grows. Safe from any thread."""

    def __init__(self, entities: Interner) -> None:
        self._entities = entities
        self._numbers: dict[str, list[int]] = {}
        self._done = 0
        self._lock = threading.Lock()

    def numbers(self, phrase: str) -> list[int]:
        """Entities with exactly this display name, in order of first appearance."""
        with self._lock:
            count = len(self._entities)
            for number in range(self._done, count):
                name = phrase_of(self._entities.text(number))
                self._numbers.setdefault(name, []).append(number)
            self._done = count
            return list(self._numbers.get(phrase, ()))
