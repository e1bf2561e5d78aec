"""Entities by the words of their display names, as questions may name them."""

import re
import threading
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from functools import cache, reduce

import numpy as np

from engramlog.projections.arrays import I32
from engramlog.projections.columns.substring_index import strip_diacritics
from engramlog.projections.interner import Interner
from engramlog.projections.normalization import entity_display
from engramlog.projections.text.scripts import WORD, in_letters, is_unspaced
from engramlog.projections.text.stop_words import STOP_WORDS

_WORD = re.compile(r"[^\W_]+")
_LATIN = "A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_ACCENTED = re.compile(f"(?<![{_LATIN}])[A-Za-z]*[\u00c0-\u024f\u1e00-\u1eff][{_LATIN}]*")
_DECOMPOSED = re.compile(f"[{_LATIN}][\u0300-\u036f]{{1,4}}")


def words_of(text: str) -> list[str]:
    """The runs of letters and digits in a text, case folded and without accents, as in full-text
    search; letter by letter in scripts without spaces, and without endings in scripts that
    ``in_letters`` knows. Only what would become a stop-word keeps its accents: ``Mỹ`` is a name."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return WORD.findall(_ACCENTED.sub(_without_accents, _composed(text)).casefold())


def _accented_words_of(text: str) -> list[str]:
    """``words_of`` a text, with the accents."""
    return words_of(text) if text.isascii() else WORD.findall(_composed(text).casefold())


def _composed(text: str) -> str:
    return in_letters(_DECOMPOSED.sub(lambda run: unicodedata.normalize("NFC", run[0]), text))


def _without_accents(run: re.Match[str]) -> str:
    plain = run[0].translate(_plain_letters())
    if plain.lower() not in STOP_WORDS:
        return plain
    first, end = run.span()
    around = run.string[max(0, first - 1) : end + 1].casefold()
    return run[0] if run[0].casefold() in WORD.findall(around) else plain


@cache
def _plain_letters() -> dict[int, str]:
    accented = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    return {letter: strip_diacritics(chr(letter)) for letter in accented}


def name_of(words: Sequence[str]) -> list[str]:
    """``words_of`` a name, to compare it: they keep accents only if they would be nothing but
    stop-words. ``Mỹ Linh`` may be written ``My Linh``, and ``Mỹ`` may not."""
    plain = _plain(words)
    return list(words) if STOP_WORDS.issuperset(plain) else plain


def phrases_in(text: str) -> str:
    """A text's words between spaces, with each ``name_of`` words that it may hold."""
    words = words_of(text)
    plain = _plain(words)
    return f" {' '.join(words)} " if words == plain else f" {' '.join((*words, '', *plain))} "


def _plain(words: Sequence[str]) -> list[str]:
    if all(map(str.isascii, words)):
        return list(words)
    return [
        word if word.isascii() or (plain := strip_diacritics(word)) not in STOP_WORDS else plain
        for word in words
    ]


def phrase_of(entity: str) -> str:
    """The ``name_of`` an entity's display name, separated by spaces: ``new york`` for
    ``place:new-york``; empty if it has none."""
    return " ".join(name_of(words_of(entity_display(entity))))


def names_something(words: Sequence[str]) -> bool:
    """Whether a text with these words may hold them as a name: they are more than stop-words, and
    more than one letter of a script without spaces, which is in many words."""
    return not STOP_WORDS.issuperset(words) and not (len(words) == 1 and is_unspaced(words[0]))


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
        """Those of the entities whose display name is in a text and is more than stop-words. Of
        José and Jose, the one that the text has as it is written, or both."""
        self._grow()
        words, phrases = phrases_in(text), self._phrases
        found: dict[str, list[int]] = {}
        for number in numbers:
            phrase = phrases[number]
            # few are in the words at all: the rest is not looked at
            if phrase in words and f" {phrase} " in words and names_something(phrase.split()):
                found.setdefault(strip_diacritics(self._entities.text(number)), []).append(number)
        if all(len(alike) == 1 for alike in found.values()):
            return [number for alike in found.values() for number in alike]
        written = f" {' '.join(_accented_words_of(text))} "
        return [
            number
            for alike in found.values()
            for number in [each for each in alike if self._accented(each) in written] or alike
        ]

    def _accented(self, number: int) -> str:
        return f" {' '.join(_accented_words_of(entity_display(self._entities.text(number))))} "

    def _grow(self) -> None:
        if len(self._phrases) == len(self._entities):
            return
        with self._lock:
            for number in range(len(self._phrases), len(self._entities)):
                phrase = phrase_of(self._entities.text(number))
                known = self._numbers.setdefault(phrase, [])
                known.append(number)
                self._phrases.append(phrase)


class NameWords:
    """The numbers of names by each word of their display name. Built on the first request, because
    not every node needs it; afterwards it only grows. Safe from any thread."""

    def __init__(self, names: Interner) -> None:
        self._names = names
        self._holding: dict[str, array[int]] = {}
        self._read = 0
        self._lock = threading.Lock()

    def numbers(self, words: Sequence[str]) -> I32:
        """The names with all of these ``words_of`` a text, ascending; none without words."""
        with self._lock:
            count = len(self._names)  # once: the writer may add one meanwhile
            for number in range(self._read, count):
                own = words_of(entity_display(self._names.text(number)))
                for each in {*own, *_plain(own)}:
                    self._holding.setdefault(each, array("i")).append(number)
            self._read = count
            held = [self._holding.get(word, ()) for word in name_of(words)]
            lists = [np.array(numbers, dtype=np.int32) for numbers in held]
        return reduce(np.intersect1d, lists) if lists else np.empty(0, dtype=np.int32)
