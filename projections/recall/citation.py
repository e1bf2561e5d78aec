"""Whether an answer used a memory (abmind's citation detector, #824)."""

import re

from engramlog.projections.text.stop_words import STOP_WORDS

WINDOW = 20
STEP = 10
SHARED_WORDS_MIN = 5
WORD_LENGTH_MIN = 4

_WORD = re.compile(r"[^\W_]+")


def is_cited(memory: str, answer: str) -> bool:
    """Whether ``answer`` repeats 20 characters of ``memory`` (checked at every tenth), or shares
    five of its words of four letters or more, stop-words excluded. Ignores case and the width of
    white space."""
    said, answered = _plain(memory), _plain(answer)
    if any(said[at : at + WINDOW] in answered for at in range(0, len(said) - WINDOW + 1, STEP)):
        return True
    return len(_words(said) & _words(answered)) >= SHARED_WORDS_MIN


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _words(text: str) -> set[str]:
    return {
        word
        for word in _WORD.findall(text)
        if len(word) >= WORD_LENGTH_MIN and word not in STOP_WORDS
    }
