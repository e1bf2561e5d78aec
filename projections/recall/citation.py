"""Whether an answer used a memory (abmind's citation detector, #824)."""

import re

from engramlog.projections.text.stop_words import STOP_WORDS

WINDOW = 20
STEP = 10
SHARED_WORDS_MIN = 5
WORD_LENGTH_MIN = 4

_WORD = re.compile(r"[^\W_]+")


class GivenAnswer:
    """The text of an answer, cut up once for any number of memories."""

    def __init__(self, text: str) -> None:
        plain = _plain(text)
        self._windows = {plain[at : at + WINDOW] for at in range(len(plain) - WINDOW + 1)}
        self._words = _words(plain)

    def cites(self, memory: str) -> bool:
        """Whether the answer repeats 20 characters of ``memory`` (checked at every tenth), or
        shares five of its words of four letters or more, stop-words excluded. Ignores case and the
        width of white space."""
        said = _plain(memory)
        begins = range(0, len(said) - WINDOW + 1, STEP)
        if any(said[at : at + WINDOW] in self._windows for at in begins):
            return True
        return len(_words(said) & self._words) >= SHARED_WORDS_MIN


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> set[str]:
    return {
        word
        for word in _WORD.findall(text)
        if len(word) >= WORD_LENGTH_MIN and word not in STOP_WORDS
    }
