"""WordPiece as in BERT's uncased models: a text to the numbers of its word pieces.

The result equals that of the `tokenizers` library, number for number; tests compare the two. That
library would add a model hub's client and 27 MB.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain

from engramlog.projections.embedding.providers.bundled.character_classes import (
    DROPPED,
    IDEOGRAPHS,
    PUNCTUATION,
    SPACES,
)

WORD_CHARACTERS_MAX = 100
"""A longer word is unknown."""
WORDS_KEPT = 20_000
"""How many words keep their pieces in a cache."""
CHARACTERS_KEPT = 10_000
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Special tokens that a text may contain, as in the library."""


class WordPiece:
    """The tokenizer with a vocabulary. Safe from several threads."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._longest = max(map(len, vocabulary))
        self._unknown = [vocabulary["[UNK]"]]
        self._characters = _Characters()
        self._special = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
        self._remembered = lru_cache(WORDS_KEPT)(self._pieces)

    def encode(self, text: str, limit: int) -> list[int]:
        """The numbers, between those of [CLS] and [SEP]; ``limit`` counts all of them."""
        numbers = [self._vocabulary["[CLS]"]]
        for n, part in enumerate(self._special.split(text)):
            if len(numbers) >= limit:
                break
            if n % 2:
                numbers.append(self._vocabulary[part])
                continue
            for word in part.translate(self._characters).split(" "):
                if len(numbers) >= limit:
                    break
                if len(word) > WORD_CHARACTERS_MAX:
                    numbers += self._unknown
                elif word:
                    numbers += self._remembered(word)
        return [*numbers[: limit - 1], self._vocabulary["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece at the start of the word, then of the rest, and so on."""
        numbers: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._vocabulary.get(prefix + word[start:end])
                if number is not None:
                    numbers.append(number)
                    start, prefix = end, "##"
                    break
            else:
                return self._unknown
        return numbers


class _Characters(dict[int, str]):
    """For ``str.translate``: the replacement of a character, computed on first use."""

    def __missing__(self, code: int) -> str:
        text = _replacement(code)
        if len(self) < CHARACTERS_KEPT:
            self[code] = text
        return text


def _replacement(code: int) -> str:
    """Spaces around characters that are words by themselves, no accents, small letters."""
    if _SPACES.has(code):
        return " "
    if _DROPPED.has(code):
        return ""
    parts = unicodedata.normalize("NFD", chr(code))
    small = "".join(part.lower() for part in parts if not _DROPPED.has(ord(part)))
    alone = _IDEOGRAPHS.has(code) or any(_PUNCTUATION.has(ord(part)) for part in small)
    return f" {small} " if alone else small


class _Ranges:
    """Code points as ranges, first and last."""

    def __init__(self, text: str) -> None:
        ends = (each.split("-") for each in text.split())
        pairs = [(int(each[0], 16), int(each[-1], 16) + 1) for each in ends]
        self._bounds = list(chain.from_iterable(pairs))

    def has(self, code: int) -> bool:
        return bisect_right(self._bounds, code) % 2 == 1


_SPACES, _IDEOGRAPHS = _Ranges(SPACES), _Ranges(IDEOGRAPHS)
_PUNCTUATION, _DROPPED = _Ranges(PUNCTUATION), _Ranges(DROPPED)
